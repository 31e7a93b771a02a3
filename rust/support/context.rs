// SPDX-License-Identifier: GPL-2.0

//! What a Call carries through nfsd in `rq_xprt_ctxt`.

use kernel::ffi::c_void;

/// An owner that C keeps as a pointer while nfsd works on a Call, and whose memory may hold the
/// head of the Call meanwhile.
///
/// # Safety
///
/// - `into_raw` returns a pointer that is not null, and `from_raw` takes it back.
/// - The bytes that `message` names stay where they are, belong to this context alone, and may be
///   read and written, from before `into_raw` until the context that `from_raw` returned is
///   dropped. No reference to them lives while C has the context.
pub unsafe trait Context: Send + Sized {
    /// What belongs to the Call beside its message.
    type State;

    /// Gives the context to C.
    fn into_raw(self) -> *mut c_void;

    /// Takes the context back.
    ///
    /// # Safety
    ///
    /// - `ptr` comes from [`Context::into_raw`] of the same type.
    /// - It has not been taken back before.
    unsafe fn from_raw(ptr: *mut c_void) -> Self;

    /// What belongs to the Call beside its message.
    fn state_mut(&mut self) -> &mut Self::State;

    /// The start and the length of the received message.
    fn message_raw(&self) -> (*mut u8, usize);
}

// SPDX-License-Identifier: GPL-2.0

//! The context of a Call, which C holds in `rq_xprt_ctxt` while nfsd processes the Call.
//!
//! `rdma` implements [`Context`] for its Receive buffers and `sunrpc` stores them in requests, so
//! the trait is below both.
//!
//! C header: [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h)

use kernel::ffi::c_void;

/// The owner of a received message, which C holds as a pointer while nfsd processes the Call.
///
/// The head of the Call may lie in the message, see `sunrpc::rqst::Arg`.
///
/// # Safety
///
/// - `into_raw` returns a pointer that is not null, and `from_raw` makes the same context of it.
/// - The bytes that `message_raw` returns do not move, are valid for reads and writes, and belong
///   to this context alone. That holds from before `into_raw` until the context that `from_raw` has
///   returned is dropped.
/// - No reference to these bytes exists while C holds the context.
pub unsafe trait Context: Send + Sized {
    /// The data of the class that belong to the Call, beside its message.
    type State;

    /// Converts the context to a pointer, which owns it.
    fn into_raw(self) -> *mut c_void;

    /// Converts a pointer back to the context.
    ///
    /// # Safety
    ///
    /// - `ptr` comes from [`Context::into_raw`] of the same type.
    /// - `ptr` was not converted back before.
    unsafe fn from_raw(ptr: *mut c_void) -> Self;

    /// Returns the data of the class that belong to the Call.
    fn state_mut(&mut self) -> &mut Self::State;

    /// Returns the address of the received message and its length in bytes.
    fn message_raw(&self) -> (*mut u8, usize);
}

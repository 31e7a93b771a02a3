// SPDX-License-Identifier: GPL-2.0

//! Received messages.

use crate::{
    receive_buffer::{
        Buffer,
        State,
        RECEIVE_SIZE, //
    },
    receive_pool::ReceivePool, //
};
use core::{
    mem::ManuallyDrop,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull, //
};
use kernel::{
    ffi::c_void,
    sync::{
        Arc,
        ArcBorrow, //
    },
};
use support::context::Context;

/// A message that was received, and its buffer; dropping it posts the buffer again.
///
/// # Invariants
///
/// `buffer` is lent and belongs to this value alone, which also owns a reference to its pool.
pub struct Receive<S: State> {
    buffer: NonNull<Buffer<S>>,
}

// SAFETY: The buffer belongs to this value alone, and what is in it is `Send`.
unsafe impl<S: State> Send for Receive<S> {}

impl<S: State> Receive<S> {
    /// Takes `buffer` from the device of `qp`.
    ///
    /// # Safety
    ///
    /// A completion says that `buffer` of `pool` is not posted any more to `qp`, which is live.
    pub(super) unsafe fn complete(
        pool: ArcBorrow<'_, ReceivePool<S>>,
        buffer: NonNull<Buffer<S>>,
        qp: *mut bindings::ib_qp,
    ) -> Self {
        let raw = buffer.as_ptr();
        // SAFETY: By the safety requirements of this function nobody else has the buffer.
        let addr = unsafe {
            (*raw).lent = true;
            (*raw).len = 0;
            (*raw).sge.addr
        };
        // SAFETY: As above; the buffer is mapped for the device of its queue pair.
        unsafe { bindings::ib_dma_sync_receive((*qp).device, addr, false) };
        pool.on_completed();
        // INVARIANT: By the safety requirements of this function; `drop` puts the reference.
        core::mem::forget(Arc::from(pool));
        Self { buffer }
    }

    /// Sets the length of the message, in bytes, that the device has reported.
    pub(super) fn set_len(&mut self, len: usize) {
        // SAFETY: By the type invariant.
        unsafe { (*self.buffer.as_ptr()).len = len.min(RECEIVE_SIZE) };
    }

    /// The bytes of the message.
    pub fn message(&self) -> &[u8] {
        let (start, len) = self.message_raw();
        // SAFETY: By the type invariant; the device has written `len` bytes, and whoever wrote to
        // them since had the context, so that this value was not there.
        unsafe { core::slice::from_raw_parts(start, len) }
    }

    /// The bytes of the message and what belongs to the Call.
    pub fn parts_mut(&mut self) -> (&[u8], &mut S) {
        let (start, len) = self.message_raw();
        // SAFETY: As in `message`; the state is beside the page that the bytes are in.
        unsafe {
            (
                core::slice::from_raw_parts(start, len),
                &mut (*self.buffer.as_ptr()).state,
            )
        }
    }
}

// SAFETY: `into_raw` and `from_raw` are inverse; the page of a buffer stays where it is and belongs
// to the `Receive`; references to it end with the borrow of the `Receive`, which `into_raw` takes.
unsafe impl<S: State> Context for Receive<S> {
    type State = S;

    fn into_raw(self) -> *mut c_void {
        // The reference to the pool goes with it.
        ManuallyDrop::new(self).buffer.as_ptr().cast()
    }

    unsafe fn from_raw(ptr: *mut c_void) -> Self {
        // INVARIANT: As it was before `into_raw`.
        Self {
            // SAFETY: By the safety requirements of this function it comes from `into_raw`.
            buffer: unsafe { NonNull::new_unchecked(ptr.cast()) },
        }
    }

    fn state_mut(&mut self) -> &mut S {
        self
    }

    fn message_raw(&self) -> (*mut u8, usize) {
        let raw = self.buffer.as_ptr();
        // SAFETY: By the type invariant.
        unsafe { ((*raw).page.address(), (*raw).len) }
    }
}

impl<S: State> Deref for Receive<S> {
    type Target = S;

    fn deref(&self) -> &S {
        // SAFETY: By the type invariant.
        unsafe { &(*self.buffer.as_ptr()).state }
    }
}

impl<S: State> DerefMut for Receive<S> {
    fn deref_mut(&mut self) -> &mut S {
        // SAFETY: By the type invariant.
        unsafe { &mut (*self.buffer.as_ptr()).state }
    }
}

impl<S: State> Drop for Receive<S> {
    fn drop(&mut self) {
        S::reset(self);
        // SAFETY: By the type invariant; the reference goes with this value.
        let pool = unsafe { Arc::from_raw((*self.buffer.as_ptr()).pool.cast::<ReceivePool<S>>()) };
        // SAFETY: By the type invariant; this value is gone.
        unsafe { pool.recycle(self.buffer) };
    }
}

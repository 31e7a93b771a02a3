// SPDX-License-Identifier: GPL-2.0

//! Received messages.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::recv::{
    buffer::{
        Buffer,
        State, //
        RECEIVE_SIZE,
    },
    pool::ReceivePool, //
};
use core::{
    mem::ManuallyDrop,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull, //
};
use kernel::ffi::c_void;
use support::context::Context;

/// A received message in its Receive buffer, with the ULP's data.
///
/// A [`Handler`](crate::handler::Handler) gets it, and may keep it or pass it to another thread. It
/// dereferences to the data of type `S`. Dropping it resets that data and gives the buffer back to
/// its [`ReceivePool`], which posts it again, in any process
/// context and without sleeping. A `Receive` may outlive its connection; its buffer is then freed
/// when it is dropped.
///
/// # Invariants
///
/// `buffer` is live, `lent`, and belongs to this value alone.
pub struct Receive<S: State> {
    buffer: NonNull<Buffer<S>>,
}

// SAFETY: The buffer belongs to this value alone, and its page and its state are `Send`.
unsafe impl<S: State> Send for Receive<S> {}

impl<S: State> Receive<S> {
    /// Takes over `buffer`, whose Receive has completed, and syncs it for the CPU. Does not sleep.
    ///
    /// # Safety
    ///
    /// - `device` is registered, and `buffer` is mapped for it.
    /// - `buffer` was posted. The caller handles its completion, and nobody else uses the buffer.
    #[inline]
    pub(crate) unsafe fn complete(
        buffer: NonNull<Buffer<S>>,
        device: *mut bindings::ib_device,
    ) -> Self {
        let raw = buffer.as_ptr();
        // SAFETY: By the safety requirements of this function the buffer is live and nobody else
        // uses it.
        let addr = unsafe {
            (*raw).lent = true;
            (*raw).len = 0;
            (*raw).sge.addr
        };
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::ib_dma_sync_receive(device, addr, false) };
        // INVARIANT: `buffer` is live and nobody else uses it by the safety requirements of this
        // function; `lent` was set above.
        Self { buffer }
    }

    /// Sets the length of the message to `len` bytes, [`RECEIVE_SIZE`] at most. The device has
    /// written these bytes.
    #[inline]
    pub(crate) fn set_len(&mut self, len: usize) {
        // SAFETY: The buffer belongs to this value by the type invariant.
        unsafe { (*self.buffer.as_ptr()).len = len.min(RECEIVE_SIZE) };
    }

    /// Returns the bytes of the message.
    #[inline]
    pub fn message(&self) -> &[u8] {
        let (start, len) = self.message_raw();
        // SAFETY: The page belongs to this value by the type invariant, and the device has
        // initialised `len` bytes. Others write to them only between `into_raw` and `from_raw`.
        unsafe { core::slice::from_raw_parts(start, len) }
    }

    /// Returns the bytes of the message, and the data of the ULP to change.
    #[inline]
    pub fn parts_mut(&mut self) -> (&[u8], &mut S) {
        let (start, len) = self.message_raw();
        // SAFETY: As in `message`.
        let message = unsafe { core::slice::from_raw_parts(start, len) };
        // SAFETY: The buffer belongs to this value by the type invariant. `message` is in the page
        // and not in the buffer itself, so the references do not overlap.
        (message, unsafe { &mut (*self.buffer.as_ptr()).state })
    }
}

// SAFETY: `from_raw` is the inverse of `into_raw`, whose result is not null. The page of a buffer
// stays in place and belongs to the `Receive`. References to the bytes borrow the `Receive`, which
// `into_raw` consumes.
unsafe impl<S: State> Context for Receive<S> {
    type State = S;

    #[inline]
    fn into_raw(self) -> *mut c_void {
        ManuallyDrop::new(self).buffer.as_ptr().cast()
    }

    #[inline]
    unsafe fn from_raw(ptr: *mut c_void) -> Self {
        // INVARIANT: The invariant held in `into_raw`, and the buffer has belonged to the pointer
        // since.
        Self {
            // SAFETY: By the safety requirements of this function `ptr` comes from `into_raw`,
            // which returns no null pointer.
            buffer: unsafe { NonNull::new_unchecked(ptr.cast()) },
        }
    }

    #[inline]
    fn state_mut(&mut self) -> &mut S {
        self
    }

    #[inline]
    fn message_raw(&self) -> (*mut u8, usize) {
        let raw = self.buffer.as_ptr();
        // SAFETY: The buffer belongs to this value by the type invariant.
        unsafe { ((*raw).start, (*raw).len) }
    }
}

impl<S: State> Deref for Receive<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        // SAFETY: The buffer belongs to this value by the type invariant.
        unsafe { &(*self.buffer.as_ptr()).state }
    }
}

impl<S: State> DerefMut for Receive<S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut S {
        // SAFETY: The buffer belongs to this value by the type invariant.
        unsafe { &mut (*self.buffer.as_ptr()).state }
    }
}

impl<S: State> Drop for Receive<S> {
    #[inline]
    fn drop(&mut self) {
        S::reset(self);
        // SAFETY: The buffer is `lent` by the type invariant, and this value does not use it any
        // more.
        unsafe { ReceivePool::recycle(self.buffer) };
    }
}

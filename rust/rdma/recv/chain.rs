// SPDX-License-Identifier: GPL-2.0

//! Chains: lists of Receive buffers, linked by their work requests so that one call posts them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::recv::buffer::{
    Buffer,
    State, //
};
use core::{
    marker::PhantomData,
    ptr::{
        null,
        null_mut,
        NonNull, //
    },
};

/// A list of buffers, linked by the field `next` of their work requests. The lock of a
/// [`ReceivePool`](crate::recv::pool::ReceivePool) protects it.
///
/// # Invariants
///
/// - `first` is null, or points to the work request of a live `Buffer<S>`. So does `next` of each
///   work request in the list.
/// - If `first` is not null, `last` points to the last work request of the list.
/// - The buffers stay in place, and nobody else uses them.
pub(crate) struct ReceiveChain<S: State> {
    first: *mut bindings::ib_recv_wr,
    last: *mut bindings::ib_recv_wr,
    _buffers: PhantomData<*mut Buffer<S>>,
}

impl<S: State> ReceiveChain<S> {
    /// Creates an empty list.
    pub(crate) const fn new() -> Self {
        Self {
            first: null_mut(),
            last: null_mut(),
            _buffers: PhantomData,
        }
    }

    /// Returns true if the list has no buffer.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Adds a buffer at the end.
    ///
    /// # Safety
    ///
    /// - `buffer` is live and in no list.
    /// - Until it is removed, or the list is dropped, it stays in place and nobody else uses it.
    pub(crate) unsafe fn push(&mut self, buffer: NonNull<Buffer<S>>) {
        // SAFETY: By the safety requirements of this function.
        let wr = unsafe { &raw mut (*buffer.as_ptr()).wr };
        // SAFETY: `wr` belongs to the buffer, which nobody else uses.
        unsafe { (*wr).next = null_mut() };
        // INVARIANT: `wr` is the work request of a live buffer, and the last one of the list.
        if self.first.is_null() {
            self.first = wr
        } else {
            // SAFETY: `last` is valid by the type invariant, as the list is not empty.
            unsafe { (*self.last).next = wr }
        }
        self.last = wr;
    }

    /// Removes the first buffer and returns it.
    pub(crate) fn pop(&mut self) -> Option<NonNull<Buffer<S>>> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: `first` is not null, so it is valid by the type invariant.
        let (wr, next) = unsafe { (self.first, (*self.first).next) };
        // INVARIANT: `next` begins the rest of the list.
        self.first = next;
        // CAST: `wr_cqe` points to the first field of the `repr(C)` buffer, see `Buffer::new`.
        // SAFETY: `wr` is valid by the type invariant, and `Buffer::new` has set its `wr_cqe`.
        NonNull::new(unsafe { (*wr).__bindgen_anon_1.wr_cqe.cast::<Buffer<S>>() })
    }

    /// Posts all buffers with one call, and removes those that were posted. Returns their number.
    /// Does not sleep.
    ///
    /// If the driver reports an error, the buffers that were not posted stay in the list.
    ///
    /// # Safety
    ///
    /// - `qp` is live, and the buffers are mapped for its device.
    /// - The buffers live until they have completed or the queue pair is destroyed.
    pub(crate) unsafe fn post(&mut self, qp: NonNull<bindings::ib_qp>) -> u32 {
        if self.first.is_null() {
            return 0;
        }
        let mut bad: *const bindings::ib_recv_wr = null();
        // SAFETY: `qp` is live by the safety requirements of this function. The work requests and
        // their entries are valid by the type invariant.
        let error = unsafe { bindings::ib_post_recv(qp.as_ptr(), self.first, &mut bad) };
        let rest = if error == 0 { null() } else { bad };
        let mut count = 0u32;
        while !self.first.is_null() && !core::ptr::eq(self.first, rest) {
            count = count.saturating_add(1);
            // INVARIANT: `next` begins the rest of the list.
            // SAFETY: The buffer is live by the safety requirements of this function. It may have
            // completed meanwhile, but a completion does not change `next`, and the pool's lock
            // keeps `Receive::drop` from pushing the buffer to a list.
            self.first = unsafe { (*self.first).next };
        }
        count
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Lists of Receive buffers, linked as the chain of work requests that posts them.

use crate::receive_buffer::{
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

/// A list of buffers, linked by the `next` of their work requests.
///
/// # Invariants
///
/// `first` is null, or the work request of a live `Buffer<S>`, and so is the `next` of each; the last
/// of them is `last`. The list has these buffers for itself, and they stay where they are.
pub(super) struct ReceiveChain<S: State> {
    first: *mut bindings::ib_recv_wr,
    last: *mut bindings::ib_recv_wr,
    _buffers: PhantomData<*mut Buffer<S>>,
}

impl<S: State> ReceiveChain<S> {
    /// Makes an empty list.
    pub(super) const fn new() -> Self {
        Self {
            first: null_mut(),
            last: null_mut(),
            _buffers: PhantomData,
        }
    }

    /// Adds a buffer at the end.
    ///
    /// # Safety
    ///
    /// `buffer` is live and in no list; it stays, and is used by nobody, until it is taken out or the
    /// list is forgotten.
    pub(super) unsafe fn push(&mut self, buffer: NonNull<Buffer<S>>) {
        // SAFETY: By the safety requirements of this function.
        let wr = unsafe { &raw mut (*buffer.as_ptr()).wr };
        // SAFETY: As above.
        unsafe { (*wr).next = null_mut() };
        // INVARIANT: As just made.
        match self.first.is_null() {
            true => self.first = wr,
            // SAFETY: By the type invariant.
            false => unsafe { (*self.last).next = wr },
        }
        self.last = wr;
    }

    /// Takes the first buffer out.
    pub(super) fn pop(&mut self) -> Option<NonNull<Buffer<S>>> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: By the type invariant.
        let (wr, next) = unsafe { (self.first, (*self.first).next) };
        // INVARIANT: The rest of the list.
        self.first = next;
        // CAST: The name of a work request is the first field of the `repr(C)` buffer it is in.
        // SAFETY: By the type invariant; `Buffer::new` has set the name.
        NonNull::new(unsafe { (*wr).__bindgen_anon_1.wr_cqe.cast::<Buffer<S>>() })
    }

    /// Posts all buffers with one call, and takes those out that are posted; returns how many. Does not
    /// sleep.
    ///
    /// # Safety
    ///
    /// `qp` is live, the buffers are mapped for its device, and stay until their completion or until
    /// the queue pair is gone.
    pub(super) unsafe fn post(&mut self, qp: NonNull<bindings::ib_qp>) -> u32 {
        if self.first.is_null() {
            return 0;
        }
        let mut bad: *const bindings::ib_recv_wr = null();
        // SAFETY: By the safety requirements of this function, and by the type invariant: requests and
        // their entries are valid during the call.
        let error = unsafe { bindings::ib_post_recv(qp.as_ptr(), self.first, &mut bad) };
        let rest = if error == 0 { null() } else { bad };
        let mut count = 0u32;
        while !self.first.is_null() && !core::ptr::eq(self.first, rest) {
            count = count.saturating_add(1);
            // INVARIANT: The rest of the list.
            // SAFETY: By the type invariant. The buffer may have completed meanwhile; what its
            // completion does not touch is `next`, and its pool's lock keeps others out.
            self.first = unsafe { (*self.first).next };
        }
        count
    }
}

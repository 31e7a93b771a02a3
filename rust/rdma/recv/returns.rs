// SPDX-License-Identifier: GPL-2.0

//! Returned buffers: a list without a lock.
//!
//! A [`Receive`](crate::recv::receive::Receive) that is dropped adds its buffer to the list. The thread
//! that completes a batch takes all buffers, under the lock of the pool.
//!
//! The kernel's `llist.h` is such a list, but does not count its items.

use crate::recv::buffer::{
    Buffer,
    State, //
};
use core::{
    ptr::{
        null_mut,
        without_provenance_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicPtr,
        Ordering::{
            AcqRel,
            Acquire,
            Relaxed,
            Release, //
        },
    },
};

/// The bits of the head that have the number of buffers in the list, or all ones if there are more.
/// They are zero in the address of a buffer.
const COUNT: usize = align_of::<Aligned>() - 1;

/// The head of a closed list: a number without a buffer.
const CLOSED: usize = COUNT;

/// Aligns a buffer so that the bits of `COUNT` are zero in its address.
#[repr(align(64))]
pub(crate) struct Aligned;

/// A list of buffers, linked by their field `below`.
///
/// # Invariants
///
/// The head is `CLOSED`, or null, or points to the first buffer, with the number of buffers in the
/// bits of `COUNT`. The buffers are live, and nobody else uses them.
pub(crate) struct Returns<S: State> {
    head: AtomicPtr<Buffer<S>>,
}

/// The list takes no more buffers.
pub(crate) struct Closed;

/// The buffers of a list. Those that are left when it is dropped are forgotten.
///
/// # Invariants
///
/// `first` is null, or points to a live buffer that nobody else uses, and so on with `below`.
pub(crate) struct Returned<S: State> {
    first: *mut Buffer<S>,
}

impl<S: State> Returns<S> {
    /// Creates an empty list.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There is no buffer.
        Self {
            head: AtomicPtr::new(null_mut()),
        }
    }

    /// Adds `buffer`. If the list has at least `batch` buffers with it, returns the result of
    /// `on_batch`, which is called before the buffer is added: from then on it may be freed at any
    /// time. In any context.
    ///
    /// # Errors
    ///
    /// Returns [`Closed`], and does not add the buffer, if the list is closed.
    ///
    /// # Safety
    ///
    /// `buffer` is live, is in no list, and nobody else uses it. The caller gives it up if it is
    /// added.
    #[inline]
    pub(crate) unsafe fn push<R>(
        &self,
        buffer: NonNull<Buffer<S>>,
        batch: u32,
        on_batch: impl Fn() -> R,
    ) -> Result<Option<R>, Closed> {
        let buffer = buffer.as_ptr();
        let mut head = self.head.load(Relaxed);
        loop {
            let count = head.addr() & COUNT;
            if head.addr() == CLOSED {
                return Err(Closed);
            }
            // SAFETY: The buffer is live, and nobody else uses it. The first buffer may be freed
            // meanwhile: then the exchange fails.
            unsafe { (*buffer).below = head.map_addr(|addr| addr & !COUNT) };
            let count = count.saturating_add(1).min(COUNT);
            // CAST: At most `COUNT`.
            let on_batch = (count as u32 >= batch).then(&on_batch);
            // INVARIANT: If the exchange succeeds, the list has one buffer more, above the one that
            // was the first. It is the first again if all were taken meanwhile and it was added.
            // Release makes the buffer visible to the thread that takes the list.
            let new = buffer.map_addr(|addr| addr | count);
            match self.head.compare_exchange(head, new, Release, Relaxed) {
                Ok(_) => return Ok(on_batch),
                Err(now) => head = now,
            }
        }
    }

    /// Takes all buffers. The caller holds the lock of the pool, and the list is not closed.
    pub(crate) fn take(&self) -> Returned<S> {
        // Acquire pairs with the Release of all pushes since the last time, as they are part of one
        // release sequence.
        Returned::of(self.head.swap(null_mut(), Acquire))
    }

    /// Closes the list, and takes all buffers. The caller holds the lock of the pool, and the list
    /// is not closed.
    pub(crate) fn close(&self) -> Returned<S> {
        // INVARIANT: The list is closed.
        Returned::of(self.head.swap(without_provenance_mut(CLOSED), AcqRel))
    }
}

impl<S: State> Returned<S> {
    /// Returns the buffers of the list with this head, which has given them up.
    fn of(head: *mut Buffer<S>) -> Self {
        // INVARIANT: By the type invariant of `Returns`.
        Self {
            first: head.map_addr(|addr| addr & !COUNT),
        }
    }
}

impl<S: State> Iterator for Returned<S> {
    type Item = NonNull<Buffer<S>>;

    #[inline]
    fn next(&mut self) -> Option<NonNull<Buffer<S>>> {
        let first = NonNull::new(self.first)?;
        // INVARIANT: `below` begins the rest.
        // SAFETY: `first` is live by the type invariant.
        self.first = unsafe { (*first.as_ptr()).below };
        Some(first)
    }
}

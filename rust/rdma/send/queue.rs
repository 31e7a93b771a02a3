// SPDX-License-Identifier: GPL-2.0

//! Send queues: the work of a connection, posted or waiting for room.
//!
//! A ULP posts [`Work`] of any kind, such as RDMA Reads of Calls and Replies, through the guard of
//! the lock, and the device gets it in that order. Work that needs more work requests than the queue pair has room for is posted piece
//! by piece.
//!
//! # Ownership of memory
//!
//! The device uses the memory of posted work, so the [`SendQueue`] owns the work meanwhile. The
//! work stays in the slot of its last work request. A completion of that work request or of a later
//! one gives the work back, because an unsignalled work request reports no completion. The
//! destruction of the queue pair gives back the rest.
//!
//! A completion stands for all earlier work requests only if work requests complete in order. iWARP
//! does not complete RDMA Reads in order with Sends. There the last work request of Reads is a
//! fenced and signalled invalidation of their memory region: work that registers memory and does
//! not invalidate it is never complete.
//!
//! A memory region becomes idle, so that it can be used again, only when the work that has
//! registered it has completed. The `SendQueue` decides that from its own records, and not from a
//! statement of the ULP.
//!
//! # Contexts and locking
//!
//! Each `SendQueue` has one spinlock; what it protects is reached through a [`SendGuard`]. Functions
//! may be called in any process context, completion handlers included; only [`SendQueue::new`] and
//! [`SendQueue::shut`] sleep. Posting, and the end of posting in `shut`, exclude each other by the
//! lock, as a drain requires.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    cm::{
        CmId,
        Events, //
    },
    completion::Completion,
    handler::Handler,
    qp::Qp,
    send::{
        inner::{
            Gate,
            Inner, //
        },
        progress::{
            Age,
            Load, //
        },
        work::Work, //
    },
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        SpinLock,
        SpinLockGuard, //
    },
};
use support::{
    figure::Figure,
    ring::Refused, //
};

pub use crate::send::inner::Stop;

/// The capacity of a [`SendQueue`].
pub struct Size {
    /// Work requests that can be posted at a time: the `depth` of its queue pair.
    pub depth: u32,
    /// Pieces of work that can wait.
    pub waiting: usize,
}

/// The work of a connection: posted to its queue pair, or waiting for room there.
///
/// The ULP makes it before it accepts the peer, and owns it, usually in the context of the
/// connection. Work can be posted at once, and waits until [`Self::open`]. The `SendQueue` owns the
/// queue pair and the id until [`Self::shut`], which a ULP must call to break the reference cycle
/// with their context.
///
/// # Examples
///
/// Posting and completing work. What is done with the guard is done under one acquisition of the
/// lock.
///
#[doc = "```ignore"]
#[doc = include_str!("../examples/uses/queue.rs")]
#[doc = "```"]
#[pin_data]
pub struct SendQueue<W: Work, H: Handler, E: Events> {
    /// True if work waits. Changed under the lock.
    has_waiting: Figure<bool>,
    #[pin]
    inner: SpinLock<Inner<W, H, E>>,
}

impl<W: Work, H: Handler, E: Events> SendQueue<W, H, E> {
    /// Creates an empty send queue that does not post yet. Its lock protects `state`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(size: &Size, state: W::State) -> Result<impl PinInit<Self>> {
        let inner = Inner::new(size.depth, size.waiting, state)?;
        Ok(pin_init!(Self {
            has_waiting: Figure::default(),
            inner <- new_spinlock!(inner, "svcrdma send queue"),
        }))
    }

    /// Acquires the spinlock. The caller must not sleep until it drops the guard.
    #[inline]
    pub fn lock(&self) -> SendGuard<'_, W, H, E> {
        SendGuard {
            has_waiting: &self.has_waiting,
            inner: self.inner.lock(),
        }
    }

    /// Returns true if work waits for room or for the queue pair. The answer may be out of date.
    #[inline]
    pub fn has_waiting(&self) -> bool {
        self.has_waiting.get()
    }

    /// Takes the queue pair that work is posted to from now on, and posts the waiting work. The
    /// queue pair must have the depth of this send queue.
    ///
    /// Called once. If it is called again, after [`Self::shut`], or with another depth, it drops
    /// `qp` instead, which sleeps.
    pub fn open(&self, qp: Qp<H, E>) -> Stop {
        let mut guard = self.lock();
        if guard.inner.can_open(&qp) {
            guard.inner.open(qp);
            return guard.resume();
        }
        drop(guard);
        // Without the lock, as this sleeps.
        drop(qp);
        Stop::Idle
    }

    /// Stops posting, disconnects, drains and destroys the queue pair. Then calls `f` for all work
    /// that is left: posted work, which may have completed or not, and waiting work.
    ///
    /// Returns the id, if there was a queue pair. A second call does nothing and may return before
    /// the first one. Sleeps; must not be called by a handler of completions or of the id.
    pub fn shut(&self, mut f: impl FnMut(W)) -> Option<CmId<E>> {
        let gate = self.inner.lock().close();
        let id = match gate {
            Gate::Closed => return None,
            // Waits until all posted work has completed. Nothing is posted any more.
            Gate::Open(qp) | Gate::Broken(qp) => Some(qp.end()),
            Gate::Opening => None,
        };
        while let Some(work) = self.take_any() {
            f(work);
        }
        id
    }

    /// Takes any work that is left. Releases the lock before it returns.
    fn take_any(&self) -> Option<W> {
        self.inner.lock().take_any()
    }
}

/// A locked [`SendQueue`].
///
/// Its owner must not sleep and must not lock the same send queue.
pub struct SendGuard<'a, W: Work, H: Handler, E: Events> {
    has_waiting: &'a Figure<bool>,
    inner: SpinLockGuard<'a, Inner<W, H, E>>,
}

impl<W: Work, H: Handler, E: Events> SendGuard<'_, W, H, E> {
    /// Returns the data of the ULP.
    #[inline]
    pub fn state(&mut self) -> &mut W::State {
        &mut self.inner.state
    }

    /// Adds work at the end of the queue, and posts all that can be posted. Returns the reason why
    /// no more was posted.
    ///
    /// # Errors
    ///
    /// Returns the work:
    ///
    /// - [`Refused::Full`] if too much work waits.
    /// - [`Refused::Closed`] if posting has failed or [`SendQueue::shut`] was called.
    #[inline]
    pub fn post(&mut self, work: W) -> Result<Stop, Refused<W>> {
        self.inner.post(work)
    }

    /// Takes the oldest work that `completion` stands for. Returns None, and marks the completion
    /// as [spent](Completion::is_spent), if there is no more. Failed and flushed work is given back by
    /// [`SendQueue::shut`] instead.
    ///
    /// The caller repeats this, under the same acquisition of the lock or another one, until the
    /// completion is spent, and then calls [`Self::resume`].
    #[inline]
    #[must_use = "dropping the work drops its memory, under the lock"]
    pub fn complete(&mut self, completion: &Completion) -> Option<W> {
        self.inner.complete(completion)
    }

    /// Posts waiting work until nothing waits or no more can be posted. Returns the reason.
    #[inline]
    pub fn resume(&mut self) -> Stop {
        self.inner.resume()
    }

    /// Iterates over all work, posted or waiting.
    pub fn work(&self) -> impl Iterator<Item = &W> {
        self.inner.work()
    }

    /// Returns the number of pages that completed RDMA Reads have filled so far, which wraps around.
    pub fn filled(&self) -> u32 {
        self.inner.filled()
    }

    /// Returns the load of the send queue.
    pub fn load(&self) -> Load {
        self.inner.load()
    }

    /// Notes that `seconds` seconds have passed since the last tick, and returns the time for which
    /// completions of the peer are awaited. `rate` is the minimum rate in bytes per second that is
    /// expected of the peer. A ULP calls this every few seconds.
    ///
    /// The time of waiting work that needs room is the time of the posted work before it. A tick
    /// requests a completion of unsignalled work that was posted some seconds ago.
    ///
    /// # Errors
    ///
    /// The driver's error. Nothing more is posted, and the ULP tears the connection down.
    pub fn tick(&mut self, seconds: u32, rate: u32) -> Result<Age> {
        self.inner.tick(seconds, rate)
    }
}

impl<W: Work, H: Handler, E: Events> Drop for SendGuard<'_, W, H, E> {
    #[inline]
    fn drop(&mut self) {
        self.has_waiting.set(self.inner.has_waiting());
    }
}

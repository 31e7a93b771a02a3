// SPDX-License-Identifier: GPL-2.0

//! Send queues: the work of a connection, posted or waiting for room.
//!
//! A ULP submits [`Work`] of any kind, such as RDMA Reads of Calls and Replies, and it is posted in
//! that order. Work that needs more work requests than the queue pair has room for is posted piece
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
//! Each `SendQueue` has one spinlock. Functions may be called in any process context, completion
//! handlers included; only [`SendQueue::new`] and [`SendQueue::shut`] sleep. Posting, and the end
//! of posting in `shut`, exclude each other by the lock, as a drain requires.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    cm::{
        CmId,
        Events, //
    },
    completion::Completion,
    handler::Handler,
    progress::{
        Age,
        Load, //
    },
    qp::Qp,
    send_inner::{
        Gate,
        Inner, //
    },
    work::Work, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};
use support::{
    figure::Figure,
    ring::Refused, //
};

pub use crate::send_inner::Stop;

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
/// connection. Work can be submitted at once and is posted after [`Self::open`]. The `SendQueue` owns
/// the queue pair and the id until [`Self::shut`], which a ULP must call to break the reference
/// cycle with their context.
///
/// # Examples
///
/// Submitting and completing work. Each function that adds work or makes room posts all that can be
/// posted, under the same acquisition of the lock.
///
/// ```ignore
/// fn submit(&self, work: Reply) -> Result<(), Reply> {
///     let (stop, ()) = self
///         .send_queue
///         .submit(work)
///         .map_err(Refused::into_inner)?;
///     self.follow(stop);
///     Ok(())
/// }
///
/// fn follow(&self, stop: Stop) {
///     match stop {
///         // A later completion makes room and posts the rest.
///         Stop::Idle | Stop::Full => {}
///         Stop::Failed(_) => self.queue_close(),
///     }
/// }
///
/// // In `Handler::sent`:
/// while let Some((work, stop)) = this.send_queue.complete(completion) {
///     this.follow(stop);
///     work.map(|work| this.pool.put(work));
/// }
/// ```
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

    /// Takes the queue pair that work is posted to from now on, and posts the waiting work. The
    /// queue pair must have the depth of this send queue.
    ///
    /// Called once. If it is called again, after [`Self::shut`], or with another depth, it drops
    /// `qp` instead, which sleeps.
    pub fn open(&self, qp: Qp<H, E>) -> Stop {
        let mut inner = self.inner.lock();
        if inner.can_open(&qp) {
            inner.open(qp);
            let stop = inner.resume();
            self.has_waiting.set(inner.has_waiting());
            return stop;
        }
        drop(inner);
        // Without the lock, as this sleeps.
        drop(qp);
        Stop::Idle
    }

    /// Adds work at the end of the queue, and posts all that can be posted. Returns the reason why
    /// no more was posted, and the result of [`Work::on_queued`].
    ///
    /// # Errors
    ///
    /// Returns the work:
    ///
    /// - [`Refused::Full`] if too much work waits.
    /// - [`Refused::Closed`] if posting has failed or [`Self::shut`] was called.
    #[inline]
    pub fn submit(&self, work: W) -> Result<(Stop, W::Queued), Refused<W>> {
        self.with_inner(|inner| inner.submit(work))
    }

    /// Takes work that has completed, the oldest first, and posts waiting work when all of it was
    /// taken. The caller repeats this until it returns `None`.
    ///
    /// Returns the piece of work that [`Work::retire`] has returned, if any, and the reason why no
    /// more was posted. Failed and flushed work is given back by [`Self::shut`] instead.
    #[inline]
    pub fn complete(&self, completion: &Completion) -> Option<(Option<W>, Stop)> {
        if completion.is_spent() {
            None
        } else {
            Some(self.with_inner(|inner| inner.complete(completion)))
        }
    }

    /// Posts waiting work until nothing waits or no more can be posted. Returns the reason.
    pub fn resume(&self) -> Stop {
        self.with_inner(Inner::resume)
    }

    /// Returns true if work waits for room or for the queue pair. The answer may be out of date.
    #[inline]
    pub fn has_waiting(&self) -> bool {
        self.has_waiting.get()
    }

    /// Calls `f`, which may change the waiting work, under the lock.
    #[inline]
    fn with_inner<R>(&self, f: impl FnOnce(&mut Inner<W, H, E>) -> R) -> R {
        let mut inner = self.inner.lock();
        let result = f(&mut inner);
        self.has_waiting.set(inner.has_waiting());
        result
    }

    /// Calls `f` with the data of the ULP that the lock protects. `f` must not sleep and must not
    /// call this send queue.
    #[inline]
    pub fn with_state<R>(&self, f: impl FnOnce(&mut W::State) -> R) -> R {
        f(&mut self.inner.lock().state)
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

    /// Returns the load of the send queue.
    pub fn load(&self) -> Load {
        self.inner.lock().load()
    }

    /// Calls `f` for all work, posted or waiting. `f` runs under the spinlock: it must not sleep
    /// and must not call this send queue.
    ///
    /// Returns the number of pages that completed RDMA Reads have filled so far, which wraps
    /// around.
    pub fn survey(&self, f: impl FnMut(&W)) -> u32 {
        self.inner.lock().survey(f)
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
    pub fn tick(&self, seconds: u32, rate: u32) -> Result<Age> {
        self.inner.lock().tick(seconds, rate)
    }
}

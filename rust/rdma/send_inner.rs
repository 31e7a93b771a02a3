// SPDX-License-Identifier: GPL-2.0

//! The state of a send queue that its spinlock protects.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    claim::Claim,
    cm::Events,
    completion::Completion,
    handler::Handler,
    progress::{
        Age,
        Load,
        Progress, //
    },
    qp::Qp,
    slots::Slots,
    work::{
        Built,
        Job,
        Posted,
        Work, //
    },
};
use kernel::prelude::*;
use support::ring::{
    Refused,
    Ring, //
};
use svcrdma_proto::sq::{
    Signals,
    SqSlots, //
};

/// Seconds after which a completion of unsignalled work is requested.
const UNSIGNALLED_SECONDS: u32 = 4;

/// The result of [`SendQueue::step`](crate::send_queue::SendQueue::step).
pub enum Step {
    /// No work waits, or there is no queue pair to post to: it is not open yet, is closed, or has
    /// failed.
    Idle,
    /// Work waits for room in the send queue.
    Full,
    /// Work requests were posted.
    Posted {
        /// The number of work requests.
        count: u32,
        /// Bytes of the RDMA Reads among them.
        read: u32,
    },
    /// Posting has failed, and nothing more is posted. The ULP tears the connection down.
    Failed(Error),
}

/// The state of the queue pair.
pub(super) enum Gate<H: Handler, E: Events> {
    /// There is no queue pair yet: the connection is being accepted.
    Opening,
    /// Work can be posted.
    Open(Qp<H, E>),
    /// Posting has failed. Nothing more is posted, because the peer would see later work without
    /// the work that is missing.
    Broken(Qp<H, E>),
    /// The queue pair is being destroyed, or is destroyed.
    Closed,
}

/// The fields of [`SendQueue`](crate::send_queue::SendQueue) protected by its spinlock.
///
/// # Invariants
///
/// - Memory that posted work requests name belongs to the work at the front of `waiting`, or to
///   work in `slots`. That work is neither changed nor removed until its last work request has
///   completed, or until `gate` has no queue pair any more.
/// - `gate` is dropped before `slots` and `waiting`.
pub(super) struct Inner<W: Work, H: Handler, E: Events> {
    gate: Gate<H, E>,
    queue: SqSlots,
    signals: Signals,
    /// Work that is posted completely.
    slots: Slots<Posted<W>>,
    /// Work that waits. The work at the front may be posted in part.
    waiting: Ring<Job<W>>,
    progress: Progress,
    /// Seconds since the creation, as counted by ticks.
    now: u32,
}

impl<W: Work, H: Handler, E: Events> Inner<W, H, E> {
    /// Creates the state of a send queue of `depth` slots, with room for `waiting` pieces of work.
    /// May sleep.
    pub(super) fn new(depth: u32, waiting: usize) -> Result<Self> {
        // INVARIANT: Nothing is posted.
        Ok(Self {
            gate: Gate::Opening,
            queue: SqSlots::new(depth),
            signals: Signals::new(),
            slots: Slots::new(depth)?,
            waiting: Ring::with_capacity(waiting)?,
            progress: Progress::new(),
            now: 0,
        })
    }

    /// Returns true if `qp` has the depth of this send queue, and if the gate was neither opened
    /// nor closed before.
    pub(super) fn can_open(&self, qp: &Qp<H, E>) -> bool {
        matches!(self.gate, Gate::Opening) && qp.depth() == self.slots.len()
    }

    /// Starts posting to `qp`. The caller has checked [`Self::can_open`].
    pub(super) fn open(&mut self, qp: Qp<H, E>) {
        self.gate = Gate::Open(qp);
    }

    /// Stops posting. Returns the last state with its queue pair, which the caller destroys before
    /// it calls [`Self::take_any`].
    pub(super) fn close(&mut self) -> Gate<H, E> {
        core::mem::replace(&mut self.gate, Gate::Closed)
    }

    /// Queues work. Gives it back if there is no room, or if nothing is posted any more.
    pub(super) fn push(&mut self, job: Job<W>) -> Result<(), Refused<Job<W>>> {
        match self.gate {
            Gate::Broken(_) | Gate::Closed => Err(Refused::Closed(job)),
            _ => self.waiting.push(job).map_err(Refused::Full),
        }
    }

    /// Takes any work that is left, posted work first. The caller has closed the gate and destroyed
    /// the queue pair.
    pub(super) fn take_any(&mut self) -> Option<(W, Option<W::Source>)> {
        if let Some(posted) = self.slots.take_any() {
            return Some((posted.work, None));
        }
        let job = self.waiting.pop()?;
        Some((job.work, job.source))
    }

    /// Returns the load.
    pub(super) fn load(&self) -> Load {
        Load {
            posted: self.queue.outstanding(),
            waiting: self.waiting.len(),
            oldest: self.slots.oldest_awaited(self.now),
            behind: self.progress.seconds(),
        }
    }

    /// Calls `f` for all work. Returns the pages that completed RDMA Reads have filled; wraps
    /// around.
    pub(super) fn survey(&self, mut f: impl FnMut(&W)) -> u32 {
        self.slots.work().for_each(|posted| f(&posted.work));
        self.waiting.iter().for_each(|job| f(&job.work));
        self.progress.filled
    }

    /// Notes that `seconds` have passed. See
    /// [`SendQueue::tick`](crate::send_queue::SendQueue::tick).
    pub(super) fn tick(&mut self, seconds: u32, rate: u32) -> Result<Age> {
        self.now = self.now.wrapping_add(seconds);
        self.mark()?;
        let is_awaited = self.slots.is_any_awaited();
        self.progress.look(rate);
        Ok(if is_awaited {
            self.age(rate)
        } else {
            Age::default()
        })
    }

    /// Posts one chain for the work at the front of the queue.
    pub(super) fn step(&mut self) -> Step {
        let Gate::Open(qp) = &mut self.gate else {
            return Step::Idle;
        };
        let Some(job) = self.waiting.front_mut() else {
            return Step::Idle;
        };
        let room = self.queue.room() as usize;
        let mut chain = qp.begin(&mut job.claim);
        let built = match &job.source {
            Some(source) => job.work.build(source, &mut chain, room),
            None => Built::All,
        };
        let count = chain.len() as u32;
        let read = chain.bytes_read();
        // Work that leaves registered memory valid is never complete, whatever `build` returns.
        let is_whole = built == Built::All && job.claim.is_invalidated();
        match (count, room) {
            (0, 0) => return Step::Full,
            // The work will never fit: it needs more scatter/gather entries than the device takes.
            (0, _) => return self.fail(E2BIG),
            _ => {}
        }
        // The time of the first chain: a peer that completes the work piece by piece does not get
        // more time for each piece.
        let since = *job.since.get_or_insert(self.now);
        let signal = !is_whole || self.signals.next(job.work.holds_resources());
        if is_whole {
            // Dropped before the work is posted: a Receive buffer in it must be posted again before
            // the peer sees the work and sends another message.
            job.source = None;
        }
        let Some(first) = self.queue.post(count) else {
            return self.fail(EINVAL);
        };
        // The slots are filled after posting. The lock is held, so a completion cannot look at them
        // before.
        // SAFETY: The chain borrows memory from the work only, which keeps it by the type
        // invariant, or names memory that is never freed.
        let posted = unsafe { qp.post(self.queue.slot(first), signal) };
        self.fill(first, count, since, signal);
        if is_whole {
            self.retain(first.wrapping_add(count.wrapping_sub(1)));
        }
        match posted {
            Err(e) => self.fail(e),
            Ok(()) => Step::Posted { count, read },
        }
    }

    /// Fills the slots of `count` work requests, which begin with `first`. The last one is
    /// signalled if `signal`.
    fn fill(&mut self, first: u32, count: u32, since: u32, signal: bool) {
        for i in 0..count {
            let seq = first.wrapping_add(i);
            let is_signalled = signal && i == count.wrapping_sub(1);
            let slot = self.queue.slot(seq);
            self.slots.fill(slot, seq, since, is_signalled);
        }
        self.progress.set_awaited(self.slots.is_any_awaited());
    }

    /// Posts a signalled work request behind unsignalled work that nothing has followed for some
    /// time. Its completion gives the memory of that work back, or is awaited if the peer does not
    /// take it.
    // Out of line: rarely needed, and its frame is large.
    #[inline(never)]
    fn mark(&mut self) -> Result {
        let Gate::Open(qp) = &mut self.gate else {
            return Ok(());
        };
        let Some(oldest) = self.queue.oldest() else {
            return Ok(());
        };
        let age = self.slots.age(self.queue.slot(oldest), self.now);
        if self.slots.is_any_awaited()
            || age < UNSIGNALLED_SECONDS
            || !qp.begin(&mut Claim::none()).mark()
        {
            return Ok(());
        }
        let Some(seq) = self.queue.post(1) else {
            return Ok(());
        };
        let index = self.queue.slot(seq);
        // SAFETY: The chain names no memory.
        let marked = unsafe { qp.post(index, true) };
        self.slots.fill(index, seq, self.now, true);
        self.progress.set_awaited(true);
        marked.inspect_err(|e| {
            self.fail(*e);
        })
    }

    /// Returns the time for which completions are awaited.
    fn age(&self, rate: u32) -> Age {
        let posted = self.slots.work().map(|posted| posted.work.amount().bytes);
        // The work at the front may be posted in part.
        let waiting = self.waiting.iter().map(|job| job.work.amount().bytes);
        let largest = posted.max().max(waiting.max()).unwrap_or(0);
        Age {
            oldest: self.slots.oldest_awaited(self.now),
            behind: self.progress.behind(largest, rate),
        }
    }

    /// Stops posting after an error.
    // Out of line: rarely needed, and its frame is large.
    #[cold]
    #[inline(never)]
    fn fail(&mut self, error: Error) -> Step {
        self.gate = match core::mem::replace(&mut self.gate, Gate::Closed) {
            Gate::Open(qp) => Gate::Broken(qp),
            other => other,
        };
        Step::Failed(error)
    }

    /// Moves the work at the front of the queue to the slot of its last work request.
    fn retain(&mut self, last: u32) {
        let Some(Job { work, claim, .. }) = self.waiting.pop() else {
            return;
        };
        self.slots
            .retain(self.queue.slot(last), Posted { work, claim });
    }

    /// Takes work that `completion` stands for. See
    /// [`SendQueue::retire`](crate::send_queue::SendQueue::retire).
    pub(super) fn retire(&mut self, completion: &Completion) -> Option<W> {
        let (Gate::Open(qp) | Gate::Broken(qp)) = &self.gate else {
            // The queue pair is being destroyed: `shut` gives all work back.
            return None;
        };
        if !completion.status().is_success() {
            return None;
        }
        let last = self.slots.seq(completion.slot_of(qp.as_ptr())?)?;
        while !completion.is_spent() {
            let oldest = self.queue.oldest()?;
            // `oldest` is newer than `last`, so a later completion has retired `last`.
            if last.wrapping_sub(oldest) > u32::MAX / 2 {
                return None;
            }
            // Once `last` is retired, new work may take its slot, and `seq` above would be that of
            // the new work.
            if oldest == last {
                completion.spend();
            }
            // The slot of a work request is known only while it is outstanding.
            let index = self.queue.slot(oldest);
            self.queue.retire(oldest);
            // INVARIANT: Work requests complete in the order of posting, so `oldest` has completed.
            let posted = self.slots.clear(index);
            self.progress.set_awaited(self.slots.is_any_awaited());
            if let Some(Posted { work, claim }) = posted {
                // SAFETY: The last work request of `work` has completed, and with it all earlier
                // ones. `work` has not changed by the type invariant, and is not dropped yet.
                unsafe { claim.complete() };
                self.progress.count(work.amount());
                return Some(work);
            }
        }
        None
    }
}

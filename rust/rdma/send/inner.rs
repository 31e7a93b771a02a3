// SPDX-License-Identifier: GPL-2.0

//! The state of a send queue that its spinlock protects.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    cm::Events,
    completion::Completion,
    handler::Handler,
    qp::Qp,
    send::{
        claim::Claim,
        progress::Progress,
        slots::Slots,
        work::{
            Built,
            Job,
            Work, //
        },
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

/// The reason why a [`SendQueue`](crate::send::queue::SendQueue) has stopped posting.
#[must_use]
#[derive(Clone, Copy)]
pub enum Stop {
    /// No work waits, or there is no queue pair to post to: it is not open yet, is closed, or has
    /// failed.
    Idle,
    /// Work waits for room in the send queue. A later completion makes room.
    Full,
    /// Work waits because its memory cannot be mapped now, for lack of bounce buffers or of IOMMU
    /// addresses. Completions post it when the memory can be mapped, and so does
    /// [`SendGuard::resume`](crate::send::queue::SendGuard::resume), which the ULP calls after some
    /// milliseconds: others may use up what is lacking.
    Unmapped,
    /// Posting has failed, and nothing more is posted. The ULP tears the connection down.
    Failed(Error),
}

/// The state of the queue pair.
pub(crate) enum Gate<H: Handler, E: Events> {
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

/// The fields of [`SendQueue`](crate::send::queue::SendQueue) protected by its spinlock.
///
/// # Invariants
///
/// - Memory that posted work requests name belongs to the work in `front`, or to work in `slots`.
///   That work is neither changed nor removed until its last work request has completed, or until
///   `gate` has no queue pair any more.
/// - `gate` is dropped before `slots` and `front`.
pub(crate) struct Inner<W: Work, H: Handler, E: Events> {
    pub(super) gate: Gate<H, E>,
    pub(super) queue: SqSlots,
    signals: Signals,
    /// Work that is posted completely.
    pub(super) slots: Slots<W>,
    /// The work that is posted next. It may be posted in part. Work that can be posted at once is
    /// never here.
    pub(super) front: Option<Job<W>>,
    /// Work that waits behind `front`; nothing if that is `None`.
    pub(super) waiting: Ring<Job<W>>,
    /// True if the memory of `front` could not be mapped. No memory of work in `waiting` is mapped
    /// then.
    is_unmapped: bool,
    pub(super) progress: Progress,
    /// Seconds since the creation, as counted by ticks.
    pub(super) now: u32,
    /// The data of the ULP.
    pub(crate) state: W::State,
}

/// The result of posting one chain.
enum Step {
    /// The chain has the last work request of the work, which is in this slot.
    Whole(usize),
    /// More work requests follow.
    Part,
    /// Nothing was posted, or posting has failed.
    Stop(Stop),
}

impl<W: Work, H: Handler, E: Events> Inner<W, H, E> {
    /// Creates the state of a send queue of `depth` slots, with room for `waiting` pieces of work.
    /// May sleep.
    pub(crate) fn new(depth: u32, waiting: usize, state: W::State) -> Result<Self> {
        // INVARIANT: Nothing is posted.
        Ok(Self {
            gate: Gate::Opening,
            queue: SqSlots::new(depth),
            signals: Signals::new(),
            slots: Slots::new(depth)?,
            front: None,
            waiting: Ring::with_capacity(waiting)?,
            is_unmapped: false,
            progress: Progress::new(),
            now: 0,
            state,
        })
    }

    /// Returns true if `qp` has the depth of this send queue, and if the gate was neither opened
    /// nor closed before.
    pub(crate) fn can_open(&self, qp: &Qp<H, E>) -> bool {
        matches!(self.gate, Gate::Opening) && qp.depth() == self.slots.len()
    }

    /// Starts posting to `qp`. The caller has checked [`Self::can_open`].
    pub(crate) fn open(&mut self, qp: Qp<H, E>) {
        self.gate = Gate::Open(qp);
    }

    /// Stops posting. Returns the last state with its queue pair, which the caller destroys before
    /// it calls [`Self::take_any`].
    pub(crate) fn close(&mut self) -> Gate<H, E> {
        core::mem::replace(&mut self.gate, Gate::Closed)
    }

    /// Takes any work that is left, posted work first. The caller has closed the gate and destroyed
    /// the queue pair.
    pub(crate) fn take_any(&mut self) -> Option<W> {
        if let Some(work) = self.slots.take_any() {
            return Some(work);
        }
        let job = self.front.take().or_else(|| self.waiting.pop());
        job.map(|job| job.work)
    }

    /// Returns an iterator over the work that waits.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Job<W>> {
        Iterator::chain(self.front.iter(), self.waiting.iter())
    }

    /// Iterates over all work. See [`SendGuard`](crate::send::queue::SendGuard), as for the functions
    /// below.
    pub(crate) fn work(&self) -> impl Iterator<Item = &W> {
        let waiting = self.jobs().map(|job| &job.work);
        Iterator::chain(self.slots.work().map(|(work, _)| work), waiting)
    }

    /// Returns the pages that completed RDMA Reads have filled; wraps around.
    pub(crate) fn filled(&self) -> u32 {
        self.progress.filled
    }

    /// Adds work at the end of the queue, and posts all that can be posted. Gives the work back if
    /// there is no room, or if nothing is posted any more.
    #[inline]
    pub(crate) fn post(&mut self, work: W) -> Result<Stop, Refused<W>> {
        if let Gate::Broken(_) | Gate::Closed = self.gate {
            return Err(Refused::Closed(work));
        }
        if self.waiting.is_full() {
            return Err(Refused::Full(work));
        }
        let mut job = Job::new(work);
        if self.front.is_some() {
            return self.wait(job);
        }
        Ok(match self.step(&mut job) {
            Step::Whole(slot) => {
                self.retain(slot, job);
                Stop::Idle
            }
            Step::Part => self.hold(job, None),
            Step::Stop(stop) => self.hold(job, Some(stop)),
        })
    }

    /// Makes `job` wait. Gives the work back if there is no room.
    #[cold]
    #[inline(never)]
    fn wait(&mut self, mut job: Job<W>) -> Result<Stop, Refused<W>> {
        if self.is_unmapped {
            job.work.unmap();
        }
        let pushed = self.waiting.push(job);
        pushed.map_err(|job| Refused::Full(job.work))?;
        Ok(match self.gate {
            Gate::Open(_) => Stop::Full,
            _ => Stop::Idle,
        })
    }

    /// Makes `job` the front, and posts more of it unless posting has stopped.
    #[inline(never)]
    fn hold(&mut self, job: Job<W>, stop: Option<Stop>) -> Stop {
        self.front = Some(job);
        match stop {
            Some(stop) => stop,
            None => self.resume_front(),
        }
    }

    /// Posts what waits, until nothing waits or there is no room.
    #[inline]
    pub(crate) fn resume(&mut self) -> Stop {
        match self.front {
            Some(_) => self.resume_front(),
            None => Stop::Idle,
        }
    }

    /// Returns true if work waits for room.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.front.is_some()
    }

    /// As [`Self::resume`], when something waits.
    // Out of line: most completions find nothing that waits, and most work is posted at once.
    #[inline(never)]
    fn resume_front(&mut self) -> Stop {
        while let Some(mut job) = self.front.take().or_else(|| self.waiting.pop()) {
            match self.step(&mut job) {
                Step::Whole(slot) => self.retain(slot, job),
                Step::Part => self.front = Some(job),
                Step::Stop(stop) => {
                    self.front = Some(job);
                    return stop;
                }
            }
        }
        Stop::Idle
    }

    /// Moves work to the slot of its last work request.
    #[inline]
    fn retain(&mut self, slot: usize, job: Job<W>) {
        let amount = job.work.amount();
        let Job { work, claim, .. } = job;
        self.slots.retain(slot, work, claim, amount);
    }

    /// Posts one chain for `job`.
    #[inline]
    fn step(&mut self, job: &mut Job<W>) -> Step {
        let Gate::Open(qp) = &mut self.gate else {
            return Step::Stop(Stop::Idle);
        };
        let room = self.queue.room();
        let mut chain = qp.begin(&mut job.claim, self.queue.free());
        let built = job.work.build(&mut self.state, &mut chain, room as usize);
        // CAST: A chain has at most `room` work requests.
        let count = chain.len() as u32;
        match (count, room) {
            (0, 0) => return Step::Stop(Stop::Full),
            // The work will never fit: it needs more scatter/gather entries than the device takes.
            (0, _) if job.is_mapped || job.since.is_some() => return self.fail(E2BIG),
            (0, _) => return self.map(job),
            _ => {}
        }
        // Work that leaves registered memory valid is never complete, whatever `build` returns.
        let is_whole = built == Built::All && job.claim.is_invalidated();
        // The time of the first chain: a peer that completes the work piece by piece does not get
        // more time for each piece.
        let since = job.since.unwrap_or(self.now);
        let signal = !is_whole || self.signals.next(job.work.awaits_completion());
        if !is_whole {
            job.since = Some(since)
        }
        let Some(first) = self.queue.post(count) else {
            return self.fail(EINVAL);
        };
        // The slots are filled after posting. The lock is held, so a completion cannot look at them
        // before.
        // SAFETY: The chain borrows memory from the work only, which keeps it by the type invariant
        // as the caller puts the work into `front` or `slots`, or names memory that is never freed.
        let posted = unsafe { qp.post(signal) };
        let last = self.fill(first, count, since, signal);
        if let Err(e) = posted {
            return self.fail(e);
        }
        if is_whole {
            Step::Whole(last)
        } else {
            Step::Part
        }
    }

    /// Maps the memory of `job`, for which no work request could be built or posted yet, and posts one
    /// chain for it.
    // Out of line: the ULP maps memory before it posts work, and that rarely fails.
    #[cold]
    #[inline(never)]
    fn map(&mut self, job: &mut Job<W>) -> Step {
        let Gate::Open(qp) = &self.gate else {
            return Step::Stop(Stop::Idle);
        };
        // No work request was built, so the work may replace a memory region that it has named.
        job.claim = Claim::none();
        match job.work.map(qp.pd()) {
            Ok(true) => {
                self.is_unmapped = false;
                job.is_mapped = true;
                self.step(job)
            }
            Ok(false) => self.fail(E2BIG),
            Err(ENOMEM) => {
                self.unmap_waiting();
                Step::Stop(Stop::Unmapped)
            }
            Err(e) => self.fail(e),
        }
    }

    /// Unmaps the memory of all work behind the front. Work that is posted after the front could
    /// otherwise hold all that the front needs.
    #[cold]
    fn unmap_waiting(&mut self) {
        if !core::mem::replace(&mut self.is_unmapped, true) {
            self.waiting.iter_mut().for_each(|job| job.work.unmap());
        }
    }

    /// Fills the slots of `count` work requests, which begin with `first`. The last one is
    /// signalled if `signal`. Returns its slot.
    #[inline]
    fn fill(&mut self, first: usize, count: u32, since: u32, signal: bool) -> usize {
        let mut slot = first;
        for _ in 1..count {
            self.slots.fill(slot, since, false);
            slot = self.queue.next(slot);
        }
        self.slots.fill(slot, since, signal);
        if signal {
            self.progress.set_awaited(true);
        }
        slot
    }

    /// Stops posting after an error.
    // Out of line: rarely needed, and its frame is large.
    #[cold]
    #[inline(never)]
    fn fail(&mut self, error: Error) -> Step {
        self.stop();
        Step::Stop(Stop::Failed(error))
    }

    /// Stops posting. The queue pair remains, for the completions of what was posted.
    pub(super) fn stop(&mut self) {
        self.gate = match core::mem::replace(&mut self.gate, Gate::Closed) {
            Gate::Open(qp) => Gate::Broken(qp),
            other => other,
        };
    }

    /// Takes the oldest work that `completion` stands for, or marks the completion as spent.
    #[inline]
    pub(crate) fn complete(&mut self, completion: &Completion) -> Option<W> {
        if completion.is_spent() {
            return None;
        }
        let Some(last) = self.last_of(completion) else {
            completion.spend();
            return None;
        };
        loop {
            // There is one, as `last` is outstanding.
            let slot = self.queue.oldest().unwrap_or(last);
            // INVARIANT: Work requests complete in the order of posting, so that of `slot` has
            // completed.
            self.queue.retire(1);
            let is_last = slot == last;
            if is_last {
                // New work may take the slot from now on.
                completion.spend();
                self.slots.complete(last);
                self.progress.set_awaited(self.slots.is_any_awaited());
            }
            if let Some((work, claim, amount)) = self.slots.take(slot) {
                // SAFETY: The last work request of `work` has completed, and with it all earlier
                // ones. `work` has not changed by the type invariant, and is not dropped yet.
                unsafe { claim.complete() };
                self.progress.count(amount);
                return Some(work);
            }
            if is_last {
                return None;
            }
        }
    }

    /// Returns the slot of the work request that `completion` reports: an outstanding one that has
    /// succeeded. Returns None if there is none, or if the queue pair is being destroyed: then
    /// `shut` gives all work back.
    #[inline]
    fn last_of(&self, completion: &Completion) -> Option<usize> {
        let (Gate::Open(qp) | Gate::Broken(qp)) = &self.gate else {
            return None;
        };
        let last = qp.slot_of(completion)?;
        (completion.status().is_success() && self.queue.up_to(last) > 0).then_some(last)
    }
}

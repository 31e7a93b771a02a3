// SPDX-License-Identifier: GPL-2.0

//! Endpoints: the hardware half of a connection, and its queue of posted work.
//!
//! Everything that is posted to the send queue, RDMA Reads of Calls and replies alike, goes through
//! one gate: work waits in a queue, and whoever adds to it or makes room posts from its front. What
//! needs more work requests than there is room for is posted piece by piece. Nobody ever sleeps for
//! room. Posted work stays in a ring, in the slot of its last work request, until a completion for
//! that slot or a later one retires it; unsignalled work has no completion of its own.
//!
//! The gate's lock is taken by nfsd threads and completions. Closing the gate and posting exclude
//! each other, as draining a queue pair demands.

use super::{
    call::{
        self,
        Call,
        CallState, //
    },
    conn::{
        Cause,
        Shared, //
    },
    device::Hardware,
    read,
    reply::Reply,
    stats, //
};
use crate::abstractions::{
    rdma::{
        chain::Chain,
        qp::{
            Handler,
            Qp,
            Status, //
        },
        receive::Receive, //
    },
    ring::Ring,
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        ArcBorrow,
        SpinLock, //
    },
};
use svcrdma_proto::{
    cm::Thresholds,
    sq::{
        SendQueue,
        Signals, //
    },
};

/// Work requests that one call posts at most: those of a reply of 1 MiB, in pieces of 32 pages, and
/// its Send.
const CHAIN: usize = 10;

/// What is posted, or waits to be.
pub(super) enum Work {
    /// The RDMA Reads of a Call.
    Read(Call),
    /// A reply.
    Reply(KBox<Reply>),
}

impl Work {
    /// Adds work requests to the chain, `room` at most; whether that was all of them.
    fn build(&mut self, chain: &mut Chain, room: usize) -> bool {
        match self {
            Work::Read(call) => read::build(call, chain, room),
            Work::Reply(reply) => reply.build(chain, room),
        }
    }

    /// Whether something waits for its completion, so that it must not go unsignalled.
    fn holds_resources(&self) -> bool {
        match self {
            Work::Read(_) => true,
            Work::Reply(reply) => reply.holds_pages(),
        }
    }
}

/// A slot of the send queue.
#[derive(Default)]
struct Slot {
    /// The sequence number of the work request in it.
    seq: u32,
    /// The work whose last work request it is.
    work: Option<Work>,
    /// Whether it completes visibly.
    signalled: bool,
    /// When it was posted, as [`Inner::now`].
    posted: u32,
}

/// Whether work can be posted.
enum Gate {
    /// Not yet: the connection is being accepted.
    Opening,
    /// Yes.
    Open(Qp<Endpoint, Shared>),
    /// Not any more, since posting has failed: what follows would be seen without what is missing.
    Broken(#[expect(dead_code, reason = "kept until it is dropped")] Qp<Endpoint, Shared>),
    /// Not any more.
    Closed,
}

/// What the lock protects.
struct Inner {
    gate: Gate,
    queue: SendQueue,
    signals: Signals,
    slots: KVec<Slot>,
    waiting: Ring<Work>,
    chain: Chain,
    /// Pages under RDMA Read.
    reading: usize,
    /// Calls that wait for others of this connection to be read.
    reads: Ring<Call>,
    /// Whether somebody starts these: starting one may end it, and must not start the next.
    starting: bool,
    /// Seconds since the connection was made, as far as the watchdog counts.
    now: u32,
}

/// What a step of posting came to.
enum Step {
    /// Nothing can be posted now.
    Nothing,
    /// A piece of work was posted.
    Piece,
    /// The last of some work was posted; a reply needs its Call no longer.
    Whole(Option<Call>),
    /// The connection is to be closed; nothing more is posted.
    Failed(Error, Option<Call>),
}

/// The hardware half of a connection.
#[pin_data]
pub(crate) struct Endpoint {
    pub(super) shared: Arc<Shared>,
    pub(super) thresholds: Thresholds,
    /// The pages that nfsd takes with a Call.
    pub(super) max_pages: u32,
    /// Set by the device in any context; the watchdog looks at it.
    failed: AtomicFlag,
    #[pin]
    inner: SpinLock<Inner>,
}

impl Endpoint {
    /// Makes one that does not post yet. May sleep.
    pub(super) fn new(
        shared: Arc<Shared>,
        hardware: &Hardware,
        thresholds: Thresholds,
        max_pages: u32,
    ) -> Result<Arc<Self>> {
        let depth = hardware.send_depth;
        let mut slots = KVec::with_capacity(depth as usize, GFP_KERNEL)?;
        for _ in 0..depth {
            slots.push(Slot::default(), GFP_KERNEL)?;
        }
        // Each Call is a Read or a reply, and never both at once.
        let calls = (shared.max_credits as usize).saturating_add(1);
        let inner = Inner {
            gate: Gate::Opening,
            queue: SendQueue::new(depth),
            signals: Signals::new(),
            slots,
            waiting: Ring::with_capacity(calls)?,
            chain: Chain::new(
                &hardware.pd,
                CHAIN,
                hardware.max_sge as usize,
                hardware.max_read_sge as usize,
            )?,
            reading: 0,
            reads: Ring::with_capacity(calls)?,
            starting: false,
            now: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                shared,
                thresholds,
                max_pages,
                failed: AtomicFlag::new(false),
                inner <- new_spinlock!(inner, "svcrdma endpoint"),
            }),
            GFP_KERNEL,
        )
    }

    /// Opens the gate, and posts what waits.
    pub(super) fn open(&self, qp: Qp<Endpoint, Shared>) {
        self.inner.lock().gate = Gate::Open(qp);
        self.pump();
    }

    /// Adds work, and posts what can be posted. Gives the work back when the connection closes.
    pub(super) fn submit(&self, work: Work) -> Result<(), Work> {
        {
            let mut inner = self.inner.lock();
            if matches!(inner.gate, Gate::Broken(_) | Gate::Closed) {
                return Err(work);
            }
            inner.waiting.push(work)?;
        }
        self.pump();
        Ok(())
    }

    /// Posts from the front of the queue until it is empty or there is no room.
    fn pump(&self) {
        loop {
            let step = self.inner.lock().step();
            match step {
                Step::Nothing => return,
                Step::Piece => {}
                // Gives the Receive back, not under the lock.
                Step::Whole(call) => drop(call),
                Step::Failed(e, call) => {
                    drop(call);
                    self.shared.close(Cause::Post(e.to_errno()));
                    return;
                }
            }
        }
    }

    /// Closes the gate, gives queue pair and id back, then all work. Sleeps.
    pub(super) fn take_down(&self) {
        let gate = core::mem::replace(&mut self.inner.lock().gate, Gate::Closed);
        drop(gate);
        while let Some(call) = self.take_unread() {
            call::discard(&self.shared, call);
        }
        while let Some(work) = self.take_any() {
            self.finish(work, false);
        }
    }

    fn take_any(&self) -> Option<Work> {
        let mut inner = self.inner.lock();
        let posted = inner.slots.iter_mut().find_map(|slot| slot.work.take());
        posted.or_else(|| inner.waiting.pop())
    }

    fn take_unread(&self) -> Option<Call> {
        self.inner.lock().reads.pop()
    }

    /// Work is over: done, or it will never be.
    fn finish(&self, work: Work, done: bool) {
        match work {
            Work::Read(call) => {
                let pages = call.sink_pages();
                read::finish(self, call, done);
                self.end_read(pages);
            }
            Work::Reply(reply) => self.shared.device.pools.put_reply(reply),
        }
    }

    /// Asks to have `pages` more pages under RDMA Read. Gives the Call back if it may go on, keeps
    /// it until others have ended if these are too many, and refuses it if too many wait.
    pub(super) fn begin_read(&self, call: Call, pages: usize) -> Result<Option<Call>, Call> {
        let mut inner = self.inner.lock();
        // Not before those that wait already.
        if !inner.reads.is_empty() || !inner.may_read(pages) {
            return inner.reads.push(call).map(|()| None);
        }
        inner.reading = inner.reading.saturating_add(pages);
        Ok(Some(call))
    }

    /// So many pages are not under RDMA Read any more: starts what has waited for them.
    pub(super) fn end_read(&self, pages: usize) {
        {
            let mut inner = self.inner.lock();
            inner.reading = inner.reading.saturating_sub(pages);
            if core::mem::replace(&mut inner.starting, true) {
                return;
            }
        }
        while let Some(call) = self.next_read() {
            read::request(call);
        }
    }

    fn next_read(&self) -> Option<Call> {
        let mut inner = self.inner.lock();
        let call = inner.take_read();
        // Under the lock that found nothing more to start: whoever comes now starts by himself.
        inner.starting = call.is_some();
        call
    }

    /// Looks for work that does not complete; `seconds` have passed since the last time.
    pub(super) fn tick(&self, seconds: u32) {
        if self.failed.load(Relaxed) {
            self.shared.close(Cause::QueuePair);
            return;
        }
        let oldest = {
            let mut inner = self.inner.lock();
            inner.now = inner.now.wrapping_add(seconds);
            inner.oldest_age()
        };
        if oldest > stats::STALL_SECONDS.get() {
            self.shared.close(Cause::Stalled);
        }
    }
}

impl Inner {
    /// Posts a chain for the work at the front of the queue.
    fn step(&mut self) -> Step {
        let Gate::Open(qp) = &self.gate else {
            return Step::Nothing;
        };
        let room = self.queue.room() as usize;
        let Some(work) = self.waiting.front_mut() else {
            return Step::Nothing;
        };
        self.chain.clear();
        let whole = work.build(&mut self.chain, room);
        let count = self.chain.len() as u32;
        match (count, whole, room) {
            (0, false, 0) => {
                stats::SEND_QUEUE_WAITS.inc();
                return Step::Nothing;
            }
            // It never fits: a work request of more pieces than the device takes.
            (0, false, _) => return self.fail(E2BIG, None),
            _ => {}
        }
        let signal = !whole || self.signals.next(work.holds_resources());
        let Some(seq) = self.queue.post(count) else {
            return self.fail(EINVAL, None);
        };
        // The work is in its slot before the completion can look for it.
        let posted = qp.post(&mut self.chain, self.queue.slot(seq), signal);
        stats::WORK_REQUESTS.add(count);
        for i in 0..count {
            let seq = seq.wrapping_add(i);
            if let Some(slot) = self.slots.get_mut(self.queue.slot(seq)) {
                slot.seq = seq;
                slot.signalled = signal && i == count.wrapping_sub(1);
                slot.posted = self.now;
            }
        }
        let call = match whole {
            true => self.retain(seq.wrapping_add(count.wrapping_sub(1))),
            false => None,
        };
        match (posted, whole) {
            (Err(e), _) => self.fail(e, call),
            (Ok(()), true) => Step::Whole(call),
            (Ok(()), false) => Step::Piece,
        }
    }

    /// Lets nothing more be posted.
    fn fail(&mut self, error: Error, call: Option<Call>) -> Step {
        self.gate = match core::mem::replace(&mut self.gate, Gate::Closed) {
            Gate::Open(qp) => Gate::Broken(qp),
            other => other,
        };
        Step::Failed(error, call)
    }

    /// Moves the work at the front of the queue to the slot of its last work request; returns the
    /// Call that a reply does not need any more.
    fn retain(&mut self, last: u32) -> Option<Call> {
        let mut work = self.waiting.pop()?;
        let call = match &mut work {
            Work::Reply(reply) => reply.take_call(),
            Work::Read(_) => None,
        };
        if let Some(slot) = self.slots.get_mut(self.queue.slot(last)) {
            slot.work = Some(work);
        }
        call
    }

    /// Retires the work requests up to the one in slot `index`, one at a time: the work of the
    /// first slot that has any, and whether it was this very one.
    fn retire(&mut self, index: usize) -> Option<(Work, bool)> {
        let last = self.slots.get(index)?.seq;
        loop {
            let oldest = self.queue.oldest()?;
            // Behind `last`: all up to it are retired.
            if last.wrapping_sub(oldest) > u32::MAX / 2 {
                return None;
            }
            let slot = self.slots.get_mut(self.queue.slot(oldest))?;
            slot.signalled = false;
            self.queue.retire(oldest);
            if let Some(work) = slot.work.take() {
                return Some((work, oldest == last));
            }
        }
    }

    /// The next Call whose Reads may start.
    fn take_read(&mut self) -> Option<Call> {
        let pages = self.reads.front_mut()?.sink_pages();
        if !self.may_read(pages) {
            return None;
        }
        self.reading = self.reading.saturating_add(pages);
        self.reads.pop()
    }

    fn may_read(&self, pages: usize) -> bool {
        let limit = stats::READ_PAGES_CONNECTION.get() as usize;
        self.reading == 0 || self.reading.saturating_add(pages) <= limit
    }

    /// Seconds that the oldest awaited completion is awaited, 0 if none is. Unsignalled replies
    /// have none, and may stay for long; what waits for room waits for a completion.
    fn oldest_age(&self) -> u32 {
        let awaited = self.slots.iter().filter(|slot| slot.signalled);
        let ages = awaited.map(|slot| self.now.wrapping_sub(slot.posted));
        ages.max().unwrap_or(0)
    }
}

impl Handler for Endpoint {
    type Call = CallState;

    fn reset(call: &mut CallState) {
        call.reset();
    }

    fn received(this: ArcBorrow<'_, Self>, receive: Receive<Self>) {
        call::received(&this.into(), receive);
    }

    fn receive_failed(this: ArcBorrow<'_, Self>, status: Status) {
        if !status.is_flush() {
            this.shared.close(Cause::Receive(status.code()));
        }
    }

    fn sent(this: ArcBorrow<'_, Self>, slot: usize, status: Status) {
        if !status.is_success() {
            // What else is posted is flushed; `take_down` gives it all back.
            if !status.is_flush() {
                this.shared.close(Cause::Send(status.code()));
            }
            return;
        }
        loop {
            let retired = this.inner.lock().retire(slot);
            let Some((work, last)) = retired else {
                break;
            };
            this.finish(work, true);
            if last {
                break;
            }
        }
        this.pump();
    }

    fn failed(this: ArcBorrow<'_, Self>) {
        this.failed.store(true, Relaxed);
    }
}

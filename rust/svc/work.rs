// SPDX-License-Identifier: GPL-2.0

//! Work: what a connection posts to its send queue, and the order in which it does.
//!
//! RDMA Reads of Calls and replies alike go through one queue, and are posted from its front. What
//! needs more work requests than there is room for is posted piece by piece. Posted work stays in
//! the slot of its last work request until a completion for that slot or a later one retires it:
//! unsignalled work has no completion of its own.

use super::{
    call::Call,
    conn::Shared,
    endpoint::Endpoint,
    hardware::Hardware,
    read,
    reply::Reply,
    stats, //
};
use crate::abstractions::{
    rdma::{
        chain::Chain,
        qp::Qp, //
    },
    ring::Ring,
};
use kernel::prelude::*;
use svcrdma_proto::sq::{
    SendQueue,
    Signals, //
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
    /// When it was posted, as [`Posting::now`].
    posted: u32,
}

/// Whether work can be posted.
pub(super) enum Gate {
    /// Not yet: the connection is being accepted.
    Opening,
    /// Yes.
    Open(Qp<Endpoint, Shared>),
    /// Not any more, since posting has failed: what follows would be seen without what is missing.
    Broken(#[expect(dead_code, reason = "kept until it is dropped")] Qp<Endpoint, Shared>),
    /// Not any more.
    Closed,
}

/// What is posted and what waits: all that the lock of an endpoint protects.
pub(super) struct Posting {
    pub(super) gate: Gate,
    queue: SendQueue,
    signals: Signals,
    slots: KVec<Slot>,
    pub(super) waiting: Ring<Work>,
    chain: Chain,
    /// Pages under RDMA Read.
    pub(super) reading: usize,
    /// Calls that wait for others of this connection to be read.
    pub(super) reads: Ring<Call>,
    /// Whether somebody starts these: starting one may end it, and must not start the next.
    pub(super) starting: bool,
    /// Seconds since the connection was made, as far as the watchdog counts.
    pub(super) now: u32,
}

/// What a step of posting came to.
pub(super) enum Step {
    /// Nothing can be posted now.
    Nothing,
    /// A piece of work was posted.
    Piece,
    /// The last of some work was posted; a reply needs its Call no longer.
    Whole(Option<Call>),
    /// The connection is to be closed; nothing more is posted.
    Failed(Error, Option<Call>),
}

impl Posting {
    /// Makes it for a connection that has up to `calls` Calls. May sleep.
    pub(super) fn new(hardware: &Hardware, calls: usize) -> Result<Self> {
        let depth = hardware.send_depth;
        let mut slots = KVec::with_capacity(depth as usize, GFP_KERNEL)?;
        for _ in 0..depth {
            slots.push(Slot::default(), GFP_KERNEL)?;
        }
        Ok(Self {
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
        })
    }

    /// Takes work that will not be done any more.
    pub(super) fn take_any(&mut self) -> Option<Work> {
        let posted = self.slots.iter_mut().find_map(|slot| slot.work.take());
        posted.or_else(|| self.waiting.pop())
    }

    /// Posts a chain for the work at the front of the queue.
    pub(super) fn step(&mut self) -> Step {
        let Gate::Open(qp) = &mut self.gate else {
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
    pub(super) fn retire(&mut self, index: usize) -> Option<(Work, bool)> {
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
    pub(super) fn take_read(&mut self) -> Option<Call> {
        let pages = self.reads.front_mut()?.sink_pages();
        if !self.may_read(pages) {
            return None;
        }
        self.reading = self.reading.saturating_add(pages);
        self.reads.pop()
    }

    pub(super) fn may_read(&self, pages: usize) -> bool {
        let limit = stats::READ_PAGES_CONNECTION.get() as usize;
        self.reading == 0 || self.reading.saturating_add(pages) <= limit
    }

    /// Seconds that the oldest awaited completion is awaited, 0 if none is. Unsignalled replies
    /// have none, and may stay for long; what waits for room waits for a completion.
    pub(super) fn oldest_age(&self) -> u32 {
        let awaited = self.slots.iter().filter(|slot| slot.signalled);
        let ages = awaited.map(|slot| self.now.wrapping_sub(slot.posted));
        ages.max().unwrap_or(0)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Hardware: the objects that the connections of a device share on it.
//!
//! Queues are sized by what the device can do and by what an admin has set when they are made.
//! Contexts: process, and may sleep, but for reading what never changes.

use core::pin::Pin;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};
use rdma::{
    cq::{
        Completes,
        Cq,
        Share, //
    },
    device::{
        IbDevice,
        Limits,
        Pd, //
    },
    memory_region::Kind, //
};
use sunrpc::callback::SLOTS;
use support::{
    compat,
    ratelimit, //
};
use svcrdma_proto::{
    receives::needed,
    sq::Signals, //
};

/// The most pieces that a work request of ours has: 32 pages are 128 KiB.
const MAX_SGE: u32 = 32;

/// Pieces of a Send that carries at most two ranges of the results: the header, and 4 KiB in two
/// ranges that go through head, pages and tail. With fewer, all that goes inline is copied.
const SEND_SGE: u32 = 8;

// The device decides if results are copied, not our own limit.
const _: () = assert!(SEND_SGE <= MAX_SGE);

/// Work requests that a connection can have posted. With the marker of `ib_drain_sq` and the entry
/// that a ring leaves empty it is a power of two, as drivers round up.
const SEND_DEPTH: u32 = 62;

const _: () = assert!((SEND_DEPTH + 2).is_power_of_two());

/// Work requests that a queue of a queue pair must have room for: the Receives that a connection begins
/// with, those for replies to callbacks, and the marker of `ib_drain_rq`.
const MIN_DEPTH: u32 = 32;

// Of so many Sends one asks for a completion, or nothing would empty a full send queue.
const _: () = assert!(Signals::MAX_UNSIGNALLED < MIN_DEPTH && MIN_DEPTH <= SEND_DEPTH);

/// The most completion vectors of a device in use.
const MAX_VECTORS: u32 = 4;

/// Entries of a completion queue that connections have shares of: the work of 65 of them.
const SHARED_CQ: u32 = 4096;

const _: () = assert!(SHARED_CQ / (SEND_DEPTH + 1) == 65);

/// The memory that RDMA Reads go to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadsInto {
    /// Registered memory where the device needs that (iWARP), the device's local memory otherwise.
    Needed,
    /// Always registered memory, for tests.
    Registered,
}

/// The hardware objects of a device, which its connections use, until the device's removal.
pub(crate) struct Hardware {
    pub(crate) pd: Arc<Pd>,
    receive_cqs: Cqs,
    send_cqs: Cqs,
    next_vector: Atomic<u32>,
    pub(crate) limits: Limits,
    /// Work requests that a connection can have posted.
    pub(crate) send_depth: u32,
    /// Pieces of a work request.
    pub(crate) max_sge: u32,
    /// Pieces of an RDMA Read.
    pub(crate) max_read_sge: u32,
    /// How memory is registered, if RDMA Reads need that.
    pub(crate) registers: Option<Kind>,
    /// Whether a Send has too few pieces for results that are not copied.
    pub(crate) copies: bool,
}

/// Completion queues that connections have shares of, made as they are needed.
struct Cqs {
    completes: Completes,
    list: Pin<KBox<Mutex<KVec<Arc<Cq>>>>>,
}

impl Cqs {
    fn new(completes: Completes) -> Result<Self> {
        let list = new_mutex!(KVec::new(), "svcrdma completion queues");
        let list = KBox::pin_init(list, GFP_KERNEL)?;
        Ok(Self { completes, list })
    }

    /// Sets `entries` aside, on vector number `number` of those in use. May sleep.
    fn share(&self, pd: &Arc<Pd>, limits: &Limits, entries: u32, number: u32) -> Result<Share> {
        let vector = vector(limits, number);
        let mut cqs = self.list.lock();
        // A queue that has failed goes with the last connection that uses it.
        drop_all(&mut cqs, Cq::is_broken);
        let mut fit = cqs.iter().filter(|cq| cq.vector() == vector);
        if let Some(share) = fit.find_map(|cq| cq.share(entries)) {
            return Ok(share);
        }
        let size = SHARED_CQ.min(limits.max_cqe).max(entries);
        let cq = Cq::new(pd, self.completes, size, vector)?;
        let share = cq.share(entries).ok_or(ENOSPC)?;
        cqs.push(cq, GFP_KERNEL)?;
        Ok(share)
    }

    /// Frees queues that no connection uses. May sleep.
    fn trim(&self) {
        drop_all(&mut self.list.lock(), Cq::is_idle);
    }
}

/// Drops those queues of a list of which `f` is true.
fn drop_all(cqs: &mut KVec<Arc<Cq>>, f: impl Fn(&Cq) -> bool) {
    while let Some(i) = cqs.iter().position(|cq| f(cq)) {
        let last = cqs.pop();
        // Nothing is at `i` any more if it was the last.
        let gone = match (cqs.get_mut(i), last) {
            (Some(place), Some(last)) => Some(core::mem::replace(place, last)),
            (_, last) => last,
        };
        drop(gone);
    }
}

/// Completion vectors in use.
fn vectors(limits: &Limits) -> u32 {
    limits.num_comp_vectors.clamp(1, MAX_VECTORS)
}

/// The completion vector that is number `number` of those in use. They lie far apart: neighbours
/// are often on one NUMA node, and nfsd's threads serve what completes on theirs
/// (net/sunrpc/svc.c, `svc_pool_for_cpu`).
fn vector(limits: &Limits, number: u32) -> u32 {
    let vector = number.saturating_mul(limits.num_comp_vectors);
    vector.checked_div(vectors(limits)).unwrap_or(0)
}

impl Hardware {
    /// Makes them, if the device is one that we can serve. May sleep.
    pub(crate) fn new(ib: &IbDevice, reads_into: ReadsInto) -> Result<Arc<Self>> {
        let limits = ib.limits();
        let registers = Self::check(ib, &limits, reads_into)?;
        let hardware = Self {
            pd: Pd::new(ib)?,
            receive_cqs: Cqs::new(Completes::Receives)?,
            send_cqs: Cqs::new(Completes::Sends)?,
            next_vector: Atomic::new(0),
            send_depth: SEND_DEPTH.min(limits.max_qp_wr.saturating_sub(1)),
            max_sge: MAX_SGE.min(limits.max_send_sge),
            max_read_sge: MAX_SGE.min(limits.max_send_sge).min(limits.max_sge_rd),
            registers,
            copies: limits.max_send_sge < SEND_SGE,
            limits,
        };
        Ok(Arc::new(hardware, GFP_KERNEL)?)
    }

    /// Whether the device is one that we can serve, and how it registers memory if it has to.
    fn check(ib: &IbDevice, limits: &Limits, reads_into: ReadsInto) -> Result<Option<Kind>> {
        let registers = match limits.iwarp || reads_into == ReadsInto::Registered {
            true => Some(Kind::new(limits)),
            false => None,
        };
        let lacking = if let Some(None) = registers {
            "memory registration by work requests"
        } else if limits.max_qp_wr.min(limits.max_cqe) < MIN_DEPTH {
            "queues of 32 entries"
        } else if limits.max_send_sge == 0 || limits.max_sge_rd == 0 {
            "RDMA Read"
        } else {
            return Ok(registers.flatten());
        };
        if ratelimit() {
            pr_err!(
                "{}: cannot serve, the device lacks: {}\n",
                ib.name(),
                lacking
            );
        }
        Err(compat::eopnotsupp())
    }

    /// Which of the completion vectors in use is for the next connection.
    pub(crate) fn next_vector(&self) -> u32 {
        let next = self.next_vector.fetch_add(1, Relaxed);
        next.checked_rem(vectors(&self.limits)).unwrap_or(0)
    }

    /// Receive buffers that a connection may have at most, with up to `credits` credits.
    pub(crate) fn max_receives(&self, credits: u32) -> u32 {
        // Beside the marker of `ib_drain_rq`.
        let most = self.limits.max_qp_wr.min(self.limits.max_cqe);
        needed(credits, SLOTS).min(most.saturating_sub(1))
    }

    /// Entries of a completion queue for `max` Receive buffers, and for the marker that ends them. May
    /// sleep.
    pub(crate) fn receive_cq(&self, max: usize, vector: u32) -> Result<Share> {
        let entries = u32::try_from(max).unwrap_or(u32::MAX).saturating_add(1);
        self.receive_cqs
            .share(&self.pd, &self.limits, entries, vector)
    }

    /// Entries of a completion queue for the work that a connection can have posted, and for the
    /// marker that ends it. May sleep.
    pub(crate) fn send_cq(&self, vector: u32) -> Result<Share> {
        let entries = self.send_depth.saturating_add(1);
        self.send_cqs.share(&self.pd, &self.limits, entries, vector)
    }

    /// Frees what no connection uses. May sleep.
    pub(crate) fn trim(&self) {
        self.receive_cqs.trim();
        self.send_cqs.trim();
    }
}

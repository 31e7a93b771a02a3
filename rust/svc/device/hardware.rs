// SPDX-License-Identifier: GPL-2.0

//! Hardware: the verbs objects of a device that its connections share.
//!
//! The limits of the device bound the size of each queue. The settings bound the Receive queue of a
//! connection: those at the time when it is created.
//!
//! # Context
//!
//! Process context, and may sleep, but for the functions that only read constant fields.

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

/// The largest number of scatter-gather entries in a work request: 32 pages are 128 KiB.
const MAX_SGE: u32 = 32;

/// The scatter-gather entries of a Send that carries at most two ranges of the results: the header,
/// and 4 KiB in two ranges that touch head, pages and tail. On a device with fewer entries, inline
/// results are copied.
const SEND_SGE: u32 = 8;

// The limit of the device decides if results are copied, not `MAX_SGE`.
const _: () = assert!(SEND_SGE <= MAX_SGE);

/// The work requests that a connection can have posted. The sum of this number, the marker of
/// `ib_drain_sq` and the entry that a ring leaves empty is a power of two, because drivers round up
/// to one.
const SEND_DEPTH: u32 = 62;

const _: () = assert!((SEND_DEPTH + 2).is_power_of_two());

/// The work requests that a queue of a queue pair must have room for: the Receives that a
/// connection starts with, the Receives for replies to callbacks, and the marker of `ib_drain_rq`.
const MIN_DEPTH: u32 = 32;

// A full send queue contains a signalled work request. Without one, no completion would free its
// slots.
const _: () = assert!(Signals::MAX_UNSIGNALLED < MIN_DEPTH && MIN_DEPTH <= SEND_DEPTH);

/// The largest number of completion vectors in use per device.
const MAX_VECTORS: u32 = 4;

/// The entries of a shared completion queue: enough for the Sends of 65 connections.
const SHARED_CQ: u32 = 4096;

const _: () = assert!(SHARED_CQ / (SEND_DEPTH + 1) == 65);

/// The memory that RDMA Reads are posted with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadsInto {
    /// Registered memory if the device requires it (iWARP), otherwise memory under the local DMA
    /// key.
    Needed,
    /// Registered memory on all devices, for tests.
    Registered,
}

/// The verbs objects that the connections of a device share.
///
/// A [`Device`](super::Device) creates it for its first connection and drops it when the device is
/// removed.
pub(crate) struct Hardware {
    /// The protection domain.
    pub(crate) pd: Arc<Pd>,
    receive_cqs: Cqs,
    send_cqs: Cqs,
    /// The number of connections that were given a completion vector; wraps around.
    next_vector: Atomic<u32>,
    /// The limits of the device.
    pub(crate) limits: Limits,
    /// The work requests that a connection can have posted.
    pub(crate) send_depth: u32,
    /// The scatter-gather entries of a work request.
    pub(crate) max_sge: u32,
    /// The scatter-gather entries of an RDMA Read.
    pub(crate) max_read_sge: u32,
    /// The kind of memory registration, or `None` if RDMA Reads need no registered memory.
    pub(crate) registers: Option<Kind>,
    /// True if a Send has too few scatter-gather entries, so that inline results must be copied.
    pub(crate) copies: bool,
}

/// The completion queues for one kind of work. Each connection has a share of the entries of a
/// queue. Queues are created when connections need them.
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

    /// Reserves `entries` of a queue on the completion vector with the index `number` among those
    /// in use. May sleep.
    ///
    /// # Errors
    ///
    /// Those of creating a queue.
    fn share(&self, pd: &Arc<Pd>, limits: &Limits, entries: u32, number: u32) -> Result<Share> {
        let vector = vector(limits, number);
        let mut cqs = self.list.lock();
        // A failed queue is not shared any more. Its last connection drops it.
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

    /// Destroys the queues that no connection uses. May sleep.
    fn trim(&self) {
        drop_all(&mut self.list.lock(), Cq::is_idle);
    }
}

/// Drops the queues for which `f` returns true.
fn drop_all(cqs: &mut KVec<Arc<Cq>>, f: impl Fn(&Cq) -> bool) {
    while let Some(i) = cqs.iter().position(|cq| f(cq)) {
        let last = cqs.pop();
        // The last queue takes the place of queue `i`, unless both are the same queue.
        let gone = match (cqs.get_mut(i), last) {
            (Some(place), Some(last)) => Some(core::mem::replace(place, last)),
            (_, last) => last,
        };
        drop(gone);
    }
}

/// Returns the number of completion vectors in use.
fn vectors(limits: &Limits) -> u32 {
    limits.num_comp_vectors.clamp(1, MAX_VECTORS)
}

/// Returns the completion vector with the index `number` among those in use. The vectors in use lie
/// far apart, because neighbours are often on the same NUMA node, and each pool of nfsd threads
/// serves the Calls that complete on its own node (net/sunrpc/svc.c, `svc_pool_for_cpu`).
fn vector(limits: &Limits, number: u32) -> u32 {
    let vector = number.saturating_mul(limits.num_comp_vectors);
    vector.checked_div(vectors(limits)).unwrap_or(0)
}

impl Hardware {
    /// Creates the shared objects of the device `ib`. May sleep.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: the device lacks a capability that the server needs.
    /// - Those of creating the objects.
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

    /// Checks that the device has the capabilities that the server needs. Returns the kind of
    /// memory registration, or `None` if RDMA Reads need no registered memory.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if a capability is missing; the log names it.
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
                "{}: cannot serve clients: the device lacks {}\n",
                ib.name(),
                lacking
            );
        }
        Err(compat::eopnotsupp())
    }

    /// Returns the index, among the completion vectors in use, of the vector of the next
    /// connection. Any context.
    pub(crate) fn next_vector(&self) -> u32 {
        let next = self.next_vector.fetch_add(1, Relaxed);
        next.checked_rem(vectors(&self.limits)).unwrap_or(0)
    }

    /// Returns the most Receive buffers that a connection with up to `credits` credits may have.
    /// Any context.
    pub(crate) fn max_receives(&self, credits: u32) -> u32 {
        // One entry is left for the marker of `ib_drain_rq`.
        let most = self.limits.max_qp_wr.min(self.limits.max_cqe);
        needed(credits, SLOTS).min(most.saturating_sub(1))
    }

    /// Reserves completion queue entries for `max` Receive buffers and the marker of `ib_drain_rq`,
    /// on the completion vector with the index `vector`. May sleep.
    pub(crate) fn receive_cq(&self, max: usize, vector: u32) -> Result<Share> {
        let entries = u32::try_from(max).unwrap_or(u32::MAX).saturating_add(1);
        self.receive_cqs
            .share(&self.pd, &self.limits, entries, vector)
    }

    /// Reserves completion queue entries for the work that a connection can have posted and the
    /// marker of `ib_drain_sq`, on the completion vector with the index `vector`. May sleep.
    pub(crate) fn send_cq(&self, vector: u32) -> Result<Share> {
        let entries = self.send_depth.saturating_add(1);
        self.send_cqs.share(&self.pd, &self.limits, entries, vector)
    }

    /// Destroys the completion queues that no connection uses. May sleep.
    pub(crate) fn trim(&self) {
        self.receive_cqs.trim();
        self.send_cqs.trim();
    }
}

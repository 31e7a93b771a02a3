// SPDX-License-Identifier: GPL-2.0

//! Hardware: the objects that the connections of a device share on it.
//!
//! Queues are sized by what the device can do and by what an admin has set when they are made.
//! Contexts: process, and may sleep, but for reading what never changes.

use super::{
    endpoint::Endpoint,
    own_receives::{
        OwnReceives,
        SPARE, //
    },
    stats, //
};
use crate::{
    abstractions::{
        ratelimit,
        rdma::{
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
            registration::Kind,
            srq::Receives, //
        },
        workqueue::OwnedQueue,
    },
    compat,
};
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
use svcrdma_proto::sq::Signals;

/// The most pieces that a work request of ours has: 32 pages are 128 KiB.
const MAX_SGE: u32 = 32;

/// Pieces of a Send that carries at most two ranges of the results: the header, and 4 KiB in two
/// ranges that go through head, pages and tail. With fewer, all that goes inline is copied.
const SEND_SGE: u32 = 8;

// Whether results are copied depends on what the device can do, not on our own limit.
const _: () = assert!(SEND_SGE <= MAX_SGE);

/// Work requests that a connection can have posted. With the marker of `ib_drain_sq` and the entry
/// that a ring leaves empty it is a power of two, as drivers round up.
const SEND_DEPTH: u32 = 62;

const _: () = assert!((SEND_DEPTH + 2).is_power_of_two());

/// With so few Sends that ask for no completion could fill the send queue, and nothing would empty it.
const MIN_DEPTH: u32 = 8;

// Of so many Sends one asks for a completion.
const _: () = assert!(Signals::MAX_UNSIGNALLED < MIN_DEPTH && MIN_DEPTH <= SEND_DEPTH);

/// The most Receive completion queues of a device.
const MAX_RECEIVE_CQS: u32 = 4;

/// Entries of a completion queue that connections have shares of: the work of 65 of them.
const SHARED_CQ: u32 = 4096;

const _: () = assert!(SHARED_CQ / (SEND_DEPTH + 1) == 65);

/// Receive buffers that a shared receive queue must have room for.
const MIN_SRQ: u32 = 16;

/// How far the buffers of the shared receive queue may grow when some are lost.
const RECEIVES_GROWTH: usize = 4;

/// The hardware objects of a device, which its connections use. Dropped when it has none and they
/// are [outdated](Self::is_outdated), and by the device's removal.
pub(super) struct Hardware {
    pub(super) pd: Arc<Pd>,
    /// The Receives of all connections, unless each has its own.
    pub(super) receives: Option<SharedReceives>,
    own_receive_cqs: Cqs,
    send_cqs: Cqs,
    next_vector: Atomic<u32>,
    queue: Arc<OwnedQueue>,
    settings: Settings,
    pub(super) limits: Limits,
    /// Work requests that a connection can have posted.
    pub(super) send_depth: u32,
    /// Pieces of a work request.
    pub(super) max_sge: u32,
    /// Pieces of an RDMA Read.
    pub(super) max_read_sge: u32,
    /// How memory is registered, if RDMA Reads need that.
    pub(super) registers: Option<Kind>,
    /// Whether a Send has too few pieces for results that are not copied.
    pub(super) copies: bool,
}

/// What an admin has set that hardware is made by.
#[derive(PartialEq)]
struct Settings {
    receives: u32,
    own_receives: u32,
}

impl Settings {
    fn now() -> Self {
        Self {
            receives: stats::RECEIVES.get(),
            own_receives: stats::OWN_RECEIVES.get(),
        }
    }
}

/// What the connections of a device share to receive.
pub(super) struct SharedReceives {
    pub(super) receives: Receives<Endpoint>,
    /// How many buffers it was to begin with.
    begun: usize,
    /// How many there were at the last tick.
    known: Atomic<u32>,
    /// One for each vector in use, with room for all buffers.
    cqs: KVec<Arc<Cq>>,
}

impl SharedReceives {
    /// Makes it, to begin with `count` buffers. May sleep.
    fn new(pd: &Arc<Pd>, limits: &Limits, count: u32, queue: Arc<OwnedQueue>) -> Result<Self> {
        // bnxt_re refuses the number that it names.
        let most = limits.max_srq_wr.saturating_sub(1);
        let count = count.min(most) as usize;
        let max = count.saturating_mul(RECEIVES_GROWTH).min(most as usize);
        // A completion queue has to take the completions of all buffers at once.
        let entries = u32::try_from(max).unwrap_or(u32::MAX).min(limits.max_cqe);
        let max = max.min(entries as usize);
        let count = count.min(max);
        let mut cqs = KVec::new();
        for number in 0..vectors(limits) {
            let vector = vector(limits, number);
            let cq = Cq::new(pd, Completes::Receives, entries, vector)?;
            cqs.push(cq, GFP_KERNEL)?;
        }
        let receives = Receives::shared(pd, count, max, queue)?;
        Ok(Self {
            begun: count,
            known: Atomic::new(u32::try_from(receives.count()).unwrap_or(u32::MAX)),
            receives,
            cqs,
        })
    }

    fn is_broken(&self) -> bool {
        self.receives.is_broken() || self.cqs.iter().any(|cq| cq.is_broken())
    }

    /// Tries again what has failed, and counts buffers that were added; returns how many there are.
    fn tick(&self) -> u32 {
        self.receives.retry();
        let count = u32::try_from(self.receives.count()).unwrap_or(u32::MAX);
        let before = self.known.xchg(count, Relaxed);
        stats::RECEIVES_ADDED.add(count.saturating_sub(before));
        count
    }
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
        // What has failed is only for those that it has.
        let mut fit = cqs
            .iter()
            .filter(|cq| cq.vector() == vector && !cq.is_broken());
        if let Some(share) = fit.find_map(|cq| cq.share(entries)) {
            return Ok(share);
        }
        let size = SHARED_CQ.min(limits.max_cqe).max(entries);
        let cq = Cq::new(pd, self.completes, size, vector)?;
        let share = cq.share(entries).ok_or(ENOSPC)?;
        cqs.push(cq, GFP_KERNEL)?;
        Ok(share)
    }
}

/// Completion vectors in use.
fn vectors(limits: &Limits) -> u32 {
    limits.num_comp_vectors.clamp(1, MAX_RECEIVE_CQS)
}

/// The completion vector that is number `number` of those in use. They lie far apart: neighbours
/// are often on one NUMA node, and nfsd's threads serve what completes on theirs
/// (net/sunrpc/svc.c, `svc_pool_for_cpu`).
fn vector(limits: &Limits, number: u32) -> u32 {
    let vector = number.saturating_mul(limits.num_comp_vectors);
    vector.checked_div(vectors(limits)).unwrap_or(0)
}

impl Hardware {
    /// Makes them, beside a protection domain that there may be, and how memory is registered in
    /// that. May sleep.
    pub(super) fn new(
        ib: &IbDevice,
        kept: Option<(Arc<Pd>, Option<Kind>)>,
        queue: Arc<OwnedQueue>,
    ) -> Result<Arc<Self>> {
        let limits = ib.limits();
        let (pd, registers) = match kept {
            Some(kept) => kept,
            None => {
                let registers = Self::check(ib, &limits)?;
                (Pd::new(ib)?, registers)
            }
        };
        let settings = Settings::now();
        // An iWARP connection breaks when a message finds no buffer, so they are not shared.
        let can_share = !limits.iwarp && limits.max_srq > 0 && limits.max_srq_wr >= MIN_SRQ;
        let is_own = !can_share || settings.own_receives != 0;
        let receives = match is_own {
            true => None,
            false => {
                let (count, queue) = (settings.receives, queue.clone());
                Some(SharedReceives::new(&pd, &limits, count, queue)?)
            }
        };
        let hardware = Self {
            receives,
            own_receive_cqs: Cqs::new(Completes::Receives)?,
            send_cqs: Cqs::new(Completes::Sends)?,
            next_vector: Atomic::new(0),
            queue,
            settings,
            send_depth: SEND_DEPTH.min(limits.max_qp_wr.saturating_sub(1)),
            max_sge: MAX_SGE.min(limits.max_send_sge),
            max_read_sge: MAX_SGE.min(limits.max_send_sge).min(limits.max_sge_rd),
            registers,
            copies: limits.max_send_sge < SEND_SGE,
            limits,
            pd,
        };
        Ok(Arc::new(hardware, GFP_KERNEL)?)
    }

    /// Whether the device is one that we can serve, and how it registers memory if it has to.
    fn check(ib: &IbDevice, limits: &Limits) -> Result<Option<Kind>> {
        let registers = match limits.iwarp || stats::REGISTER_READS.get() != 0 {
            true => Some(Kind::new(limits)),
            false => None,
        };
        let lacking = if let Some(None) = registers {
            "memory registration by work requests"
        } else if limits.max_qp_wr <= MIN_DEPTH {
            "a send queue of more than 8 entries"
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
    pub(super) fn next_vector(&self) -> u32 {
        let next = self.next_vector.fetch_add(1, Relaxed);
        next.checked_rem(vectors(&self.limits)).unwrap_or(0)
    }

    /// Buffers for a connection with up to `credits` credits, if it is to have its own. May sleep.
    pub(super) fn own_receives(&self, credits: u32) -> Result<Option<OwnReceives>> {
        if self.receives.is_some() {
            return Ok(None);
        }
        // Beside the marker of `ib_drain_rq`.
        let most = self.limits.max_qp_wr.min(self.limits.max_cqe);
        let max = credits.saturating_add(SPARE).min(most.saturating_sub(1));
        let receives = Receives::own(&self.pd, max as usize, self.queue.clone())?;
        Ok(Some(OwnReceives::new(receives)))
    }

    /// Where a connection receives, which may have `own` buffers: these or those of the device, and
    /// entries of a completion queue for them. May sleep.
    pub(super) fn receives<'a>(
        &'a self,
        own: Option<&'a OwnReceives>,
        vector: u32,
    ) -> Result<(&'a Receives<Endpoint>, Share)> {
        if let Some(own) = own.map(OwnReceives::receives) {
            let entries = u32::try_from(own.max()).unwrap_or(u32::MAX);
            let entries = entries.saturating_add(1);
            let cqs = &self.own_receive_cqs;
            let share = cqs.share(&self.pd, &self.limits, entries, vector)?;
            return Ok((own, share));
        }
        let shared = self.receives.as_ref().ok_or(EINVAL)?;
        let cq = shared.cqs.get(vector as usize).ok_or(EINVAL)?;
        Ok((&shared.receives, cq.share(0).ok_or(ENOSPC)?))
    }

    /// Entries of a completion queue for the work that a connection can have posted, and for the
    /// marker that ends it. May sleep.
    pub(super) fn send_cq(&self, vector: u32) -> Result<Share> {
        let entries = self.send_depth.saturating_add(1);
        self.send_cqs.share(&self.pd, &self.limits, entries, vector)
    }

    /// Whether the device says that a queue by which all receive has failed: their messages come in
    /// no more.
    pub(super) fn is_broken(&self) -> bool {
        self.receives
            .as_ref()
            .is_some_and(SharedReceives::is_broken)
    }

    /// Whether they would be others if they were made now. Also if there are more Receive buffers than
    /// in the beginning: there were many Calls, or messages that never ended have taken some along,
    /// see [`Receives`]. And if there are fewer, as there was no memory, or if they are broken.
    pub(super) fn is_outdated(&self) -> bool {
        let shared = self.receives.as_ref();
        let has_others = shared.is_some_and(|shared| shared.receives.count() != shared.begun);
        self.is_broken() || has_others || self.settings != Settings::now()
    }

    /// Looks after what connections share; returns how many Receive buffers there are for them.
    pub(super) fn tick(&self) -> Option<u32> {
        self.receives.as_ref().map(SharedReceives::tick)
    }
}

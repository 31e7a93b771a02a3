// SPDX-License-Identifier: GPL-2.0

//! Hardware: the objects that the connections of a device share on it.
//!
//! Queues are sized by what the device can do and by what an admin has set when the first
//! connection came. Contexts: process, and may sleep, but for reading what never changes.

use super::{
    endpoint::Endpoint,
    stats, //
};
use crate::{
    abstractions::{
        ratelimit,
        rdma::{
            cq::{
                Cq,
                Share, //
            },
            device::{
                IbDevice,
                Limits,
                Pd, //
            },
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

/// The most pieces that a work request of ours has: 32 pages are 128 KiB.
const MAX_SGE: u32 = 32;

/// Pieces that a Send needs, which carries at most two ranges of the results: the header, and 4 KiB
/// in two ranges that go through head, pages and tail.
const MIN_SGE: u32 = 8;

/// Work requests that a connection can have posted. With the marker of `ib_drain_sq` and the entry
/// that a ring leaves empty it is a power of two, as drivers round up.
const SEND_DEPTH: u32 = 62;

/// The most Receive completion queues of a device.
const MAX_RECEIVE_CQS: u32 = 4;

/// Entries of a send completion queue: those of 65 connections.
const SEND_CQ: u32 = 4096;

/// How far the buffers of the shared receive queue may grow when some are lost.
const RECEIVES_GROWTH: usize = 4;

/// The hardware objects of a device, which its connections use. Dropped by the device's removal.
pub(super) struct Hardware {
    pub(super) pd: Arc<Pd>,
    pub(super) receives: Receives<Endpoint>,
    /// How many buffers these had at the last tick.
    known_receives: Atomic<u32>,
    receive_cqs: KVec<Arc<Cq>>,
    next_cq: Atomic<u32>,
    /// Made as connections need them; each serves many.
    send_cqs: Pin<KBox<Mutex<KVec<Arc<Cq>>>>>,
    pub(super) limits: Limits,
    /// Work requests that a connection can have posted.
    pub(super) send_depth: u32,
    /// Pieces of a work request.
    pub(super) max_sge: u32,
    /// Pieces of an RDMA Read.
    pub(super) max_read_sge: u32,
}

impl Hardware {
    /// Makes them. May sleep.
    pub(super) fn new(ib: &IbDevice, queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        let limits = ib.limits();
        Self::check(ib, &limits)?;
        let pd = Pd::new(ib)?;
        let count = stats::RECEIVES.get().min(limits.max_srq_wr) as usize;
        let max = count
            .saturating_mul(RECEIVES_GROWTH)
            .min(limits.max_srq_wr as usize);
        // A completion queue has to take the completions of all buffers at once.
        let entries = u32::try_from(max).unwrap_or(u32::MAX).min(limits.max_cqe);
        let max = max.min(entries as usize);
        let mut receive_cqs = KVec::new();
        for vector in 0..limits.num_comp_vectors.clamp(1, MAX_RECEIVE_CQS) {
            receive_cqs.push(Cq::new(&pd, entries, vector)?, GFP_KERNEL)?;
        }
        let receives = Receives::new(&pd, count.min(max), max, queue)?;
        let hardware = Self {
            known_receives: Atomic::new(u32::try_from(receives.count()).unwrap_or(u32::MAX)),
            receives,
            receive_cqs,
            next_cq: Atomic::new(0),
            send_cqs: KBox::pin_init(new_mutex!(KVec::new(), "svcrdma send CQs"), GFP_KERNEL)?,
            send_depth: SEND_DEPTH.min(limits.max_qp_wr.saturating_sub(1)),
            max_sge: MAX_SGE.min(limits.max_send_sge),
            max_read_sge: MAX_SGE.min(limits.max_send_sge).min(limits.max_sge_rd),
            limits,
            pd,
        };
        Ok(Arc::new(hardware, GFP_KERNEL)?)
    }

    /// Whether the device is one that we can serve.
    fn check(ib: &IbDevice, limits: &Limits) -> Result {
        let lacking = if limits.iwarp {
            "a Read chunk needs no memory registration (iWARP is not supported yet)"
        } else if limits.max_srq == 0 || limits.max_srq_wr < 16 {
            "shared receive queues"
        } else if limits.max_send_sge < MIN_SGE || limits.max_sge_rd == 0 {
            "work requests of 8 pieces"
        } else {
            return Ok(());
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

    /// The vector and the Receive completion queue for the next connection.
    pub(super) fn next_cq(&self) -> Option<(u32, &Arc<Cq>)> {
        let count = u32::try_from(self.receive_cqs.len()).ok()?;
        let vector = self.next_cq.fetch_add(1, Relaxed).checked_rem(count)?;
        Some((vector, self.receive_cqs.get(vector as usize)?))
    }

    /// Entries of a completion queue for the work that a connection can have posted, and for the
    /// marker that ends it. May sleep.
    pub(super) fn send_cq(&self, vector: u32) -> Result<Share> {
        let entries = self.send_depth.saturating_add(1);
        let mut cqs = self.send_cqs.lock();
        if let Some(share) = cqs.iter().find_map(|cq| cq.share(entries)) {
            return Ok(share);
        }
        let size = SEND_CQ.min(self.limits.max_cqe).max(entries);
        let cq = Cq::new(&self.pd, size, vector)?;
        let share = cq.share(entries).ok_or(ENOSPC)?;
        cqs.push(cq, GFP_KERNEL)?;
        Ok(share)
    }

    /// Tries again what has failed with Receive buffers, and counts those that were added; returns
    /// how many there are.
    pub(super) fn tick(&self) -> u32 {
        self.receives.retry();
        let count = u32::try_from(self.receives.count()).unwrap_or(u32::MAX);
        let before = self.known_receives.xchg(count, Relaxed);
        stats::RECEIVES_ADDED.add(count.saturating_sub(before));
        count
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Completion queues of a lane, for one kind of work.
//!
//! # Context
//!
//! Process context, and may sleep.

use core::pin::Pin;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};
use rdma::{
    cq::{
        Completes,
        Cq,
        CqReservation, //
    },
    device::Pd, //
};

/// The entries of a shared completion queue: enough for the Sends of 65 connections.
pub(super) const SHARED_CQ: u32 = 4096;

/// The completion queues of one kind of work on one completion vector.
///
/// Each connection has a reservation of the entries of a queue. A queue is created when the others have
/// too few entries left.
pub(super) struct Cqs {
    completes: Completes,
    vector: u32,
    list: Pin<KBox<Mutex<KVec<Arc<Cq>>>>>,
}

impl Cqs {
    /// Returns no queues yet.
    pub(super) fn new(completes: Completes, vector: u32) -> Result<Self> {
        let list = new_mutex!(KVec::new(), "svcrdma completion queues");
        let list = KBox::pin_init(list, GFP_KERNEL)?;
        Ok(Self {
            completes,
            vector,
            list,
        })
    }

    /// Reserves `entries` entries of a queue. Queues have up to `max_cqe` entries.
    ///
    /// # Errors
    ///
    /// Those of creating a queue.
    pub(super) fn reserve(
        &self,
        pd: &Arc<Pd>,
        max_cqe: u32,
        entries: u32,
    ) -> Result<CqReservation> {
        let mut cqs = self.list.lock();
        for cq in cqs.iter() {
            if let Some(reservation) = cq.reserve(entries)? {
                return Ok(reservation);
            }
        }
        let size = SHARED_CQ.min(max_cqe).max(entries);
        let cq = Cq::new(pd, self.completes, size, self.vector)?;
        let reservation = cq.reserve(entries)?.ok_or(ENOSPC)?;
        cqs.push(cq, GFP_KERNEL)?;
        Ok(reservation)
    }

    /// Returns true if a queue has failed.
    pub(super) fn is_broken(&self) -> bool {
        self.list.lock().iter().any(|cq| cq.is_broken())
    }

    /// Returns the number of reserved entries.
    pub(super) fn used(&self) -> u32 {
        let cqs = self.list.lock();
        cqs.iter()
            .fold(0, |used: u32, cq| used.saturating_add(cq.used()))
    }

    /// Destroys the queues without reserved entries.
    pub(super) fn trim(&self) {
        let mut cqs = self.list.lock();
        let mut i: usize = 0;
        while let Some(cq) = cqs.get(i) {
            if cq.is_idle() {
                drop(cqs.remove(i))
            } else {
                i = i.saturating_add(1)
            }
        }
    }

    /// Releases all queues. Connections keep those that they have a reservation of.
    pub(super) fn release(&self) {
        let cqs = core::mem::take(&mut *self.list.lock());
        drop(cqs);
    }
}

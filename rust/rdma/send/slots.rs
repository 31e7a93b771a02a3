// SPDX-License-Identifier: GPL-2.0

//! The slots of a send queue: the work request that is posted in each, and the work that it ends.
//!
//! A [`SendQueue`](crate::send::queue::SendQueue) owns the slots and protects them with its lock.
//! Nothing here drops work, and only [`Slots::new`] sleeps.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::send::{
    claim::Claim,
    progress::Amount, //
};
use kernel::prelude::*;

/// A slot of a send queue.
struct Slot<W> {
    /// The work whose last work request is in the slot.
    work: Option<W>,
    /// The claim and the amount of the work, if there is work.
    claim: Claim,
    amount: Amount,
    /// Time of posting of the first work request of the same work, in seconds of the `SendQueue`.
    posted: u32,
    /// True if the work request is signalled and has not completed.
    is_awaited: bool,
}

/// All slots of a send queue.
pub(crate) struct Slots<W> {
    slots: KVec<Slot<W>>,
    /// Number of awaited slots.
    awaited: usize,
}

impl<W> Slots<W> {
    /// Allocates `depth` empty slots. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(depth: u32) -> Result<Self> {
        let mut slots = KVec::with_capacity(depth as usize, GFP_KERNEL)?;
        for _ in 0..depth {
            let slot = Slot {
                work: None,
                claim: Claim::none(),
                amount: Amount::default(),
                posted: 0,
                is_awaited: false,
            };
            slots.push(slot, GFP_KERNEL)?;
        }
        Ok(Self { slots, awaited: 0 })
    }

    /// Returns the number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Puts a work request into the slot `index`, which is free. The first work request of the same
    /// work was posted at `posted`.
    #[inline]
    pub(crate) fn fill(&mut self, index: usize, posted: u32, is_awaited: bool) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.posted = posted;
            slot.is_awaited = is_awaited;
        }
        // At most the number of slots.
        self.awaited = self.awaited.wrapping_add(usize::from(is_awaited));
    }

    /// Stores posted work, whose last work request is in the slot `index`.
    #[inline]
    pub(crate) fn retain(&mut self, index: usize, work: W, claim: Claim, amount: Amount) {
        match self.slots.get_mut(index) {
            Some(slot) => {
                slot.work = Some(work);
                slot.claim = claim;
                slot.amount = amount;
            }
            // Never reached, as each entry has a slot. The device may use the memory of the work,
            // so the work is leaked, not dropped.
            None => core::mem::forget(work),
        }
    }

    /// Takes the work that ends with the slot `index`, with its claim and amount.
    #[inline]
    pub(crate) fn take(&mut self, index: usize) -> Option<(W, &Claim, Amount)> {
        let slot = self.slots.get_mut(index)?;
        let work = slot.work.take()?;
        Some((work, &slot.claim, slot.amount))
    }

    /// Notes that the work request in the slot `index` has completed.
    #[inline]
    pub(crate) fn complete(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if core::mem::replace(&mut slot.is_awaited, false) {
            // `fill` has counted the slot.
            self.awaited = self.awaited.wrapping_sub(1);
        }
    }

    /// Takes any work that is left.
    pub(crate) fn take_any(&mut self) -> Option<W> {
        self.slots.iter_mut().find_map(|slot| slot.work.take())
    }

    /// Returns an iterator over all work, with its amount.
    pub(crate) fn work(&self) -> impl Iterator<Item = (&W, Amount)> {
        self.slots
            .iter()
            .filter_map(|slot| Some((slot.work.as_ref()?, slot.amount)))
    }

    /// Returns the seconds from the posting of the work in the slot `index` to `now`.
    pub(crate) fn age(&self, index: usize, now: u32) -> u32 {
        let slot = self.slots.get(index);
        slot.map_or(0, |slot| now.wrapping_sub(slot.posted))
    }

    /// Returns true if a completion is awaited.
    #[inline]
    pub(crate) fn is_any_awaited(&self) -> bool {
        self.awaited > 0
    }

    /// Returns the seconds up to `now` for which the oldest awaited completion is awaited, 0 if
    /// none is.
    pub(crate) fn oldest_awaited(&self, now: u32) -> u32 {
        let awaited = self.slots.iter().filter(|slot| slot.is_awaited);
        let ages = awaited.map(|slot| now.wrapping_sub(slot.posted));
        ages.max().unwrap_or(0)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The slots of a send queue: the work request that is posted in each, and the work that it ends.
//!
//! A [`SendQueue`](crate::send_queue::SendQueue) owns the slots and protects them with its lock.
//! Nothing here drops work, and only [`Slots::new`] sleeps.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use kernel::prelude::*;

/// A slot of a send queue.
struct Slot<W> {
    /// The work whose last work request is in the slot.
    work: Option<W>,
    /// True if the work request is signalled and has not completed.
    is_awaited: bool,
    /// Time of posting of the first work request of the same work, in seconds of the `SendQueue`.
    posted: u32,
}

/// All slots of a send queue.
pub(super) struct Slots<W> {
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
    pub(super) fn new(depth: u32) -> Result<Self> {
        let mut slots = KVec::with_capacity(depth as usize, GFP_KERNEL)?;
        for _ in 0..depth {
            let slot = Slot {
                work: None,
                is_awaited: false,
                posted: 0,
            };
            slots.push(slot, GFP_KERNEL)?;
        }
        Ok(Self { slots, awaited: 0 })
    }

    /// Returns the number of slots.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Puts a work request into the slot `index`. The first work request of the same work was
    /// posted at `posted`.
    #[inline]
    pub(super) fn fill(&mut self, index: usize, posted: u32, is_awaited: bool) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.posted = posted;
            slot.is_awaited = is_awaited;
            self.awaited = self.awaited.saturating_add(usize::from(is_awaited));
        }
    }

    /// Stores `work`, whose last work request is in the slot `index`.
    pub(super) fn retain(&mut self, index: usize, work: W) {
        match self.slots.get_mut(index) {
            Some(slot) => slot.work = Some(work),
            // Never reached, as each entry has a slot. The device may use the memory of the work,
            // so the work is leaked, not dropped.
            None => core::mem::forget(work),
        }
    }

    /// Notes that the work request in the slot `index` has completed. Returns the work that ends
    /// with it.
    #[inline]
    pub(super) fn clear(&mut self, index: usize) -> Option<W> {
        let slot = self.slots.get_mut(index)?;
        let was_awaited = core::mem::replace(&mut slot.is_awaited, false);
        self.awaited = self.awaited.saturating_sub(usize::from(was_awaited));
        slot.work.take()
    }

    /// Takes any work that is left.
    pub(super) fn take_any(&mut self) -> Option<W> {
        self.slots.iter_mut().find_map(|slot| slot.work.take())
    }

    /// Returns an iterator over all work.
    pub(super) fn work(&self) -> impl Iterator<Item = &W> {
        self.slots.iter().filter_map(|slot| slot.work.as_ref())
    }

    /// Returns the seconds from the posting of the work in the slot `index` to `now`.
    pub(super) fn age(&self, index: usize, now: u32) -> u32 {
        let slot = self.slots.get(index);
        slot.map_or(0, |slot| now.wrapping_sub(slot.posted))
    }

    /// Returns true if a completion is awaited.
    pub(super) fn is_any_awaited(&self) -> bool {
        self.awaited > 0
    }

    /// Returns the seconds up to `now` for which the oldest awaited completion is awaited, 0 if
    /// none is.
    pub(super) fn oldest_awaited(&self, now: u32) -> u32 {
        let awaited = self.slots.iter().filter(|slot| slot.is_awaited);
        let ages = awaited.map(|slot| now.wrapping_sub(slot.posted));
        ages.max().unwrap_or(0)
    }
}

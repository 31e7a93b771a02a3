// SPDX-License-Identifier: GPL-2.0

//! The slots of a send queue: what is posted in each, and the work that ends there.
//!
//! Owned by a [`SendQueue`](super::send_queue::SendQueue), under its lock. Nothing here sleeps, and no work is
//! dropped.

use kernel::prelude::*;

/// A slot of the send queue.
struct Slot<W> {
    /// The sequence number of the work request in it.
    seq: u32,
    /// The work whose last work request it is.
    work: Option<W>,
    /// Whether it completes visibly, and has not yet.
    is_awaited: bool,
    /// When the first of its work was posted, in the seconds of the `SendQueue`.
    posted: u32,
}

/// All slots of a send queue.
pub(super) struct Slots<W> {
    slots: KVec<Slot<W>>,
    /// How many of them are awaited.
    awaited: usize,
}

impl<W> Slots<W> {
    /// Makes `depth` empty ones. May sleep.
    pub(super) fn new(depth: u32) -> Result<Self> {
        let mut slots = KVec::with_capacity(depth as usize, GFP_KERNEL)?;
        for _ in 0..depth {
            let slot = Slot {
                seq: 0,
                work: None,
                is_awaited: false,
                posted: 0,
            };
            slots.push(slot, GFP_KERNEL)?;
        }
        Ok(Self { slots, awaited: 0 })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The work request `seq` is in the slot `index` now, of work that began at `posted`.
    pub(super) fn fill(&mut self, index: usize, seq: u32, posted: u32, is_awaited: bool) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.seq = seq;
            slot.posted = posted;
        }
        self.set_awaited(index, is_awaited);
    }

    fn set_awaited(&mut self, index: usize, is_awaited: bool) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        match (
            core::mem::replace(&mut slot.is_awaited, is_awaited),
            is_awaited,
        ) {
            (false, true) => self.awaited = self.awaited.saturating_add(1),
            (true, false) => self.awaited = self.awaited.saturating_sub(1),
            _ => {}
        }
    }

    /// The last work request of `work` is in the slot `index`.
    pub(super) fn retain(&mut self, index: usize, work: W) {
        match self.slots.get_mut(index) {
            Some(slot) => slot.work = Some(work),
            // There is a slot for every entry; the device must never find its memory freed.
            None => core::mem::forget(work),
        }
    }

    /// The work request in the slot `index` has completed: gives back the work that ends with it.
    pub(super) fn clear(&mut self, index: usize) -> Option<W> {
        self.set_awaited(index, false);
        self.slots.get_mut(index)?.work.take()
    }

    /// Any work that is left.
    pub(super) fn take_any(&mut self) -> Option<W> {
        self.slots.iter_mut().find_map(|slot| slot.work.take())
    }

    /// All work.
    pub(super) fn work(&self) -> impl Iterator<Item = &W> {
        self.slots.iter().filter_map(|slot| slot.work.as_ref())
    }

    /// The sequence number of the work request in the slot `index`.
    pub(super) fn seq(&self, index: usize) -> Option<u32> {
        self.slots.get(index).map(|slot| slot.seq)
    }

    /// Seconds at `now` since the work of the slot `index` began.
    pub(super) fn age(&self, index: usize, now: u32) -> u32 {
        let slot = self.slots.get(index);
        slot.map_or(0, |slot| now.wrapping_sub(slot.posted))
    }

    /// Whether a completion is awaited.
    pub(super) fn is_any_awaited(&self) -> bool {
        self.awaited > 0
    }

    /// Seconds at `now` that the oldest awaited completion is awaited, 0 if none is.
    pub(super) fn oldest_awaited(&self, now: u32) -> u32 {
        let awaited = self.slots.iter().filter(|slot| slot.is_awaited);
        let ages = awaited.map(|slot| now.wrapping_sub(slot.posted));
        ages.max().unwrap_or(0)
    }
}

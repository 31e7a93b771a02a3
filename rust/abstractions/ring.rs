// SPDX-License-Identifier: GPL-2.0

//! A queue that was given its room beforehand: pushing to it never allocates.

use kernel::prelude::*;

/// A first-in-first-out queue of bounded length. Dropping it sleeps.
pub(crate) struct Ring<T> {
    slots: KVVec<Option<T>>,
    head: usize,
    len: usize,
}

impl<T> Ring<T> {
    /// Makes a queue for `capacity` items. May sleep.
    pub(crate) fn with_capacity(capacity: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(capacity, GFP_KERNEL)?;
        for _ in 0..capacity {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            slots,
            head: 0,
            len: 0,
        })
    }

    /// A queue without room.
    pub(crate) fn none() -> Self {
        Self {
            slots: KVVec::new(),
            head: 0,
            len: 0,
        }
    }

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds `item` at the end, or gives it back when there is no room.
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        if self.len == self.slots.len() {
            return Err(item);
        }
        let end = self.behind_head(self.len);
        match self.slots.get_mut(end) {
            Some(slot) => *slot = Some(item),
            None => return Err(item),
        }
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Takes the first item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.slots.get_mut(self.head)?.take()?;
        self.head = self.behind_head(1);
        self.len = self.len.saturating_sub(1);
        Some(item)
    }

    /// The slot `n` behind the head; `n` is not more than there are.
    fn behind_head(&self, n: usize) -> usize {
        let slot = self.head.saturating_add(n);
        slot.checked_sub(self.slots.len()).unwrap_or(slot)
    }

    /// The first item.
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.slots.get_mut(self.head)?.as_mut()
    }
}

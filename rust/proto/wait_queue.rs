// SPDX-License-Identifier: GPL-2.0

//! A queue of items that have owners, over preallocated slots: pushing never allocates.
//!
//! An owner's items can be removed out of their turn without a search through those of others.

use core::{
    iter::successors,
    mem::replace,
    ops::DerefMut, //
};

/// The index of no slot.
const NONE: u32 = u32::MAX;

/// A slot of a [`WaitQueue`], and the ends of the bucket that has the index of the slot.
pub struct Slot<T> {
    /// The item and its owner.
    item: Option<(u64, T)>,
    /// The slot of the item before this one in the queue.
    prev: u32,
    /// The slot of the item behind this one in the queue. For an empty slot, the next empty one.
    next: u32,
    /// The slot of the next younger item in the same bucket.
    younger: u32,
    /// The slot of the oldest item in the bucket.
    oldest: u32,
    /// The slot of the youngest item in the bucket.
    youngest: u32,
}

impl<T> Default for Slot<T> {
    /// Returns an empty slot that is in no list.
    fn default() -> Self {
        Self {
            item: None,
            prev: NONE,
            next: NONE,
            younger: NONE,
            oldest: NONE,
            youngest: NONE,
        }
    }
}

/// A first-in-first-out queue over `slots`, such as a vector of [`Slot`]. Fewer than `u32::MAX` slots
/// are used.
///
/// An owner belongs to the bucket whose index is the owner modulo the number of slots. Owners with
/// consecutive numbers share a bucket only if there are more of them than slots.
///
/// # Invariants
///
/// - The `len` slots with items are a list from `first` to `last`, linked by `next` and `prev`, in the
///   order in which the items were pushed.
/// - The other slots are a list from `free` on, linked by `next`.
/// - The items of the owners of a bucket are a list from its `oldest` to its `youngest`, linked by
///   `younger`, in the order in which they were pushed.
pub struct WaitQueue<S> {
    slots: S,
    first: u32,
    last: u32,
    free: u32,
    len: usize,
}

impl<T, S: DerefMut<Target = [Slot<T>]>> WaitQueue<S> {
    /// Returns an empty queue with room for as many items as there are slots. Drops items in the
    /// slots.
    pub fn new(mut slots: S) -> Self {
        slots.fill_with(Slot::default);
        let mut free = NONE;
        // INVARIANT: The list of empty slots has all slots that `u32` can number.
        for (at, slot) in (0..NONE).zip(slots.iter_mut()) {
            slot.next = replace(&mut free, at);
        }
        Self {
            slots,
            first: NONE,
            last: NONE,
            free,
            len: 0,
        }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no item.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the first item.
    pub fn front(&self) -> Option<&T> {
        let (_, item) = self.slots.get(self.first as usize)?.item.as_ref()?;
        Some(item)
    }

    /// Returns the owners of all items, in the order of the items.
    pub fn owners<'a>(&'a self) -> impl Iterator<Item = u64> + 'a
    where
        T: 'a,
    {
        let slot = |at: u32| self.slots.get(at as usize);
        let all = successors(slot(self.first), move |one| slot(one.next));
        all.filter_map(|slot| slot.item.as_ref().map(|item| item.0))
    }

    /// Pushes `item` of `owner` at the end.
    ///
    /// # Errors
    ///
    /// Returns the item if no slot is empty.
    pub fn push(&mut self, owner: u64, item: T) -> Result<(), T> {
        let (at, last) = (self.free, self.last);
        let Some(slot) = self.slot(at) else {
            return Err(item);
        };
        slot.item = Some((owner, item));
        slot.prev = last;
        let free = replace(&mut slot.next, NONE);
        // INVARIANT: The slot leaves the list of empty slots and becomes the last one of the queue and
        // of its bucket. Its `younger` is `NONE` already, as that of each empty slot.
        self.free = free;
        match self.slot(last) {
            Some(before) => before.next = at,
            None => self.first = at,
        }
        self.last = at;
        // At most the number of slots.
        self.len = self.len.wrapping_add(1);
        let bucket = self.bucket(owner);
        let youngest = self.slot(bucket).map(|b| replace(&mut b.youngest, at));
        self.set_younger(bucket, youngest.unwrap_or(NONE), at);
        Ok(())
    }

    /// Removes and returns the first item.
    pub fn pop(&mut self) -> Option<T> {
        // The oldest item of all is the oldest one of its owner.
        let owner = self.owners().next()?;
        self.remove(owner)
    }

    /// Removes and returns the oldest item of `owner`.
    pub fn remove(&mut self, owner: u64) -> Option<T> {
        let bucket = self.bucket(owner);
        let (mut older, mut at) = (NONE, self.slot(bucket)?.oldest);
        loop {
            let slot = self.slot(at)?;
            if slot.item.as_ref().is_some_and(|item| item.0 == owner) {
                break;
            }
            (older, at) = (at, slot.younger);
        }
        self.unlink(bucket, older, at)
    }

    /// Removes the item in the slot `at` from the queue and from `bucket`, where the item in the slot
    /// `older` precedes it.
    fn unlink(&mut self, bucket: u32, older: u32, at: u32) -> Option<T> {
        let free = self.free;
        let slot = self.slot(at)?;
        let (_, item) = slot.item.take()?;
        let (prev, next) = (slot.prev, replace(&mut slot.next, free));
        let younger = replace(&mut slot.younger, NONE);
        // INVARIANT: The slot is empty and leads the list of such slots. Its neighbours in the queue
        // and in the bucket are linked to each other.
        self.free = at;
        self.len = self.len.wrapping_sub(1);
        match self.slot(prev) {
            Some(before) => before.next = next,
            None => self.first = next,
        }
        match self.slot(next) {
            Some(behind) => behind.prev = prev,
            None => self.last = prev,
        }
        self.set_younger(bucket, older, younger);
        if younger == NONE {
            self.slot(bucket)?.youngest = older;
        }
        Some(item)
    }

    /// Makes the item in the slot `at` follow that in the slot `older` in `bucket`, or makes it the
    /// oldest one there.
    fn set_younger(&mut self, bucket: u32, older: u32, at: u32) {
        if let Some(slot) = self.slot(older) {
            slot.younger = at;
        } else if let Some(slot) = self.slot(bucket) {
            slot.oldest = at;
        }
    }

    /// Returns the slot with the index `at`.
    fn slot(&mut self, at: u32) -> Option<&mut Slot<T>> {
        self.slots.get_mut(at as usize)
    }

    /// Returns the index of the bucket of `owner`.
    fn bucket(&self, owner: u64) -> u32 {
        let bucket = owner.checked_rem(self.slots.len() as u64);
        bucket.and_then(|at| u32::try_from(at).ok()).unwrap_or(NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn queue(slots: usize) -> WaitQueue<Vec<Slot<u32>>> {
        WaitQueue::new((0..slots).map(|_| Slot::default()).collect())
    }

    #[test]
    fn a_full_queue_returns_the_item() {
        let mut queue = queue(2);
        assert_eq!((queue.push(7, 1), queue.push(8, 2)), (Ok(()), Ok(())));
        assert_eq!((queue.push(7, 3), queue.len()), (Err(3), 2));
        assert_eq!((queue.remove(8), queue.remove(8)), (Some(2), None));
        assert_eq!((queue.push(7, 3), queue.front()), (Ok(()), Some(&1)));
        assert_eq!([(); 3].map(|()| queue.pop()), [Some(1), Some(3), None]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_queue_without_slots_is_full_and_empty() {
        let mut queue = queue(0);
        assert_eq!(
            (queue.push(1, 1), queue.pop(), queue.remove(1)),
            (Err(1), None, None)
        );
        assert_eq!(
            (queue.len(), queue.front(), queue.owners().next()),
            (0, None, None)
        );
    }

    #[test]
    fn agrees_with_a_plain_queue() {
        for slots in 1..9 {
            let (mut queue, mut model, mut seed) = (queue(slots), VecDeque::new(), 7u32);
            for item in 0..4000 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // More owners than slots, so that some share a bucket.
                let owner = u64::from(seed >> 24) % 11;
                match (seed >> 16) & 7 {
                    0 | 1 => assert_eq!(queue.pop(), model.pop_front().map(|(_, item)| item)),
                    2 | 3 => {
                        let at = model.iter().position(|one: &(u64, u32)| one.0 == owner);
                        let gone = at.and_then(|at| model.remove(at)).map(|(_, item)| item);
                        assert_eq!(queue.remove(owner), gone);
                    }
                    _ if model.len() < slots => {
                        assert_eq!(queue.push(owner, item), Ok(()));
                        model.push_back((owner, item));
                    }
                    _ => assert_eq!(queue.push(owner, item), Err(item)),
                }
                assert_eq!(
                    (queue.len(), queue.is_empty()),
                    (model.len(), model.is_empty())
                );
                assert_eq!(queue.front(), model.front().map(|(_, item)| item));
                assert!(queue.owners().eq(model.iter().map(|(owner, _)| *owner)));
            }
        }
    }

    #[test]
    fn a_removal_does_not_search_the_items_of_others() {
        // Each owner has a bucket, so the list of a bucket has the items of one owner.
        let mut queue = queue(64);
        for item in 0..64 {
            assert_eq!(queue.push(u64::from(item % 8), item), Ok(()));
        }
        for owner in 0..8 {
            let mut at = queue.slots[owner as usize].oldest;
            let mut seen = 0;
            while let Some(slot) = queue.slots.get(at as usize) {
                assert_eq!(slot.item.as_ref().map(|item| item.0), Some(owner));
                (at, seen) = (slot.younger, seen + 1);
            }
            assert_eq!(seen, 8);
        }
    }
}

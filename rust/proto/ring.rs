// SPDX-License-Identifier: GPL-2.0

//! A queue over preallocated slots: pushing never allocates.

use core::ops::DerefMut;

/// A first-in-first-out queue over `slots`, such as a vector of `Option<T>`.
///
/// # Invariants
///
/// - `head` and `end` are indices of slots, or 0 without slots.
/// - Each of the `len` slots from `head` on, wrapping at the end of `slots`, holds an item; the
///   other slots are empty. `end` is the slot behind these.
pub struct Ring<S> {
    slots: S,
    head: usize,
    end: usize,
    len: usize,
}

impl<T, S: DerefMut<Target = [Option<T>]>> Ring<S> {
    /// Returns an empty queue with room for as many items as there are slots. Drops items in the
    /// slots.
    pub fn new(mut slots: S) -> Self {
        slots.fill_with(|| None);
        // INVARIANT: All slots are empty.
        Self {
            slots,
            head: 0,
            end: 0,
            len: 0,
        }
    }

    /// Returns the number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no item.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if no slot is empty.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == self.slots.len()
    }

    /// Pushes `item` at the end.
    ///
    /// # Errors
    ///
    /// Returns the item if no slot is empty.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        match self.slots.get_mut(self.end) {
            Some(slot) if slot.is_none() => *slot = Some(item),
            _ => return Err(item),
        }
        // INVARIANT: The slot was empty, so it was the one behind all items.
        self.end = self.behind(self.end);
        // At most the number of slots.
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Removes and returns the first item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let item = self.slots.get_mut(self.head)?.take()?;
        // INVARIANT: There was an item.
        self.head = self.behind(self.head);
        self.len = self.len.wrapping_sub(1);
        Some(item)
    }

    /// Removes the items for which `is_gone` returns true, and passes them to `gone`. The other items
    /// keep their order.
    pub fn remove_if(&mut self, mut is_gone: impl FnMut(&T) -> bool, mut gone: impl FnMut(T)) {
        for _ in 0..self.len {
            let Some(item) = self.pop() else {
                return;
            };
            if is_gone(&item) {
                gone(item)
            } else {
                // `pop()` has made room.
                drop(self.push(item))
            }
        }
    }

    /// Removes and returns the item with the index `at`, where 0 is the first item. The other items
    /// keep their order.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let (mut index, mut removed) = (0usize, None);
        self.remove_if(
            |_| {
                let is_it = index == at;
                index = index.wrapping_add(1);
                is_it
            },
            |item| removed = Some(item),
        );
        removed
    }

    /// Returns all items, the first one first.
    pub fn iter<'a>(&'a self) -> impl Iterator<Item = &'a T> + Clone
    where
        T: 'a,
    {
        let (wrapped, first) = self.slots.split_at_checked(self.head).unwrap_or_default();
        first.iter().chain(wrapped).flatten()
    }

    /// Returns all items to be changed, in no particular order.
    pub fn iter_mut<'a>(&'a mut self) -> impl Iterator<Item = &'a mut T>
    where
        T: 'a,
    {
        self.slots.iter_mut().flatten()
    }

    /// Returns the first item.
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.slots.get_mut(self.head)?.as_mut()
    }

    /// Returns the index of the slot behind `slot`.
    #[inline]
    fn behind(&self, slot: usize) -> usize {
        match slot.wrapping_add(1) {
            behind if behind < self.slots.len() => behind,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn ring(slots: usize) -> Ring<Vec<Option<u32>>> {
        Ring::new((0..slots).map(|_| None).collect())
    }

    #[test]
    fn removed_items_leave_the_others_in_order() {
        let mut ring = ring(4);
        // The items wrap around the end of the slots.
        assert_eq!((ring.push(0), ring.pop()), (Ok(()), Some(0)));
        assert!((1..=4).all(|item| !ring.is_full() && ring.push(item).is_ok()));
        assert!(ring.is_full());
        let mut gone = Vec::new();
        ring.remove_if(|item| item % 2 == 0, |item| gone.push(item));
        assert_eq!((gone, ring.len()), (vec![2, 4], 2));
        assert_eq!(ring.push(5), Ok(()));
        assert_eq!(
            [(); 4].map(|()| ring.pop()),
            [Some(1), Some(3), Some(5), None]
        );
    }

    #[test]
    fn all_items_can_be_changed() {
        let mut ring = ring(3);
        assert_eq!((ring.push(0), ring.pop()), (Ok(()), Some(0)));
        assert!((1..=3).all(|item| ring.push(item).is_ok()));
        ring.iter_mut().for_each(|item| *item *= 10);
        assert_eq!(
            [(); 4].map(|()| ring.pop()),
            [Some(10), Some(20), Some(30), None]
        );
    }

    #[test]
    fn an_item_is_removed_by_its_index() {
        let mut ring = ring(4);
        assert_eq!((ring.push(0), ring.pop()), (Ok(()), Some(0)));
        assert!((1..=4).all(|item| ring.push(item).is_ok()));
        assert_eq!((ring.remove(4), ring.len()), (None, 4));
        assert_eq!((ring.remove(2), ring.remove(2)), (Some(3), Some(4)));
        assert_eq!((ring.push(5), ring.remove(0)), (Ok(()), Some(1)));
        assert!(ring.iter().eq(&[2, 5]));
        assert_eq!(
            [ring.pop(), ring.pop(), ring.remove(0)],
            [Some(2), Some(5), None]
        );
    }

    #[test]
    fn a_full_ring_returns_the_item() {
        let mut ring = ring(2);
        assert_eq!((ring.push(1), ring.push(2)), (Ok(()), Ok(())));
        assert_eq!((ring.push(3), ring.len()), (Err(3), 2));
        assert_eq!((ring.pop(), ring.push(3)), (Some(1), Ok(())));
        assert_eq!((ring.push(4), ring.front_mut()), (Err(4), Some(&mut 2)));
        assert_eq!(
            [ring.pop(), ring.pop(), ring.pop()],
            [Some(2), Some(3), None]
        );
        assert!(ring.is_empty());
    }

    #[test]
    fn a_ring_without_slots_is_full_and_empty() {
        let mut ring = ring(0);
        assert_eq!((ring.push(1), ring.pop()), (Err(1), None));
        assert_eq!((ring.len(), ring.front_mut()), (0, None));
    }

    #[test]
    fn agrees_with_a_plain_queue() {
        for slots in 1..9 {
            let (mut ring, mut model, mut seed) = (ring(slots), VecDeque::new(), 7u32);
            for item in 0..2000 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if seed & 0x1_0000 == 0 {
                    assert_eq!(ring.pop(), model.pop_front());
                } else if model.len() < slots {
                    assert_eq!(ring.push(item), Ok(()));
                    model.push_back(item);
                } else {
                    assert_eq!(ring.push(item), Err(item));
                }
                assert_eq!(
                    (ring.len(), ring.is_empty()),
                    (model.len(), model.is_empty())
                );
                assert_eq!(ring.front_mut().copied(), model.front().copied());
                assert!(ring.iter().eq(&model));
            }
        }
    }
}

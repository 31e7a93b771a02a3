// SPDX-License-Identifier: GPL-2.0

//! A store of bounded length over slots that were allocated beforehand, which can get more of them.

use core::ops::DerefMut;

/// A last-in-first-out store over `slots`, such as a vector of `Option<T>`.
///
/// # Invariants
///
/// The first `len` slots hold an item each; the others hold none.
pub struct Stack<S> {
    slots: S,
    len: usize,
}

impl<T, S: DerefMut<Target = [Option<T>]>> Stack<S> {
    /// Makes an empty store of as many items as there are slots; an item that is in one is dropped.
    pub fn new(mut slots: S) -> Self {
        slots.fill_with(|| None);
        // INVARIANT: No slot holds an item.
        Self { slots, len: 0 }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no item.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns how many items there is room for, those included that it has.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Adds `item`.
    ///
    /// # Errors
    ///
    /// The item, if all slots are taken.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        match self.slots.get_mut(self.len) {
            Some(slot) => *slot = Some(item),
            None => return Err(item),
        }
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Takes the item that was added last.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        let item = self.slots.get_mut(last)?.take()?;
        self.len = last;
        Some(item)
    }

    /// Moves all items to `slots` if these are more than it has, and returns the slots that are not
    /// needed. Whoever has allocated `slots` need not know what others have done meanwhile: no item is
    /// ever lost, and room never shrinks.
    pub fn widen(&mut self, mut slots: S) -> S {
        if slots.len() <= self.slots.len() {
            return slots;
        }
        for (to, from) in slots.iter_mut().zip(self.slots.iter_mut()) {
            *to = from.take();
        }
        // INVARIANT: The items are in the slots that they were in, and the others hold none.
        core::mem::swap(&mut self.slots, &mut slots);
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(count: usize) -> Vec<Option<u32>> {
        (0..count).map(|_| None).collect()
    }

    #[test]
    fn what_goes_in_comes_out_again() {
        let mut stack = Stack::new(slots(2));
        assert_eq!(
            [stack.push(1), stack.push(2), stack.push(3)],
            [Ok(()), Ok(()), Err(3)]
        );
        assert_eq!((stack.len(), stack.capacity()), (2, 2));
        assert_eq!(
            [stack.pop(), stack.pop(), stack.pop()],
            [Some(2), Some(1), None]
        );
        assert!(stack.is_empty());
    }

    #[test]
    fn a_store_without_slots_takes_nothing() {
        let mut stack = Stack::new(slots(0));
        assert_eq!(
            (stack.push(1), stack.pop(), stack.capacity()),
            (Err(1), None, 0)
        );
    }

    /// Two refills allocate slots at the same time; the one with fewer of them is the later one, and
    /// items have come to the room of the other.
    #[test]
    fn the_later_of_two_that_widen_loses_no_item() {
        let mut stack = Stack::new(slots(2));
        assert_eq!((stack.push(0), stack.push(1)), (Ok(()), Ok(())));
        let (fewer, more) = (slots(4), slots(8));
        assert_eq!(stack.widen(more).len(), 2);
        for item in 2..8 {
            assert_eq!(stack.push(item), Ok(()));
        }
        assert_eq!(stack.widen(fewer).len(), 4);
        assert_eq!((stack.len(), stack.capacity()), (8, 8));
        for item in (0..8).rev() {
            assert_eq!(stack.pop(), Some(item));
        }
    }
}

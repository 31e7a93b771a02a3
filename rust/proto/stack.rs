// SPDX-License-Identifier: GPL-2.0

//! A stack over preallocated slots: pushing never allocates. The caller can replace the slots by
//! more.

use core::ops::DerefMut;

/// A last-in-first-out stack over `slots`, such as a vector of `Option<T>`.
///
/// # Invariants
///
/// Each of the first `len` slots holds an item; the other slots are empty.
pub struct Stack<S> {
    slots: S,
    len: usize,
}

impl<T, S: DerefMut<Target = [Option<T>]>> Stack<S> {
    /// Returns an empty stack with room for as many items as there are slots. Drops items in the
    /// slots.
    pub fn new(mut slots: S) -> Self {
        slots.fill_with(|| None);
        // INVARIANT: All slots are empty.
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

    /// Returns the number of slots.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Pushes `item`.
    ///
    /// # Errors
    ///
    /// Returns the item if no slot is empty.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        match self.slots.get_mut(self.len) {
            Some(slot) => *slot = Some(item),
            None => return Err(item),
        }
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Removes and returns the item that was pushed last.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        let item = self.slots.get_mut(last)?.take()?;
        self.len = last;
        Some(item)
    }

    /// Moves all items to `slots` if these are more than the present slots. Returns the slots that
    /// are not used. Two callers that have allocated slots at the same time may call this in any
    /// order: no item is lost, and the number of slots never shrinks.
    pub fn widen(&mut self, mut slots: S) -> S {
        if slots.len() <= self.slots.len() {
            return slots;
        }
        for (to, from) in slots.iter_mut().zip(self.slots.iter_mut()) {
            *to = from.take();
        }
        // INVARIANT: The items have kept their indices, and the other slots are empty.
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
    fn items_are_returned_in_reverse_order() {
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
    fn a_stack_without_slots_refuses_items() {
        let mut stack = Stack::new(slots(0));
        assert_eq!(
            (stack.push(1), stack.pop(), stack.capacity()),
            (Err(1), None, 0)
        );
    }

    /// Two callers have allocated slots at the same time. The one with fewer slots is the second
    /// one, and items were pushed in between.
    #[test]
    fn the_second_of_two_widenings_loses_no_item() {
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

// SPDX-License-Identifier: GPL-2.0

//! Accounting of the entries of a send queue, and the choice of the Sends that are signalled.
//!
//! Work requests complete in the order in which they were posted, and a completion stands for all
//! work requests that were posted before. So the entries form a ring of slots.

/// The entries of a send queue: a ring of slots.
///
/// # Invariants
///
/// - `outstanding` is at most `depth`.
/// - `oldest` and `free` are less than `depth`, or 0 if that is 0.
/// - `free` is `outstanding` slots behind `oldest` in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqSlots {
    /// Entries that can be outstanding at a time.
    depth: u32,
    /// Slot of the oldest outstanding entry, or of the next entry if none is outstanding.
    oldest: u32,
    /// Slot of the next entry.
    free: u32,
    /// Entries that were posted and have not completed.
    outstanding: u32,
}

impl SqSlots {
    /// Returns an empty queue with room for `depth` entries.
    pub fn new(depth: u32) -> Self {
        Self {
            depth,
            oldest: 0,
            free: 0,
            outstanding: 0,
        }
    }

    /// Returns the number of entries that can be posted.
    #[inline]
    pub fn room(&self) -> u32 {
        // Does not wrap by the type invariant.
        self.depth.wrapping_sub(self.outstanding)
    }

    /// Returns the slot of the next entry that is posted.
    #[inline]
    pub fn free(&self) -> usize {
        self.free as usize
    }

    /// Returns the number of outstanding entries.
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Returns true if nothing is outstanding.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.outstanding == 0
    }

    /// Returns the slot of the oldest outstanding entry: an index into a table of `depth` elements.
    #[inline]
    pub fn oldest(&self) -> Option<usize> {
        (!self.is_empty()).then_some(self.oldest as usize)
    }

    /// Returns the slot of the entry that was posted last, if an entry is outstanding.
    #[inline]
    pub fn last(&self) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let end = if self.free == 0 {
            self.depth
        } else {
            self.free
        };
        Some(end.wrapping_sub(1) as usize)
    }

    /// Adds `n` entries in successive slots. No two outstanding entries have the same slot. Returns
    /// the slot of the first one, or `None` if the queue has no room for all `n`.
    #[inline]
    pub fn post(&mut self, n: u32) -> Option<usize> {
        if n > self.room() {
            return None;
        }
        let first = self.free;
        // INVARIANT: There is room for `n` entries, so the number is at most `depth`.
        self.free = self.behind(first, n);
        self.outstanding = self.outstanding.wrapping_add(n);
        Some(first as usize)
    }

    /// Returns the number of outstanding entries up to the one in `slot`, inclusive. Returns 0 if
    /// there is no outstanding entry in that slot.
    #[inline]
    pub fn up_to(&self, slot: usize) -> u32 {
        // A slot beyond the ring has no entry.
        let slot = match u32::try_from(slot) {
            Ok(slot) if slot < self.depth => slot,
            _ => return 0,
        };
        let before = match slot.checked_sub(self.oldest) {
            Some(before) => before,
            // Does not wrap, as `slot` is less than `oldest`, which is less than `depth`.
            None => self.depth.wrapping_sub(self.oldest).wrapping_add(slot),
        };
        if before < self.outstanding {
            before.saturating_add(1)
        } else {
            0
        }
    }

    /// Retires the `n` oldest outstanding entries, or all if there are fewer.
    #[inline]
    pub fn retire(&mut self, n: u32) {
        let n = n.min(self.outstanding);
        // INVARIANT: `behind` returns a slot, and `n` entries were outstanding.
        self.oldest = self.behind(self.oldest, n);
        self.outstanding = self.outstanding.wrapping_sub(n);
    }

    /// Returns the slot behind `slot` in the ring.
    #[inline]
    pub fn next(&self, slot: usize) -> usize {
        match slot.wrapping_add(1) {
            next if next < self.depth as usize => next,
            _ => 0,
        }
    }

    /// Returns the slot `n` slots behind `slot` in the ring. `n` is at most `depth`.
    #[inline]
    fn behind(&self, slot: u32, n: u32) -> u32 {
        let left = self.depth.wrapping_sub(slot);
        match n.checked_sub(left) {
            Some(n) => n,
            // Less than `depth`, as `n` is less than `left`.
            None => slot.wrapping_add(n),
        }
    }
}

/// Selects the Sends that are signalled.
///
/// A Send that holds only its send buffer may be unsignalled; a later completion retires it. So an
/// idle connection keeps at most [`Signals::MAX_UNSIGNALLED`] send buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Unsignalled Sends since the last signalled one.
    unsignalled: u32,
}

impl Signals {
    /// The most successive Sends that are unsignalled.
    pub const MAX_UNSIGNALLED: u32 = 15;

    /// Returns the state before the first Send.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true if the next Send is signalled. It is if the caller needs its completion (`must`),
    /// and if [`Self::MAX_UNSIGNALLED`] Sends before it were not.
    #[inline]
    pub fn next(&mut self, must: bool) -> bool {
        let signalled = must || self.unsignalled >= Self::MAX_UNSIGNALLED;
        self.unsignalled = if signalled {
            0
        } else {
            // At most `MAX_UNSIGNALLED`.
            self.unsignalled.wrapping_add(1)
        };
        signalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Runs random posts and completions.
    fn run(depth: u32, mut seed: u32) {
        let mut queue = SqSlots::new(depth);
        // The slots of the outstanding entries.
        let mut model = VecDeque::new();
        for _ in 0..2000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let n = (seed >> 16) % (depth + 2);
            if seed & 0x8000 == 0 {
                let first = queue.post(n);
                assert_eq!(first.is_some(), n as usize + model.len() <= depth as usize);
                let mut slot = first.unwrap_or(0);
                for _ in 0..first.map_or(0, |_| n) {
                    assert!(slot < depth as usize && !model.contains(&slot));
                    model.push_back(slot);
                    slot = queue.next(slot);
                }
            } else {
                queue.retire(n);
                model.drain(..model.len().min(n as usize));
            }
            assert_eq!(queue.outstanding() as usize, model.len());
            assert_eq!(queue.room() as usize, depth as usize - model.len());
            assert_eq!(queue.is_empty(), model.is_empty());
            assert_eq!(queue.oldest(), model.front().copied());
            assert_eq!(queue.last(), model.back().copied());
            if let Some(last) = queue.last() {
                assert_eq!(queue.free(), queue.next(last));
            }
            for slot in 0..depth as usize + 1 {
                let at = model.iter().position(|other| *other == slot);
                assert_eq!(queue.up_to(slot) as usize, at.map_or(0, |at| at + 1));
            }
        }
    }

    #[test]
    fn agrees_with_a_plain_queue() {
        for depth in 1..20 {
            run(depth, depth ^ 7);
        }
    }

    #[test]
    fn a_deep_queue_wraps() {
        let mut queue = SqSlots {
            oldest: u32::MAX - 2,
            free: u32::MAX - 2,
            ..SqSlots::new(u32::MAX)
        };
        assert_eq!(queue.post(4), Some(u32::MAX as usize - 2));
        assert_eq!((queue.up_to(0), queue.up_to(1), queue.up_to(2)), (3, 4, 0));
        queue.retire(2);
        assert_eq!(queue.oldest(), Some(0));
        queue.retire(1);
        assert_eq!(queue.oldest(), Some(1));
        assert_eq!(queue.post(u32::MAX - 1), Some(2));
        assert_eq!((queue.room(), queue.post(1)), (0, None));
    }

    #[test]
    fn a_queue_of_depth_zero_has_no_room() {
        let mut queue = SqSlots::new(0);
        queue.retire(1);
        assert_eq!(
            (queue.room(), queue.post(1), queue.oldest()),
            (0, None, None)
        );
        assert_eq!((queue.up_to(0), queue.next(5)), (0, 0));
    }

    #[test]
    fn every_sixteenth_small_send_is_signalled() {
        let mut signals = Signals::new();
        let mut signalled = |holds: [bool; 40]| {
            let signalled = holds.map(|holds| signals.next(holds)).into_iter();
            let places = signalled.zip(1..).filter(|(signalled, _)| *signalled);
            places.map(|(_, place)| place).collect::<Vec<u32>>()
        };
        assert_eq!(signalled([false; 40]), [16, 32]);
        // Eight were not signalled since the last one.
        let mut holds = [false; 40];
        holds[2] = true;
        assert_eq!(signalled(holds), [3, 19, 35]);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Accounting of the entries of a send queue, and the choice of the Sends that are signalled.
//!
//! Work requests complete in the order in which they were posted, and a completion stands for all
//! work requests that were posted before. So the entries form a ring. Wrapping sequence numbers
//! name them.

/// The entries of a send queue: a ring of slots.
///
/// # Invariants
///
/// `outstanding` is at most `depth`; `slot` is less than `depth`, or 0 if that is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqSlots {
    /// Entries that can be outstanding at a time.
    depth: u32,
    /// Sequence number of the oldest outstanding entry, or of the next entry if none is
    /// outstanding.
    oldest: u32,
    /// Slot of the entry `oldest`. It is stored because sequence numbers wrap at a power of two and
    /// slots wrap at `depth`.
    slot: u32,
    /// Entries that were posted and have not completed.
    outstanding: u32,
}

impl SqSlots {
    /// Returns an empty queue with room for `depth` entries.
    pub fn new(depth: u32) -> Self {
        Self {
            depth,
            oldest: 0,
            slot: 0,
            outstanding: 0,
        }
    }

    /// Returns the number of entries that can be posted.
    pub fn room(&self) -> u32 {
        self.depth.saturating_sub(self.outstanding)
    }

    /// Returns the number of outstanding entries.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Returns true if nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.outstanding == 0
    }

    /// Returns the sequence number of the oldest outstanding entry.
    pub fn oldest(&self) -> Option<u32> {
        (!self.is_empty()).then_some(self.oldest)
    }

    /// Adds `n` entries with consecutive sequence numbers, which wrap around. Returns the first
    /// sequence number, or `None` if the queue has no room for all `n`.
    pub fn post(&mut self, n: u32) -> Option<u32> {
        if n > self.room() {
            return None;
        }
        let first = self.oldest.wrapping_add(self.outstanding);
        self.outstanding = self.outstanding.saturating_add(n);
        Some(first)
    }

    /// Retires all entries up to the completed entry `seq`. Returns their number, which is 0 if
    /// `seq` is not outstanding.
    pub fn retire(&mut self, seq: u32) -> u32 {
        let before = seq.wrapping_sub(self.oldest);
        if before >= self.outstanding {
            return 0;
        }
        let retired = before.saturating_add(1);
        // INVARIANT: `retired` is at most `outstanding`, and `wrap` returns a slot.
        self.slot = self.wrap(retired);
        self.oldest = self.oldest.wrapping_add(retired);
        self.outstanding = self.outstanding.saturating_sub(retired);
        retired
    }

    /// Returns the slot of the outstanding entry `seq`: an index into a table of `depth` elements.
    /// No two outstanding entries have the same slot.
    pub fn slot(&self, seq: u32) -> usize {
        self.wrap(seq.wrapping_sub(self.oldest)) as usize
    }

    /// Returns the slot of the entry `n` entries behind the oldest.
    fn wrap(&self, n: u32) -> u32 {
        u64::from(self.slot)
            .saturating_add(u64::from(n))
            .checked_rem(u64::from(self.depth))
            // A remainder of a 32-bit divisor has 32 bits.
            .map_or(0, |slot| slot as u32)
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
    pub const MAX_UNSIGNALLED: u32 = 3;

    /// Returns the state before the first Send.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true if the next Send is signalled. A Send that holds more than its send buffer
    /// always is.
    pub fn next(&mut self, holds_resources: bool) -> bool {
        let signalled = holds_resources || self.unsignalled >= Self::MAX_UNSIGNALLED;
        self.unsignalled = if signalled {
            0
        } else {
            self.unsignalled.saturating_add(1)
        };
        signalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Runs random posts and completions across the wrap of the sequence numbers.
    fn run(depth: u32, start: u32, mut seed: u32) {
        let mut queue = SqSlots {
            oldest: start,
            ..SqSlots::new(depth)
        };
        // Sequence number and slot of each outstanding entry.
        let mut model = VecDeque::new();
        for _ in 0..2000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let n = (seed >> 16) % (depth + 2);
            if seed & 0x8000 == 0 {
                let first = queue.post(n);
                assert_eq!(first.is_some(), n as usize + model.len() <= depth as usize);
                let seqs = first.map(|first| (0..n).map(move |nth| first.wrapping_add(nth)));
                for seq in seqs.into_iter().flatten() {
                    let slot = queue.slot(seq);
                    assert!(slot < depth as usize);
                    assert!(model.iter().all(|(_, other)| *other != slot));
                    model.push_back((seq, slot));
                }
            } else {
                let next = queue.oldest.wrapping_add(n);
                let outstanding = model.iter().position(|(seq, _)| *seq == next);
                let retired = outstanding.map_or(0, |at| at + 1);
                assert_eq!(queue.retire(next) as usize, retired);
                model.drain(..retired);
            }
            assert_eq!(queue.room() as usize, depth as usize - model.len());
            assert_eq!(queue.is_empty(), model.is_empty());
            assert_eq!(queue.oldest(), model.front().map(|(seq, _)| *seq));
            assert!(model.iter().all(|(seq, slot)| queue.slot(*seq) == *slot));
        }
    }

    #[test]
    fn agrees_with_a_plain_queue() {
        for depth in 1..20 {
            for start in [0, u32::MAX - 7, u32::MAX / 2] {
                run(depth, start, depth ^ start);
            }
        }
    }

    #[test]
    fn the_oldest_outstanding_entry_is_known() {
        let mut queue = SqSlots {
            oldest: u32::MAX,
            ..SqSlots::new(4)
        };
        assert_eq!(queue.oldest(), None);
        assert_eq!(
            (queue.post(3), queue.oldest()),
            (Some(u32::MAX), Some(u32::MAX))
        );
        assert_eq!((queue.retire(u32::MAX), queue.oldest()), (1, Some(0)));
        // Neither newer entries nor the completion of an entry that is not outstanding change it.
        assert_eq!((queue.post(1), queue.oldest()), (Some(2), Some(0)));
        assert_eq!((queue.retire(3), queue.oldest()), (0, Some(0)));
        assert_eq!((queue.retire(2), queue.oldest()), (3, None));
    }

    #[test]
    fn a_queue_of_depth_zero_has_no_room() {
        let mut queue = SqSlots::new(0);
        assert_eq!((queue.room(), queue.post(1), queue.retire(0)), (0, None, 0));
        assert_eq!((queue.slot(5), queue.is_empty()), (0, true));
    }

    #[test]
    fn every_fourth_small_send_is_signalled() {
        let mut signals = Signals::new();
        let first: Vec<bool> = (0..8).map(|_| signals.next(false)).collect();
        let no = false;
        assert_eq!(first, [no, no, no, true, no, no, no, true]);
        assert_eq!(
            [no, no, true, no].map(|holds| signals.next(holds)),
            [no, no, true, no]
        );
        assert_eq!(
            [no, no, no].map(|holds| signals.next(holds)),
            [no, no, true]
        );
    }
}

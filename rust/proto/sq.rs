// SPDX-License-Identifier: GPL-2.0

//! Send-queue accounting.
//!
//! Work requests complete in the order of posting and a completion stands for all that were posted
//! before it, so the queue is a ring of entries named by wrapping sequence numbers.

/// The entries of a send queue.
///
/// # Invariants
///
/// `outstanding` is at most `depth`; `slot` is less than `depth`, or 0 if that is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqSlots {
    depth: u32,
    /// Sequence number of the oldest outstanding entry, or of the next one if there is none.
    oldest: u32,
    /// Slot of that entry. Sequence numbers wrap at a power of two, slots at `depth`.
    slot: u32,
    outstanding: u32,
}

impl SqSlots {
    /// Makes an empty queue of `depth` entries.
    pub fn new(depth: u32) -> Self {
        Self {
            depth,
            oldest: 0,
            slot: 0,
            outstanding: 0,
        }
    }

    /// Returns how many entries can be posted.
    pub fn room(&self) -> u32 {
        self.depth.saturating_sub(self.outstanding)
    }

    /// Returns how many entries are outstanding.
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

    /// Takes `n` entries and returns the sequence number of the first, the others follow it
    /// (wrapping); `None` if there is no room for all of them.
    pub fn post(&mut self, n: u32) -> Option<u32> {
        if n > self.room() {
            return None;
        }
        let first = self.oldest.wrapping_add(self.outstanding);
        self.outstanding = self.outstanding.saturating_add(n);
        Some(first)
    }

    /// Entry `seq` has completed: gives back all up to and including it and returns their number,
    /// 0 if `seq` is not outstanding.
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

    /// Returns the index of outstanding entry `seq` in a table of `depth` entries; outstanding
    /// entries never share one.
    pub fn slot(&self, seq: u32) -> usize {
        self.wrap(seq.wrapping_sub(self.oldest)) as usize
    }

    /// Returns the slot `n` entries behind the oldest.
    fn wrap(&self, n: u32) -> u32 {
        u64::from(self.slot)
            .saturating_add(u64::from(n))
            .checked_rem(u64::from(self.depth))
            // A remainder of a 32-bit number has 32 bits.
            .map_or(0, |slot| slot as u32)
    }
}

/// Decides which Sends ask for a completion.
///
/// A Send that holds nothing but its own small buffer may wait for a later one's completion; an
/// idle connection then parks at most [`Signals::MAX_UNSIGNALLED`] of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    unsignalled: u32,
}

impl Signals {
    /// Most Sends in a row without a completion.
    pub const MAX_UNSIGNALLED: u32 = 3;

    /// Starts with none unsignalled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the next Send is signalled; one that `holds_resources` always is.
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
        // Outstanding entries: sequence number and slot.
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
    fn the_oldest_entry_is_named_while_there_is_one() {
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
        // More behind it change nothing, nor does an entry that is not outstanding.
        assert_eq!((queue.post(1), queue.oldest()), (Some(2), Some(0)));
        assert_eq!((queue.retire(3), queue.oldest()), (0, Some(0)));
        assert_eq!((queue.retire(2), queue.oldest()), (3, None));
    }

    #[test]
    fn a_queue_without_depth_takes_nothing() {
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

// SPDX-License-Identifier: GPL-2.0

//! Shortages: when Calls wait too long for pages, and which connections keep these from them.
//!
//! The server looks at its queues at fixed intervals while anything waits. [`Queue`] finds that Calls
//! have waited for two intervals, [`Holder`] that a connection has done too little for as long, and
//! [`Largest`] which of these connections is to be closed. While Calls still leave the queue, as under
//! load that is only heavy, a connection has more time.

/// Intervals that Calls wait, and that a connection does nothing, before that matters.
pub const INTERVALS: u32 = 2;

/// Intervals for which a connection may do too little while Calls leave the queue.
const PATIENCE: u32 = 6;

/// The Calls that wait in a queue, as pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Pages of all Calls that have left the queue; wraps around.
    left: u32,
    /// The value of `left` when the last Call that waited at the mark leaves.
    mark: u32,
    /// Looks since the mark, itself included; 0 if there is no mark.
    looks: u32,
    /// The value of `left` at the last look, and the number of looks since it changed.
    seen: u32,
    still: u32,
}

impl Queue {
    /// A Call of `pages` pages leaves the queue, as the first one.
    pub fn leave(&mut self, pages: u32) {
        self.left = self.left.wrapping_add(pages);
    }

    /// Looks at the queue, in which Calls of `waiting` pages wait; returns the pages of those that
    /// have waited for [`INTERVALS`].
    pub fn look(&mut self, waiting: u32) -> u32 {
        self.still = match self.seen == self.left {
            true => self.still.saturating_add(1),
            false => 0,
        };
        self.seen = self.left;
        let late = self.mark.wrapping_sub(self.left);
        if waiting == 0 {
            self.looks = 0;
        } else if self.looks == 0 || late == 0 || late > waiting {
            // All that waited at the mark have left: what waits now is the next to be watched.
            self.mark = self.left.wrapping_add(waiting);
            self.looks = 1;
        } else {
            self.looks = self.looks.saturating_add(1);
        }
        match self.looks > INTERVALS {
            true => late,
            false => 0,
        }
    }

    /// Returns for how many successive looks a connection may be unserved, by the last look: for none if no
    /// Call has left the queue for [`INTERVALS`].
    pub fn patience(&self) -> u32 {
        match self.still >= INTERVALS {
            true => 0,
            false => PATIENCE,
        }
    }

    /// Something was done about those that are late: gives it as long to work.
    pub fn restart(&mut self) {
        self.looks = 0;
    }
}

/// The pages that a connection holds and has filled, at the last looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The number of the last look.
    at: u32,
    /// Successive looks at which it has had pages under RDMA Read.
    looks: u32,
    /// The pages that it had at the last look and at the one before, and that its completed Reads had
    /// filled by then; the latter wrap around.
    held: [u32; 2],
    filled: [u32; 2],
    /// Successive looks at which it was unserved.
    unserved: u32,
}

impl Holder {
    /// Looks at a connection that has `held` pages under RDMA Read, and whose completed Reads have
    /// filled `filled` pages since it was made; `at` numbers looks, and there are `per_second` of
    /// them. It is unserved if the peer has made it fill so few during [`INTERVALS`] that it would keep
    /// the pages that it had for more than `seconds`. Returns for how many successive looks it was.
    pub fn look(&mut self, at: u32, held: u32, filled: u32, per_second: u32, seconds: u32) -> u32 {
        let follows = self.looks > 0 && at == self.at.wrapping_add(1);
        self.looks = match (held, follows) {
            (0, _) => 0,
            (_, true) => self.looks.saturating_add(1),
            (_, false) => 1,
        };
        let done = u64::from(filled.wrapping_sub(self.filled[1]));
        let had = u64::from(self.held[1]);
        self.at = at;
        self.held = [held, self.held[0]];
        self.filled = [filled, self.filled[0]];
        let in_time = done
            .saturating_mul(u64::from(per_second))
            .saturating_mul(u64::from(seconds));
        let is_unserved = in_time < had.saturating_mul(u64::from(INTERVALS));
        self.unserved = match self.looks > INTERVALS && is_unserved {
            true => self.unserved.saturating_add(1),
            false => 0,
        };
        self.unserved
    }
}

/// The largest of those that are added.
pub struct Largest<T>(Option<(u32, T)>);

impl<T> Default for Largest<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Largest<T> {
    /// Adds the one that `one` returns and that has `pages` pages, if no other has as many.
    pub fn add(&mut self, pages: u32, one: impl FnOnce() -> T) {
        let most = self.0.as_ref().map_or(0, |largest| largest.0);
        if pages > most {
            self.0 = Some((pages, one()));
        }
    }

    /// Returns it with its pages.
    pub fn take(self) -> Option<(u32, T)> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_late_after_two_intervals() {
        let mut queue = Queue::default();
        assert_eq!([(); 5].map(|()| queue.look(300)), [0, 0, 300, 300, 300]);
        // One has left, another has come: the rest of the first is late, and not the other.
        queue.leave(100);
        assert_eq!(queue.look(350), 200);
        queue.leave(200);
        assert_eq!(
            [queue.look(150), queue.look(150), queue.look(150)],
            [0, 0, 150]
        );
        queue.leave(150);
        assert_eq!(queue.look(0), 0);
        assert_eq!([(); 3].map(|()| queue.look(1)), [0, 0, 1]);
    }

    #[test]
    fn calls_that_leave_in_time_are_never_late() {
        let mut queue = Queue::default();
        // Always some wait, none for longer than one interval.
        for turn in 0..1000u32 {
            let waiting = 100 + turn % 7;
            assert_eq!(queue.look(waiting), 0, "{turn}");
            queue.leave(waiting);
        }
    }

    #[test]
    fn connections_have_more_time_while_calls_leave() {
        let mut queue = Queue::default();
        let mut patience = |leaves| {
            queue.leave(leaves);
            queue.look(300);
            queue.patience()
        };
        assert_eq!(
            [0, 0, 0, 1, 0, 0, 0].map(&mut patience),
            [PATIENCE, 0, 0, PATIENCE, PATIENCE, 0, 0]
        );
    }

    #[test]
    fn what_is_done_about_them_has_as_long() {
        let mut queue = Queue {
            left: u32::MAX - 5,
            ..Queue::default()
        };
        assert_eq!([(); 3].map(|()| queue.look(10)), [0, 0, 10]);
        queue.restart();
        queue.leave(7);
        assert_eq!([(); 3].map(|()| queue.look(3)), [0, 0, 3]);
    }

    /// Returns the results of looks at a connection with `held` pages that fills `filled` between them.
    fn looks<const N: usize>(held: u32, filled: u32) -> [bool; N] {
        let mut holder = Holder::default();
        let mut at = u32::MAX - 1;
        let mut sum = 0u32;
        [(); N].map(|()| {
            at = at.wrapping_add(1);
            sum += filled;
            holder.look(at, held, sum, 2, 15) > 0
        })
    }

    #[test]
    fn a_holder_that_fills_nothing_is_found_after_two_intervals() {
        assert_eq!(looks(1, 0), [false, false, true, true]);
        assert_eq!(looks(0, 0), [false; 4]);
    }

    #[test]
    fn a_holder_that_fills_enough_is_never_found() {
        // 300 pages in 15 seconds are 10 in each interval.
        assert_eq!(looks(300, 10), [false; 8]);
        assert_eq!(looks(300, 9), [false, false, true, true]);
        assert_eq!(looks(16384, 257), [false, false, true, true]);
        assert_eq!(looks(2112, 257), [false; 8]);
    }

    #[test]
    fn one_completed_read_spares_a_holder_for_two_intervals() {
        let mut holder = Holder::default();
        let filled = [0, 0, 257, 257, 257, 257];
        let mut at = 0;
        let found = filled.map(|filled| {
            at += 1;
            holder.look(at, 1028, filled, 2, 15) > 0
        });
        assert_eq!(found, [false, false, false, false, true, true]);
    }

    #[test]
    fn only_successive_looks_count() {
        let mut holder = Holder::default();
        for at in [1, 3, 5, 7, 8, 10, 11] {
            assert_eq!(holder.look(at, 9, 0, 2, 15), 0, "{at}");
        }
        assert_eq!(holder.look(12, 9, 0, 2, 15), 1);
        // It had none in between.
        assert_eq!(holder.look(13, 0, 0, 2, 15), 0);
        assert_eq!(
            [14, 15, 16, 17].map(|at| holder.look(at, 9, 0, 2, 15)),
            [0, 0, 1, 2]
        );
    }

    #[test]
    fn the_largest_is_the_first_that_has_the_most() {
        let mut largest = Largest::default();
        for (i, pages) in [0, 5, 9, 1, 9, 2].into_iter().enumerate() {
            largest.add(pages, || i);
        }
        assert_eq!(largest.take(), Some((9, 2)));
        let mut none = Largest::default();
        none.add(0, || ());
        assert_eq!(none.take(), None);
    }
}

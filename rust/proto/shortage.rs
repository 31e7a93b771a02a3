// SPDX-License-Identifier: GPL-2.0

//! Page shortages: the Calls that wait too long for pages, and the connections that keep pages from
//! them.
//!
//! The watchdog looks at the waiting connections at fixed intervals while any waits. [`Wait`] and
//! [`Queue`] find the Calls that have waited for [`INTERVALS`]. [`Holder`] finds the connections that
//! have filled too few of their pages for a part of the time that a peer has in a shortage. Under mere
//! load, or on a slow link, each connection fills pages from time to time. [`Largest`] selects the
//! connection to close, and [`unserved`] the pages that count.

use crate::shares::PeerClass;

/// Intervals after which a waiting Call is late and a connection that fills too few pages is
/// unserved.
pub const INTERVALS: u32 = 2;

/// A connection may be unserved for the time that a peer has in a shortage, divided by this.
const PART: u32 = 5;

/// The wait of a connection's first Call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Number of the last look.
    at: u32,
    /// The Calls that had got pages by then; wraps around.
    turn: u32,
    /// Successive looks at which the same Call waited.
    looks: u32,
}

impl Wait {
    /// Looks at a connection. `at` is the number of the look. If a Call waits, `turn` is the number of
    /// the connection's Calls that got pages after they had waited. Returns the number of successive
    /// looks at which the same Call waited.
    pub fn look(&mut self, at: u32, turn: Option<u32>) -> u32 {
        let Some(turn) = turn else {
            self.looks = 0;
            return 0;
        };
        let follows = at == self.at.wrapping_add(1) && turn == self.turn;
        let looks = if follows {
            self.looks.saturating_add(1)
        } else {
            1
        };
        *self = Self { at, turn, looks };
        looks
    }
}

/// The looks at the connections that wait for pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Looks since pages were reclaimed for late Calls.
    looks: u32,
}

impl Queue {
    /// Looks at the queue.
    pub fn look(&mut self) {
        self.looks = self.looks.saturating_add(1);
    }

    /// Returns true if a Call that waited at `looks` successive looks is late.
    pub fn is_late(&self, looks: u32) -> bool {
        looks.min(self.looks) > INTERVALS
    }

    /// Restarts the wait of the late Calls after pages were reclaimed for them.
    pub fn restart(&mut self) {
        self.looks = 0;
    }
}

/// The pages that a connection has held and filled at the last looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Number of the last look.
    at: u32,
    /// Successive looks at which the connection had pages under RDMA Read.
    looks: u32,
    /// Pages that the connection had at the last look and at the one before.
    held: [u32; 2],
    /// Pages that its completed Reads had filled by these looks; wraps around.
    filled: [u32; 2],
    /// Successive looks at which the connection was unserved.
    unserved: u32,
}

impl Holder {
    /// Looks at a connection that has `held` pages under RDMA Read and whose completed Reads have
    /// filled `filled` pages in total. `at` is the number of the look; the watchdog looks
    /// `per_second` times per second.
    ///
    /// The connection is unserved if its peer has filled pages so slowly during [`INTERVALS`] that
    /// it would need more than `seconds` to fill the pages that the connection had. Returns true if
    /// the connection was unserved for longer than a fifth of `seconds`.
    pub fn look(&mut self, at: u32, held: u32, filled: u32, per_second: u32, seconds: u32) -> bool {
        let follows = at == self.at.wrapping_add(1);
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
        self.unserved = if self.looks > INTERVALS && is_unserved {
            self.unserved.saturating_add(1)
        } else {
            0
        };
        self.unserved > seconds.saturating_mul(per_second) / PART
    }
}

/// The origin of the pages that waiting Calls need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The Calls of the same line hold the pages, and the budget of the line is used up.
    Own,
    /// Calls of any line hold the pages, and no new pages can be made.
    Any,
    /// The refill can make the pages.
    New,
}

/// Returns the number of pages that a connection keeps from the late Calls in the line of `late`.
/// The peer of the connection has the class `holder`. `pages` has the connection's pages under
/// RDMA Read for each line, in the order of [`PeerClass::ALL`].
pub fn unserved(late: PeerClass, awaited: Awaited, holder: PeerClass, pages: [u32; 2]) -> u32 {
    if !late.may_close(holder) {
        return 0;
    }
    let lines = pages.into_iter().zip(PeerClass::ALL);
    let counted = lines.filter(|(_, line)| match awaited {
        Awaited::Own => *line == late,
        Awaited::Any => true,
        Awaited::New => false,
    });
    counted.fold(0, |all, (pages, _)| all.saturating_add(pages))
}

/// Returns true if a connection whose peer has the class `holder` keeps pages from a waiting Call
/// while no new pages can be made. `waiting` returns true if Calls wait in a line.
pub fn keeps_last(holder: PeerClass, mut waiting: impl FnMut(PeerClass) -> bool) -> bool {
    let mut lines = PeerClass::ALL.into_iter();
    lines.any(|line| line.may_close(holder) && waiting(line))
}

/// The candidate with the most pages.
pub struct Largest<T>(Option<(u32, T)>);

impl<T> Default for Largest<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Largest<T> {
    /// Adds a candidate with `pages` pages, which `candidate` returns. It is kept if it has more
    /// pages than all before it.
    pub fn add(&mut self, pages: u32, candidate: impl FnOnce() -> T) {
        let most = self.0.as_ref().map_or(0, |largest| largest.0);
        if pages > most {
            self.0 = Some((pages, candidate()));
        }
    }

    /// Returns the largest candidate and its pages, or `None` if no candidate had any.
    pub fn take(self) -> Option<(u32, T)> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_late_after_two_intervals() {
        let (mut queue, mut wait) = (Queue::default(), Wait::default());
        let mut at = u32::MAX - 1;
        let found = [
            Some(7),
            Some(7),
            Some(7),
            Some(7),
            Some(8),
            Some(8),
            Some(8),
            None,
            Some(8),
        ]
        .map(|turn| {
            at = at.wrapping_add(1);
            queue.look();
            let looks = wait.look(at, turn);
            queue.is_late(looks)
        });
        let late = [false, false, true, true, false, false, true, false, false];
        assert_eq!(found, late);
    }

    #[test]
    fn only_successive_looks_at_a_call_count() {
        let mut wait = Wait::default();
        let found = [1, 2, 3, 5, 6, 8].map(|at| wait.look(at, Some(0)));
        assert_eq!(found, [1, 2, 3, 1, 2, 1]);
    }

    #[test]
    fn a_restart_gives_late_calls_another_two_intervals() {
        let mut queue = Queue::default();
        let mut late = |restarts| {
            if restarts {
                queue.restart();
            }
            queue.look();
            queue.is_late(9)
        };
        let found = [false, false, false, false, true, false, false].map(&mut late);
        assert_eq!(found, [false, false, true, true, false, false, true]);
    }

    /// Looks at a connection with `held` pages that fills `filled` pages between two looks. Returns
    /// the looks at which it is unserved.
    fn looks<const N: usize>(held: u32, filled: u32) -> [bool; N] {
        let mut holder = Holder::default();
        let mut at = u32::MAX - 1;
        let mut sum = 0u32;
        [(); N].map(|()| {
            at = at.wrapping_add(1);
            sum += filled;
            holder.look(at, held, sum, 2, 15);
            holder.unserved > 0
        })
    }

    #[test]
    fn a_holder_that_fills_no_page_is_unserved_after_two_intervals() {
        assert_eq!(looks(1, 0), [false, false, true, true]);
        assert_eq!(looks(0, 0), [false; 4]);
    }

    #[test]
    fn a_holder_that_fills_enough_is_never_unserved() {
        // 300 pages in 15 seconds are 10 pages in each interval.
        assert_eq!(looks(300, 10), [false; 8]);
        assert_eq!(looks(300, 9), [false, false, true, true]);
        assert_eq!(looks(16384, 257), [false, false, true, true]);
        assert_eq!(looks(2112, 257), [false; 8]);
    }

    /// Returns the first look at which a connection with 1028 pages is to be closed, if its peer fills a
    /// Call of 257 pages at every `every`th look of 100. A look is half a second.
    fn closed_at(every: u32, seconds: u32) -> Option<u32> {
        let mut holder = Holder::default();
        (1..=100).find(|at| holder.look(*at, 1028, at / every * 257, 2, seconds))
    }

    #[test]
    fn a_holder_has_a_fifth_of_the_time() {
        // The third look is the first at which it is unserved: then 3 s, and 0.5 s, and 120 s.
        assert_eq!(closed_at(101, 15), Some(3 + 6));
        assert_eq!(closed_at(101, 4), Some(3 + 1));
        assert_eq!(closed_at(101, 600), None);
    }

    #[test]
    fn a_holder_on_a_slow_link_is_spared() {
        // A Call of 1 MiB in 4 s.
        assert_eq!(closed_at(8, 15), None);
        assert_eq!(closed_at(9, 15), Some(9 + 8));
    }

    #[test]
    fn only_successive_looks_count() {
        let mut holder = Holder::default();
        let mut unserved = |at, held| {
            holder.look(at, held, 0, 2, 15);
            holder.unserved
        };
        for at in [1, 3, 5, 7, 8, 10, 11] {
            assert_eq!(unserved(at, 9), 0, "{at}");
        }
        assert_eq!(unserved(12, 9), 1);
        // The connection holds no page at this look.
        assert_eq!(unserved(13, 0), 0);
        assert_eq!([14, 15, 16, 17].map(|at| unserved(at, 9)), [0, 0, 1, 2]);
    }

    #[test]
    fn unvalidated_calls_never_have_a_validated_peer_closed() {
        use PeerClass::{
            Unvalidated,
            Validated, //
        };
        for awaited in [Awaited::Own, Awaited::Any, Awaited::New] {
            // The pages of a peer that was validated meanwhile count in the line of unvalidated ones.
            for pages in [[9, 0], [0, 9], [9, 9]] {
                assert_eq!(unserved(Unvalidated, awaited, Validated, pages), 0);
            }
        }
        assert!(!keeps_last(Validated, |line| line == Unvalidated));
        assert!(keeps_last(Validated, |line| line == Validated));
        assert!(PeerClass::ALL.map(|line| keeps_last(Unvalidated, |one| one == line)) == [true; 2]);
        assert!(!keeps_last(Unvalidated, |_| false));
    }

    #[test]
    fn the_pages_that_are_awaited_count() {
        use PeerClass::{
            Unvalidated,
            Validated, //
        };
        let pages = [5, 3];
        let of = |late, awaited| unserved(late, awaited, Unvalidated, pages);
        assert_eq!(
            [Awaited::Own, Awaited::Any, Awaited::New].map(|awaited| of(Unvalidated, awaited)),
            [3, 8, 0]
        );
        // Validated peers have precedence: an unvalidated one that keeps the last pages is closed.
        assert_eq!(
            [Awaited::Own, Awaited::Any, Awaited::New].map(|awaited| of(Validated, awaited)),
            [5, 8, 0]
        );
        assert_eq!(
            unserved(Validated, Awaited::Any, Validated, [u32::MAX, 1]),
            u32::MAX
        );
    }

    #[test]
    fn the_first_of_the_largest_candidates_is_kept() {
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

// SPDX-License-Identifier: GPL-2.0

//! Pace: how far a peer is behind with what the server has posted for it.
//!
//! While a completion is awaited of the peer, time counts against it. Bytes that it has taken or
//! given make up for the time that they may take at the lowest rate that is borne, and each completed
//! piece of work for a second: a distant peer with small Calls need not reach that rate. So a peer
//! that stands still falls behind by a second in each, one that trickles along nearly as fast, and one
//! that keeps the rate never. Time in which nothing is awaited makes up for itself.
//!
//! Times are in milliseconds since some moment.

/// Milliseconds that each completed piece of work makes up for.
const EACH: u64 = 1000;

/// Milliseconds between two looks that count at most.
const LOOK: u64 = 4000;

/// How far a peer is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Milliseconds, at the last look.
    behind: u64,
    /// When that was.
    looked: u64,
    /// Since when a completion is awaited, if one is.
    since: Option<u64>,
    /// Milliseconds before that, but after the last look, in which one was.
    awaited: u64,
    /// Bytes and pieces of work that were completed since the last look.
    bytes: u64,
    pieces: u64,
}

impl Pace {
    /// A completion is awaited from now on, or none any more, if that is another state than before;
    /// the clock is read only then.
    pub fn set_awaited(&mut self, is_awaited: bool, clock: impl FnOnce() -> u64) {
        match (self.since, is_awaited) {
            (None, true) => self.since = Some(clock()),
            (Some(since), false) => {
                let awaited = clock().saturating_sub(since);
                self.awaited = self.awaited.saturating_add(awaited);
                self.since = None;
            }
            _ => {}
        }
    }

    /// Work of `bytes` bytes is done.
    pub fn complete(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_add(u64::from(bytes));
        self.pieces = self.pieces.saturating_add(1);
    }

    /// Looks at the peer; the lowest rate is `rate` bytes a second. A look counts for [`LOOK`] at most, as
    /// whoever comes late was stopped itself.
    pub fn look(&mut self, now: u64, rate: u32) {
        let running = self.since.map_or(0, |since| now.saturating_sub(since));
        let awaited = self.awaited.saturating_add(running);
        let passed = now.saturating_sub(self.looked);
        let made_up = time(self.bytes, rate)
            .saturating_add(self.pieces.saturating_mul(EACH))
            .saturating_add(passed.saturating_sub(awaited));
        *self = Self {
            behind: self
                .behind
                .saturating_add(awaited.min(LOOK))
                .saturating_sub(made_up),
            looked: now,
            since: self.since.map(|_| now),
            ..Self::default()
        };
    }

    /// Returns for how many seconds the peer is behind.
    pub fn seconds(&self) -> u32 {
        u32::try_from(self.behind / 1000).unwrap_or(u32::MAX)
    }

    /// Returns for how many seconds the peer is behind, beyond what `bytes` that are under way may
    /// take.
    pub fn behind(&self, bytes: u32, rate: u32) -> u32 {
        let behind = self.behind.saturating_sub(time(u64::from(bytes), rate));
        u32::try_from(behind / 1000).unwrap_or(u32::MAX)
    }
}

/// Returns how many milliseconds `bytes` may take.
fn time(bytes: u64, rate: u32) -> u64 {
    let bytes = bytes.saturating_mul(1000);
    bytes.checked_div(u64::from(rate)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 65536;

    /// How far a peer is behind at most in an hour, of whom a piece of work of `bytes` bytes is awaited
    /// for `every` milliseconds, and then nothing for `pause`.
    fn hour(bytes: u32, every: u64, pause: u64) -> u32 {
        let mut pace = Pace::default();
        let mut most = 0;
        for now in (0..3_600_000u64).step_by(100) {
            let at = now % (every + pause);
            if at == every % (every + pause) && now > 0 {
                pace.complete(bytes);
            }
            pace.set_awaited(at < every, || now);
            if now % 2000 == 0 {
                pace.look(now, RATE);
                most = most.max(pace.behind(bytes, RATE));
            }
        }
        most
    }

    #[test]
    fn a_peer_that_stands_still_falls_behind_as_time_goes_by() {
        let mut pace = Pace::default();
        pace.look(5000, RATE);
        pace.set_awaited(true, || 5500);
        pace.set_awaited(true, || unreachable!());
        let behind = [7000, 9000, 11500].map(|now| {
            pace.look(now, RATE);
            pace.behind(0, RATE)
        });
        assert_eq!((behind, pace.seconds()), ([1, 3, 5], 5));
        assert_eq!(pace.behind(3 * RATE, RATE), 2);
    }

    #[test]
    fn a_peer_that_serves_each_read_in_time_and_too_slowly_falls_behind() {
        // 4 KiB in 14 seconds.
        assert!(hour(4096, 14_000, 0) > 3000);
        // Also if the next one comes only when the last is done.
        assert!(hour(4096, 14_000, 100) > 3000);
        // Half of the rate, and a second for each.
        assert!(hour(16 * RATE, 32_000, 0) > 1000);
        assert!(hour(16 * RATE, 32_000, 100) > 1000);
    }

    #[test]
    fn a_peer_at_the_rate_is_never_behind() {
        for every in [1, 2, 3, 7, 16, 60] {
            assert_eq!(hour(every * RATE, u64::from(every) * 1000, 0), 0, "{every}");
        }
    }

    #[test]
    fn a_distant_peer_with_small_calls_is_never_behind() {
        assert_eq!(hour(100, 1000, 0), 0);
        assert!(hour(100, 1500, 500) <= 1);
    }

    #[test]
    fn time_in_which_nothing_is_awaited_makes_up_for_itself() {
        let mut pace = Pace::default();
        pace.set_awaited(true, || 0);
        pace.set_awaited(false, || 20_000);
        pace.set_awaited(false, || unreachable!());
        // Of which a late look counts only so much.
        pace.look(20_000, RATE);
        assert_eq!(pace.seconds(), 4);
        pace.set_awaited(true, || 21_000);
        pace.set_awaited(false, || 21_500);
        pace.look(22_000, RATE);
        assert_eq!(pace.seconds(), 3);
        pace.look(99_000, RATE);
        assert_eq!(pace.seconds(), 0);
    }

    #[test]
    fn nothing_is_saved_up() {
        let mut pace = Pace::default();
        pace.set_awaited(true, || 0);
        pace.complete(u32::MAX);
        pace.look(2000, RATE);
        pace.look(6000, RATE);
        assert_eq!(pace.behind(0, RATE), 4);
    }

    #[test]
    fn no_input_is_too_much() {
        let mut pace = Pace::default();
        for now in [u64::MAX, 0, u64::MAX, 1] {
            pace.set_awaited(now > 0, || now);
            pace.look(now, 0);
            pace.complete(u32::MAX);
            assert_eq!(pace.behind(u32::MAX, 0), 0);
        }
        pace.look(u64::MAX, u32::MAX);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Pace: how far a peer is behind with what the server has posted for it.
//!
//! While a completion is awaited of the peer, time counts against it. Bytes that it has taken or
//! given make up for the time that they may take at the lowest rate that is borne, and each completed
//! piece of work for a second: a distant peer with small Calls need not reach that rate. So a peer
//! that stands still falls behind by a second in each, one that trickles along nearly as fast, and one
//! that keeps the rate never.

/// Milliseconds that each completed piece of work makes up for.
const EACH: u64 = 1000;

/// How far a peer is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Milliseconds, at the last look.
    behind: u64,
    /// Bytes and pieces of work that were completed since.
    bytes: u64,
    pieces: u64,
    /// A completion was awaited at the last look, and one or the other all the time since.
    is_busy: bool,
}

impl Pace {
    /// Work of `bytes` bytes is done.
    pub fn complete(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_add(u64::from(bytes));
        self.pieces = self.pieces.saturating_add(1);
    }

    /// No completion is awaited: the peer owes nothing.
    pub fn rest(&mut self) {
        self.is_busy = false;
    }

    /// Looks at the peer, as is done every `seconds`; a completion is awaited now if `is_awaited`. The
    /// lowest rate is `rate` bytes a second.
    pub fn look(&mut self, seconds: u32, is_awaited: bool, rate: u32) {
        let passed = u64::from(seconds).saturating_mul(1000);
        if self.is_busy && is_awaited {
            self.behind = self.behind.saturating_add(passed);
        }
        let mut made_up = time(self.bytes, rate).saturating_add(self.pieces.saturating_mul(EACH));
        if !is_awaited {
            made_up = made_up.saturating_add(passed);
        }
        *self = Self {
            behind: self.behind.saturating_sub(made_up),
            bytes: 0,
            pieces: 0,
            is_busy: is_awaited,
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
    const LOOK: u32 = 2;

    /// How far a peer is behind at most in an hour, of whom something is awaited all the time, and
    /// who completes work of `bytes` bytes every `every` seconds.
    fn hour(bytes: u32, every: u32) -> u32 {
        let mut pace = Pace::default();
        let mut most = 0;
        for second in 1..3600 {
            if second % every == 0 {
                pace.complete(bytes);
            }
            if second % LOOK == 0 {
                pace.look(LOOK, true, RATE);
                most = most.max(pace.behind(bytes, RATE));
            }
        }
        most
    }

    #[test]
    fn a_peer_that_stands_still_falls_behind_as_time_goes_by() {
        let mut pace = Pace::default();
        let behind = [(); 4].map(|()| {
            pace.look(LOOK, true, RATE);
            pace.behind(0, RATE)
        });
        // When it was first looked at, what is awaited may just have been posted.
        assert_eq!(behind, [0, 2, 4, 6]);
        assert_eq!(pace.behind(3 * RATE, RATE), 3);
    }

    #[test]
    fn a_peer_that_serves_each_read_in_time_and_too_slowly_falls_behind() {
        // 4 KiB in 14 seconds, while others are awaited.
        assert!(hour(4096, 14) > 3000);
        // Half of the rate, and a second for each.
        assert!(hour(16 * RATE, 32) > 1000);
    }

    #[test]
    fn a_peer_at_the_rate_is_never_behind() {
        for every in [1, 2, 3, 7, 16, 60] {
            assert!(hour(every * RATE, every) <= LOOK, "{every}");
        }
    }

    #[test]
    fn a_distant_peer_with_small_calls_is_never_behind() {
        assert!(hour(100, 1) <= LOOK);
    }

    #[test]
    fn a_peer_of_whom_nothing_is_awaited_for_a_moment_is_not_charged() {
        let mut pace = Pace::default();
        for _ in 0..1000 {
            pace.look(LOOK, true, RATE);
            pace.complete(1);
            pace.rest();
        }
        assert_eq!(pace.behind(0, RATE), 0);
        // What it is behind stays, unless it has nothing to do for as long.
        for _ in 0..11 {
            pace.look(LOOK, true, RATE);
        }
        assert_eq!(pace.behind(0, RATE), 20);
        pace.rest();
        pace.look(LOOK, true, RATE);
        assert_eq!(pace.behind(0, RATE), 20);
        pace.look(LOOK, false, RATE);
        assert_eq!(pace.behind(0, RATE), 18);
    }

    #[test]
    fn nothing_is_saved_up() {
        let mut pace = Pace::default();
        pace.look(LOOK, true, RATE);
        pace.complete(u32::MAX);
        for _ in 0..5 {
            pace.look(LOOK, true, RATE);
        }
        assert_eq!(pace.behind(0, RATE), 8);
    }

    #[test]
    fn no_input_is_too_much() {
        let mut pace = Pace::default();
        for _ in 0..9 {
            pace.look(u32::MAX, true, 0);
            assert_eq!(pace.behind(u32::MAX, 0), 0);
            pace.complete(u32::MAX);
        }
        pace.look(u32::MAX, false, u32::MAX);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Pace: the time by which a peer is behind with the work that the server has posted for it.
//!
//! A peer falls behind while the server awaits a completion from it. It catches up by
//!
//! - the time that the bytes it has taken or served may take at the minimum rate,
//! - one second for each completed piece of work, so that a distant peer with small Calls need not
//!   reach the minimum rate,
//! - the time during which no completion is awaited.
//!
//! So a peer that stops falls behind by one second in each second, a peer that trickles nearly as
//! fast, and a peer that keeps the minimum rate never.
//!
//! Times are in milliseconds since an arbitrary moment.

/// Milliseconds that each completed piece of work catches up.
const EACH: u64 = 1000;

/// The most milliseconds by which one look lets a peer fall behind.
const LOOK: u64 = 4000;

/// The pace of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Milliseconds by which the peer was behind at the last look.
    behind: u64,
    /// Time of the last look.
    looked: u64,
    /// Start of the present wait for a completion, or of its part since the last look.
    since: Option<u64>,
    /// Milliseconds of ended waits since the last look.
    awaited: u64,
    /// Bytes that were completed since the last look.
    bytes: u64,
    /// Pieces of work that were completed since the last look.
    pieces: u64,
}

impl Pace {
    /// Notes that a completion is awaited from now on, or that none is. Reads the clock only if
    /// this is a change.
    #[inline]
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

    /// Counts a completed piece of work of `bytes` bytes.
    #[inline]
    pub fn complete(&mut self, bytes: u32) {
        // Neither comes near 2^64 before the next look.
        self.bytes = self.bytes.wrapping_add(u64::from(bytes));
        self.pieces = self.pieces.wrapping_add(1);
    }

    /// Looks at the peer at the time `now`. `rate` is the minimum rate in bytes per second. A look
    /// lets the peer fall behind by `LOOK` at most: a late look means that the server itself was
    /// stopped.
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

    /// Returns the seconds by which the peer was behind at the last look.
    pub fn seconds(&self) -> u32 {
        u32::try_from(self.behind / 1000).unwrap_or(u32::MAX)
    }

    /// Returns the seconds by which the peer was behind at the last look, less the time that
    /// `bytes` in flight may take.
    pub fn behind(&self, bytes: u32, rate: u32) -> u32 {
        let behind = self.behind.saturating_sub(time(u64::from(bytes), rate));
        u32::try_from(behind / 1000).unwrap_or(u32::MAX)
    }
}

/// The fault of a peer that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// It has completed nothing.
    Stalled,
    /// It has completed something, too slowly.
    TooSlow,
}

/// Returns the fault of a peer that is late by more than `patience` seconds: `behind` or `oldest`, the time for
/// which its oldest completion is awaited, exceeds them.
///
/// The oldest completion alone counts only if `holds_calls`: Calls of the peer keep pages that others lack,
/// and nfsd may take none of them before the peer takes Replies. A peer that takes a small Reply each
/// second is never behind.
pub fn judge(behind: u32, oldest: u32, patience: u32, holds_calls: bool) -> Option<Late> {
    match (behind > patience, oldest > patience) {
        (true, true) => Some(Late::Stalled),
        (true, false) => Some(Late::TooSlow),
        (false, true) if holds_calls => Some(Late::TooSlow),
        _ => None,
    }
}

/// Returns the milliseconds that `bytes` may take.
fn time(bytes: u64, rate: u32) -> u64 {
    let bytes = bytes.saturating_mul(1000);
    bytes.checked_div(u64::from(rate)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 65536;

    /// Returns the most seconds by which a peer is behind during one hour. The server awaits a
    /// piece of work of `bytes` bytes for `every` milliseconds, and then none for `pause`
    /// milliseconds.
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
    fn a_peer_that_stops_falls_behind_as_time_passes() {
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
    fn a_peer_below_the_minimum_rate_falls_behind() {
        // 4 KiB in 14 seconds.
        assert!(hour(4096, 14_000, 0) > 3000);
        // With a pause between two pieces of work.
        assert!(hour(4096, 14_000, 100) > 3000);
        // Half of the minimum rate, and the second for each piece.
        assert!(hour(16 * RATE, 32_000, 0) > 1000);
        assert!(hour(16 * RATE, 32_000, 100) > 1000);
    }

    #[test]
    fn a_peer_at_the_minimum_rate_is_never_behind() {
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
    fn a_peer_catches_up_while_no_completion_is_awaited() {
        let mut pace = Pace::default();
        pace.set_awaited(true, || 0);
        pace.set_awaited(false, || 20_000);
        pace.set_awaited(false, || unreachable!());
        // A late look counts 4 seconds at most.
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
    fn a_peer_is_never_ahead() {
        let mut pace = Pace::default();
        pace.set_awaited(true, || 0);
        pace.complete(u32::MAX);
        pace.look(2000, RATE);
        pace.look(6000, RATE);
        assert_eq!(pace.behind(0, RATE), 4);
    }

    #[test]
    fn a_peer_is_late_if_it_is_behind_or_holds_calls() {
        assert_eq!(judge(16, 16, 15, false), Some(Late::Stalled));
        assert_eq!(judge(16, 1, 15, true), Some(Late::TooSlow));
        assert_eq!(judge(0, 16, 15, false), None);
        assert_eq!(judge(0, 16, 15, true), Some(Late::TooSlow));
        assert_eq!(judge(15, 15, 15, true), None);
    }

    #[test]
    fn large_numbers_do_not_overflow() {
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

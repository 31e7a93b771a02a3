// SPDX-License-Identifier: GPL-2.0

//! Wall clock times of trace events.
//!
//! The trace clock is `tai`, which the kernel derives from the wall clock: International Atomic Time
//! differs from UTC by whole seconds, 37 where the host knows the leap seconds, and 0 where it does
//! not. So the time of an event is exact, also after a suspend and after the clock was set, which the
//! other trace clocks do not follow.

use rustix::time::{
    clock_gettime,
    ClockId,
    Timespec, //
};
use std::fmt;

const NANOSECONDS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// A time in seconds and microseconds since 1970, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    seconds: i64,
    micros: u32,
}

impl Time {
    /// Returns the present time.
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Realtime);
        Self {
            seconds: now.tv_sec,
            micros: u32::try_from(now.tv_nsec / 1000).unwrap_or(0),
        }
    }

    /// Parses a time of the clock `tai` as trace_pipe prints it, `SECONDS.MICROSECONDS`.
    pub(crate) fn of_tai(text: &str) -> Option<Self> {
        let (seconds, micros) = text.split_once('.')?;
        let seconds: i64 = seconds.parse().ok()?;
        Some(Self {
            seconds: seconds.checked_sub(tai_ahead())?,
            micros: micros.parse().ok().filter(|micros| *micros < 1_000_000)?,
        })
    }
}

/// Returns the seconds by which TAI is ahead of UTC, as far as the host knows.
fn tai_ahead() -> i64 {
    let nanoseconds = |time: Timespec| time.tv_sec * NANOSECONDS + time.tv_nsec;
    let tai = nanoseconds(clock_gettime(ClockId::Tai));
    let utc = nanoseconds(clock_gettime(ClockId::Realtime));
    // The clocks are read one after the other.
    (tai - utc + NANOSECONDS / 2).div_euclid(NANOSECONDS)
}

impl fmt::Display for Time {
    /// Writes the time as RFC 3339 has it: `2026-11-28T20:26:53.000001Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.seconds.div_euclid(DAY), self.seconds.rem_euclid(DAY));
        let (year, month, day) = date(days);
        let (hour, minute) = (second / 3600, second / 60 % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:06}Z",
            second % 60,
            self.micros
        )
    }
}

/// Returns year, month and day of a day, counted from 1970.
fn date(mut days: i64) -> (i64, usize, i64) {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + i64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seconds: i64) -> String {
        Time { seconds, micros: 7 }.to_string()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(text(0), "1970-01-01T00:00:00.000007Z");
        assert_eq!(text(951_782_399), "2000-02-28T23:59:59.000007Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00.000007Z");
        assert_eq!(text(1_735_689_599), "2024-12-31T23:59:59.000007Z");
        assert_eq!(text(1_735_689_600), "2025-01-01T00:00:00.000007Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00.000007Z");
    }

    #[test]
    fn the_present_in_tai_is_now() {
        let tai = clock_gettime(ClockId::Tai);
        let parsed = Time::of_tai(&format!("{}.000000", tai.tv_sec)).expect("a time");
        let difference = parsed.seconds - Time::now().seconds;
        assert!((-2..=1).contains(&difference), "{difference}");
        assert_eq!(Time::of_tai("12"), None);
        assert_eq!(Time::of_tai("12.1000000"), None);
        assert_eq!(Time::of_tai("x.5"), None);
    }
}

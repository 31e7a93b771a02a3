// SPDX-License-Identifier: GPL-2.0

//! Percentiles and a histogram of measured times.

use std::{fmt, time::Duration};

/// The longest bar of the histogram, in characters.
const BAR: usize = 40;

/// Measured times in ascending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Returns the shortest time that at least `percent` percent of the times do not exceed; zero
    /// if there are no times.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100);
        let time = self.0.get(rank.saturating_sub(1));
        time.copied().unwrap_or_default()
    }

    /// Returns the lines of a histogram: one line for each power of two of microseconds, from the
    /// first to the last bucket that is not empty.
    pub(crate) fn histogram(&self) -> Vec<String> {
        let bucket = |time: &Duration| time.as_micros().max(1).ilog2();
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else {
            return Vec::new();
        };
        let count = |nth| self.0.iter().filter(|time| bucket(time) == nth).count();
        let counts: Vec<(u32, usize)> = (bucket(first)..=bucket(last))
            .map(|nth| (nth, count(nth)))
            .collect();
        let most = counts.iter().map(|&(_, count)| count).max().unwrap_or(1);
        let line = |(nth, count): (u32, usize)| {
            let bar = "#".repeat((count * BAR).div_ceil(most));
            format!("{:>9} us {count:>9} {bar}", 1u64 << nth)
        };
        counts.into_iter().map(line).collect()
    }
}

impl FromIterator<Duration> for Times {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort_unstable();
        Self(times)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |percent| self.percentile(percent).as_micros();
        write!(
            f,
            "{} Calls, {} us shortest, {} us p50, {} us p99, {} us longest",
            self.0.len(),
            us(0),
            us(50),
            us(99),
            us(100)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let ms = Duration::from_millis;
        let times: Times = (1..=200).rev().map(ms).collect();
        for (percent, expected) in [(0, 1), (50, 100), (99, 198), (100, 200)] {
            assert_eq!(times.percentile(percent), ms(expected), "{percent}");
        }
        let one: Times = [ms(1)].into_iter().collect();
        assert_eq!(one.percentile(99), ms(1));
        assert_eq!(Times::default().percentile(50), Duration::ZERO);
    }

    #[test]
    fn a_histogram_has_all_times() {
        let us = Duration::from_micros;
        let times: Times = [us(0), us(5), us(4), us(7), us(17)].into_iter().collect();
        let lines = times.histogram();
        let counts: Vec<(&str, &str)> = lines
            .iter()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                Some((words.next()?, words.nth(1)?))
            })
            .collect();
        let expected = [("1", "1"), ("2", "0"), ("4", "3"), ("8", "0"), ("16", "1")];
        assert_eq!(counts, expected);
        assert_eq!(Times::default().histogram(), [""; 0]);
    }
}

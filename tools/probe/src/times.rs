// SPDX-License-Identifier: GPL-2.0

//! Percentiles and a histogram of measured times.

use crate::error::{Error, Result};
use hdrhistogram::Histogram;
use serde_json::{json, Value};
use std::{collections::BTreeMap, fmt, time::Duration};

/// The longest bar of the histogram, in characters.
const BAR: u64 = 40;

/// The longest time that can be told from longer ones.
const LONGEST: Duration = Duration::from_secs(4 * 3600);

/// The significant digits of a time.
const DIGITS: u8 = 3;

/// Measured times, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    /// Creates an empty collection.
    pub(crate) fn new() -> Result<Self> {
        Histogram::new_with_bounds(1, nanoseconds(LONGEST), DIGITS)
            .map(Self)
            .map_err(|error| Error::unavailable(format!("histogram: {error}")))
    }

    /// Adds a time.
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.saturating_record(nanoseconds(time));
    }

    /// Adds all times of another collection.
    pub(crate) fn add_all(&mut self, other: &Self) -> Result {
        let added = self.0.add(&other.0);
        added.map_err(|error| Error::unavailable(format!("histogram: {error}")))
    }

    /// Returns the number of times.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the shortest time that at least `percent` percent of the times do not exceed, in
    /// nanoseconds; zero if there are no times.
    fn percentile(&self, percent: f64) -> u64 {
        self.0.value_at_quantile(percent / 100.0)
    }

    /// Returns the median in nanoseconds; zero if there are no times.
    pub(crate) fn median(&self) -> u64 {
        self.percentile(50.0)
    }

    /// Returns the fields of the JSON document.
    pub(crate) fn json(&self) -> Value {
        json!({
            "count": self.count(),
            "min_ns": self.shortest(),
            "mean_ns": self.0.mean().round() as u64,
            "p50_ns": self.percentile(50.0),
            "p99_ns": self.percentile(99.0),
            "p99_9_ns": self.percentile(99.9),
            "max_ns": self.0.max(),
        })
    }

    /// Returns the shortest time in nanoseconds; zero if there are no times.
    fn shortest(&self) -> u64 {
        match self.count() {
            0 => 0,
            _ => self.0.min(),
        }
    }

    /// Returns the lines of a histogram: one line for each power of two of microseconds, from the
    /// first to the last bucket that is not empty.
    pub(crate) fn histogram(&self) -> Vec<String> {
        let counts = self.buckets();
        let ends = counts.keys().next().zip(counts.keys().next_back());
        let Some((&first, &last)) = ends else {
            return Vec::new();
        };
        let most = counts.values().copied().max().unwrap_or(1);
        let line = |nth| {
            let count = counts.get(&nth).copied().unwrap_or_default();
            let bar = "#".repeat((count * BAR).div_ceil(most) as usize);
            format!("{:>9} us {count:>9} {bar}", 1u64 << nth)
        };
        (first..=last).map(line).collect()
    }

    /// Returns the number of times in each bucket that is not empty.
    fn buckets(&self) -> BTreeMap<u32, u64> {
        let mut counts = BTreeMap::new();
        for step in self.0.iter_recorded() {
            let microseconds = step.value_iterated_to() / 1000;
            let bucket = microseconds.max(1).ilog2();
            *counts.entry(bucket).or_default() += step.count_at_value();
        }
        counts
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
        write!(
            f,
            "{} Calls, {:.1} us shortest, {:.1} us p50, {:.1} us p99, {:.1} us p99.9, {:.1} us longest",
            self.count(),
            us(self.shortest()),
            us(self.percentile(50.0)),
            us(self.percentile(99.0)),
            us(self.percentile(99.9)),
            us(self.0.max())
        )
    }
}

/// Returns a time in nanoseconds.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(times: impl IntoIterator<Item = Duration>) -> Times {
        let mut all = Times::new().unwrap();
        times.into_iter().for_each(|time| all.add(time));
        all
    }

    /// Returns true if `found` is `expected` nanoseconds within the precision.
    fn is_near(found: u64, expected: u64) -> bool {
        found.abs_diff(expected) * 1000 <= expected
    }

    #[test]
    fn percentiles_have_three_digits() {
        let times = times((1..=2000).rev().map(Duration::from_micros));
        for (percent, us) in [(50.0, 1000), (99.0, 1980), (99.9, 1998), (100.0, 2000)] {
            let found = times.percentile(percent);
            assert!(is_near(found, us * 1000), "{percent}: {found}");
        }
        assert!(is_near(times.shortest(), 1000));
    }

    #[test]
    fn nanoseconds_are_kept() {
        let times = times([Duration::from_nanos(1234)]);
        let json = times.json();
        assert_eq!(json["count"], 1);
        for field in [
            "min_ns", "mean_ns", "p50_ns", "p99_ns", "p99_9_ns", "max_ns",
        ] {
            assert!(is_near(json[field].as_u64().unwrap(), 1234), "{json}");
        }
        assert_eq!(
            times.to_string(),
            "1 Calls, 1.2 us shortest, 1.2 us p50, 1.2 us p99, 1.2 us p99.9, 1.2 us longest"
        );
    }

    #[test]
    fn collections_are_added() {
        let mut sum = times([Duration::from_micros(1)]);
        sum.add_all(&times([Duration::from_micros(9), 2 * LONGEST]))
            .unwrap();
        assert_eq!(sum.count(), 3);
        assert!(is_near(sum.shortest(), 1000));
        assert!(is_near(sum.percentile(50.0), 9000));
    }

    #[test]
    fn no_times_are_zero_and_long_ones_are_kept() {
        let none = times([]);
        assert_eq!((none.percentile(50.0), none.shortest()), (0, 0));
        let long = times([2 * LONGEST]);
        assert!(is_near(long.percentile(50.0), nanoseconds(LONGEST)));
    }

    #[test]
    fn a_histogram_has_all_times() {
        let lines = times([0, 5, 4, 7, 17].map(Duration::from_micros)).histogram();
        let counts: Vec<(&str, &str)> = lines
            .iter()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                Some((words.next()?, words.nth(1)?))
            })
            .collect();
        let expected = [("1", "1"), ("2", "0"), ("4", "3"), ("8", "0"), ("16", "1")];
        assert_eq!(counts, expected);
        assert_eq!(times([]).histogram(), [""; 0]);
    }
}

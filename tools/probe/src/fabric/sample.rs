// SPDX-License-Identifier: GPL-2.0

//! Samples: what one round of a cell has measured, and the medians of several.

use super::cell::Cell;
use crate::{
    calls::{Answered, Course, Next},
    error::Result,
    times::Times,
};
use serde_json::{json, Value};
use std::time::{Duration, Instant};

/// The measurement of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) count: u64,
    /// Operations per second.
    pub(super) rate: f64,
    /// The median of the response times, in nanoseconds.
    pub(super) median_ns: u64,
}

/// Decides when a round ends, and measures it.
pub(super) struct Round {
    most: Duration,
    /// The operations that are made in any case.
    least: u64,
    begin: Option<Instant>,
    end: Option<Instant>,
    made: u64,
    times: Times,
}

impl Round {
    /// Creates a round that makes operations for `most`, and `least` operations at least.
    pub(super) fn new(most: Duration, least: u32) -> Result<Self> {
        Ok(Self {
            most,
            least: least.into(),
            begin: None,
            end: None,
            made: 0,
            times: Times::new()?,
        })
    }

    /// Returns true if another operation is made, which then counts.
    pub(super) fn goes_on(&mut self) -> bool {
        let begin = *self.begin.get_or_insert_with(Instant::now);
        let goes_on = self.made < self.least || begin.elapsed() < self.most;
        self.made += u64::from(goes_on);
        goes_on
    }

    /// Notes the end of an operation that has begun at `begin`.
    pub(super) fn done(&mut self, begin: Instant) {
        let now = Instant::now();
        self.add(now.duration_since(begin), now);
    }

    fn add(&mut self, time: Duration, at: Instant) {
        self.end = Some(at);
        self.times.add(time);
    }

    /// Returns the measurement.
    pub(super) fn sample(&self) -> Sample {
        let elapsed = self.end.zip(self.begin).map(|(end, begin)| end - begin);
        let elapsed = elapsed.unwrap_or_default().as_secs_f64().max(1e-9);
        Sample {
            count: self.times.count(),
            rate: self.times.count() as f64 / elapsed,
            median_ns: self.times.median(),
        }
    }
}

impl Course for &mut Round {
    fn next(&mut self, _calls: usize) -> Next {
        match self.goes_on() {
            true => Next::Call,
            false => Next::End,
        }
    }

    fn answered(&mut self, reply: Answered) {
        self.add(reply.time, reply.at);
    }
}

/// The median of several rounds, the smallest and the largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    /// Returns the spread of `values`, all zero if there are none.
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |nth: usize| values.get(nth).copied().unwrap_or_default();
        let (middle, last) = (values.len() / 2, values.len().saturating_sub(1));
        Self {
            median: (at(middle) + at(last - middle.min(last))) / 2.0,
            least: at(0),
            most: at(last),
        }
    }

    /// Returns the difference of the largest and the smallest value, in percent of the median.
    pub(super) fn percent(&self) -> f64 {
        match self.median > 0.0 {
            true => 100.0 * (self.most - self.least) / self.median,
            false => 0.0,
        }
    }
}

/// The figures of a cell over all rounds.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) cell: Cell,
    pub(super) rounds: usize,
    pub(super) count: u64,
    /// Operations per second.
    pub(super) rate: Spread,
    /// Nanoseconds.
    pub(super) latency: Spread,
}

impl Figures {
    /// Returns the figures of a cell.
    pub(super) fn new(cell: Cell, samples: &[Sample]) -> Self {
        Self {
            cell,
            rounds: samples.len(),
            count: samples.iter().map(|sample| sample.count).sum(),
            rate: Spread::of(samples.iter().map(|sample| sample.rate)),
            latency: Spread::of(samples.iter().map(|sample| sample.median_ns as f64)),
        }
    }

    /// Returns the fields of the JSON document.
    pub(super) fn json(&self) -> Value {
        let Cell {
            kind,
            size,
            depth,
            in_flight,
        } = self.cell;
        let (rate, latency) = (&self.rate, &self.latency);
        json!({
            "side": if kind.is_nfs() { "nfs" } else { "fabric" },
            "operation": kind.name(),
            "size": size,
            "depth": depth,
            "in_flight": in_flight,
            "rounds": self.rounds,
            "count": self.count,
            "per_second": { "median": rate.median, "min": rate.least, "max": rate.most },
            "latency_ns": { "median": latency.median, "min": latency.least, "max": latency.most },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::cell::Kind;

    fn spread(values: &[f64]) -> (f64, f64, f64) {
        let spread = Spread::of(values.iter().copied());
        (spread.median, spread.least, spread.most)
    }

    #[test]
    fn medians_and_ends() {
        assert_eq!(spread(&[]), (0.0, 0.0, 0.0));
        assert_eq!(spread(&[7.0]), (7.0, 7.0, 7.0));
        assert_eq!(spread(&[9.0, 1.0]), (5.0, 1.0, 9.0));
        assert_eq!(spread(&[9.0, 1.0, 2.0]), (2.0, 1.0, 9.0));
        assert_eq!(spread(&[4.0, 9.0, 1.0, 2.0]), (3.0, 1.0, 9.0));
        let spread = Spread::of([8.0, 10.0, 12.0].into_iter());
        assert_eq!(spread.percent(), 40.0);
        assert_eq!(Spread::of([].into_iter()).percent(), 0.0);
    }

    #[test]
    fn a_round_makes_the_least_and_ends() {
        let mut round = Round::new(Duration::ZERO, 3).unwrap();
        let made = (0..9).filter(|_| round.goes_on()).count();
        assert_eq!(made, 3);
        assert_eq!(round.sample().count, 0);
        (0..3).for_each(|_| round.done(Instant::now() - Duration::from_micros(10)));
        let sample = round.sample();
        assert_eq!(sample.count, 3);
        assert!(sample.rate > 0.0 && sample.median_ns >= 9_000, "{sample:?}");
        let mut long = Round::new(Duration::from_secs(1000), 1).unwrap();
        assert!((0..9).all(|_| long.goes_on()));
    }

    #[test]
    fn figures_have_all_rounds() {
        let cell = Cell {
            kind: Kind::Push,
            size: 64,
            depth: 4,
            in_flight: 2,
        };
        let sample = |count, rate, median_ns| Sample {
            count,
            rate,
            median_ns,
        };
        let samples = [sample(1, 5.0, 30), sample(2, 7.0, 10), sample(4, 6.0, 20)];
        let json = Figures::new(cell, &samples).json();
        assert_eq!(
            (&json["side"], &json["operation"]),
            (&"fabric".into(), &"push".into())
        );
        assert_eq!((&json["count"], &json["rounds"]), (&7.into(), &3.into()));
        assert_eq!((&json["depth"], &json["in_flight"]), (&4.into(), &2.into()));
        assert_eq!(
            json["per_second"],
            json!({ "median": 6.0, "min": 5.0, "max": 7.0 })
        );
        assert_eq!(json["latency_ns"]["median"], 20.0);
    }
}

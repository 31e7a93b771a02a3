// SPDX-License-Identifier: GPL-2.0

//! Latencies: histograms with a bucket for each power of two.

use crate::{
    human,
    table::{
        Row,
        Table, //
    },
};
use clap::ValueEnum;
use serde_json::{
    json,
    Map,
    Value, //
};
use std::collections::HashMap;

/// The kind of time that a histogram has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Kind {
    /// From the receipt of a Call until its Reply is posted.
    Server,
    /// From the first RDMA Read of a Call until the last one has completed.
    Reads,
    /// From the posting of a Reply until it has completed.
    #[value(alias = "send")]
    Sends,
}

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Kind; 3] = [Kind::Server, Kind::Reads, Kind::Sends];

    /// Returns the name in tables, in JSON and in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Server => "server",
            Kind::Reads => "reads",
            Kind::Sends => "sends",
        }
    }

    /// Returns the kind that the module calls `name`.
    fn named(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }
}

/// Numbers of Calls by the time that they took. Bucket n counts those that took at least 2^n and
/// less than 2^(n+1) microseconds. The first bucket also counts shorter times, the last one longer
/// times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram(pub(crate) Vec<u64>);

/// A bound of a time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bound {
    /// The time is shorter.
    Below(u64),
    /// The time is as long or longer, because it is in the last bucket.
    AtLeast(u64),
}

impl Bound {
    /// Returns the number of microseconds.
    pub(crate) fn microseconds(self) -> u64 {
        match self {
            Bound::Below(us) | Bound::AtLeast(us) => us,
        }
    }

    /// Returns the text for people.
    pub(crate) fn text(self) -> String {
        match self {
            Bound::Below(us) => human::microseconds(us),
            Bound::AtLeast(us) => format!(">{}", human::microseconds(us)),
        }
    }
}

/// The percentiles that are shown: title, key in JSON, Calls of a thousand.
pub(crate) const PERCENTILES: [(&str, &str, u64); 3] = [
    ("p50", "p50_us", 500),
    ("p99", "p99_us", 990),
    ("p99.9", "p999_us", 999),
];

impl Histogram {
    /// Reads the columns `b0`, `b1` and so on of a row.
    fn of_row(row: &Row) -> Self {
        let numbers = (0..64).map_while(|n| row.number(&format!("b{n}")));
        Self(numbers.collect())
    }

    /// Returns the number of Calls.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().copied().fold(0, u64::saturating_add)
    }

    /// Returns the upper end of bucket `n`, in microseconds.
    pub(crate) fn end(n: usize) -> u64 {
        u32::try_from(n + 1)
            .ok()
            .and_then(|shift| 1u64.checked_shl(shift))
            .unwrap_or(u64::MAX)
    }

    /// Returns a bound of the time within which `of_thousand` of a thousand Calls were done, or
    /// nothing if there were no Calls.
    pub(crate) fn percentile(&self, of_thousand: u64) -> Option<Bound> {
        let count = u128::from(self.count());
        let mut seen = 0u128;
        for (n, calls) in self.0.iter().enumerate() {
            seen += u128::from(*calls);
            if *calls > 0 && seen * 1000 >= count * u128::from(of_thousand) {
                let is_last = n + 1 == self.0.len();
                return Some(if is_last {
                    Bound::AtLeast(Self::end(n) / 2)
                } else {
                    Bound::Below(Self::end(n))
                });
            }
        }
        None
    }

    /// Returns the histogram and its percentiles as JSON.
    fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("count".to_owned(), self.count().into());
        for (_, key, of_thousand) in PERCENTILES {
            let bound = self.percentile(of_thousand).map(Bound::microseconds);
            object.insert(key.to_owned(), bound.into());
        }
        object.insert("buckets".to_owned(), json!(self.0));
        Value::Object(object)
    }
}

/// The histograms of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(HashMap<Kind, Histogram>);

impl Latencies {
    /// Returns those of each connection, by its number.
    pub(crate) fn of_table(table: &Table) -> HashMap<u64, Latencies> {
        let mut found: HashMap<u64, Latencies> = HashMap::new();
        for row in &table.rows {
            let number = row.number("connection").or_else(|| row.number("id"));
            let kind = row.text("kind").and_then(Kind::named);
            if let (Some(number), Some(kind)) = (number, kind) {
                let latencies = found.entry(number).or_default();
                latencies.0.insert(kind, Histogram::of_row(row));
            }
        }
        found
    }

    /// Returns a bound of a percentile.
    pub(crate) fn percentile(&self, kind: Kind, of_thousand: u64) -> Option<Bound> {
        self.0.get(&kind)?.percentile(of_thousand)
    }

    /// Returns the histograms as JSON, by their kinds.
    pub(crate) fn json(&self) -> Value {
        let known = Kind::ALL
            .into_iter()
            .filter_map(|kind| Some((kind.name().to_owned(), self.0.get(&kind)?.json())));
        Value::Object(Map::from_iter(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ends_of_buckets() {
        // 500 below 2 us, 490 from 4 to 8 us, 9 from 64 to 128 us, 1 in the last bucket.
        let histogram = Histogram(vec![500, 0, 490, 0, 0, 0, 9, 1]);
        assert_eq!(histogram.count(), 1000);
        assert_eq!(histogram.percentile(500), Some(Bound::Below(2)));
        assert_eq!(histogram.percentile(501), Some(Bound::Below(8)));
        assert_eq!(histogram.percentile(990), Some(Bound::Below(8)));
        assert_eq!(histogram.percentile(999), Some(Bound::Below(128)));
        assert_eq!(histogram.percentile(1000), Some(Bound::AtLeast(128)));
    }

    #[test]
    fn no_calls_have_no_percentiles() {
        assert_eq!(Histogram(vec![0; 32]).percentile(500), None);
        assert_eq!(Histogram::default().percentile(500), None);
    }

    #[test]
    fn large_numbers_do_not_overflow() {
        let histogram = Histogram(vec![u64::MAX, u64::MAX]);
        assert_eq!(histogram.count(), u64::MAX);
        assert_eq!(histogram.percentile(500), Some(Bound::Below(2)));
        assert_eq!(Histogram::end(63), u64::MAX);
    }

    #[test]
    fn rows_are_sorted_by_connection_and_kind() {
        let table = Table::parse(
            "id peer kind b0 b1 b2\n7 a:1 server 0 3 0\n7 a:1 send 1 0 0\n8 b:1 other 1 1 1\n",
        );
        let found = Latencies::of_table(&table);
        assert_eq!(found.len(), 1);
        let seven = &found[&7];
        assert_eq!(seven.percentile(Kind::Server, 990), Some(Bound::Below(4)));
        assert_eq!(seven.percentile(Kind::Sends, 990), Some(Bound::Below(2)));
        assert_eq!(seven.percentile(Kind::Reads, 990), None);
    }
}

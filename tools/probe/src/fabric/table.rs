// SPDX-License-Identifier: GPL-2.0

//! The table: what the fabric gives, and what NFS gets of it.

use super::{cell::Kind, sample::Figures};
use serde_json::{json, Value};

/// The best figures of one side: the highest rate of all depths, and the shortest latency.
pub(super) struct Best<'a> {
    rate: &'a Figures,
    latency: &'a Figures,
}

/// A row: an operation of the fabric at one size, and what NFS makes of it.
pub(super) struct Row<'a> {
    pub(super) size: u32,
    pub(super) kind: Kind,
    pub(super) fabric: Best<'a>,
    pub(super) nfs: Option<Best<'a>>,
}

impl<'a> Best<'a> {
    /// Returns the best of an operation at one size, or `None` if it was not measured.
    fn of(all: &'a [Figures], kind: Kind, size: u32) -> Option<Self> {
        let those = || {
            all.iter()
                .filter(move |one| (one.cell.kind, one.cell.size) == (kind, size))
        };
        let rate = |one: &Figures| one.rate.median;
        let latency = |one: &Figures| one.latency.median;
        Some(Self {
            rate: those().max_by(|a, b| rate(a).total_cmp(&rate(b)))?,
            latency: those().min_by(|a, b| latency(a).total_cmp(&latency(b)))?,
        })
    }

    /// Returns the bytes per second; `None` for NULL, which has none.
    fn bytes(&self) -> Option<f64> {
        let cell = &self.rate.cell;
        (cell.kind != Kind::Null).then(|| self.rate.rate.median * f64::from(cell.size))
    }

    /// Returns the part of a line: depth, MB/s, spread in percent, and microseconds.
    fn text(&self) -> String {
        let megabytes = |bytes: f64| format!("{:.2}", bytes / 1e6);
        let megabytes = self.bytes().map_or("-".to_owned(), megabytes);
        let (depth, spread) = (self.rate.cell.in_flight, self.rate.rate.percent());
        let us = self.latency.latency.median / 1000.0;
        format!("{depth:>5} {megabytes:>9} {spread:>5.0}% {us:>9.1}")
    }

    fn json(&self, kind: Kind) -> Value {
        json!({
            "operation": kind.name(),
            "in_flight": self.rate.cell.in_flight,
            "per_second": self.rate.rate.median,
            "bytes_per_second": self.bytes(),
            "latency_ns": self.latency.latency.median,
        })
    }
}

impl Row<'_> {
    /// Returns what NFS gets: the ratio of its rate to that of the fabric, and of its latency.
    pub(super) fn ratios(&self) -> Option<(f64, f64)> {
        let nfs = self.nfs.as_ref()?;
        let ratio = |nfs: f64, fabric: f64| nfs / fabric.max(1e-9);
        Some((
            ratio(nfs.rate.rate.median, self.fabric.rate.rate.median),
            ratio(
                nfs.latency.latency.median,
                self.fabric.latency.latency.median,
            ),
        ))
    }

    /// Returns the bytes per second of an operation of either side; `None` if the row has none.
    pub(super) fn bytes(&self, kind: Kind) -> Option<f64> {
        match kind == self.kind {
            true => self.fabric.bytes(),
            false => self
                .nfs
                .as_ref()
                .filter(|_| self.kind.of_nfs() == Some(kind))?
                .bytes(),
        }
    }

    /// Returns the line.
    fn text(&self) -> String {
        let (size, kind, fabric) = (human(self.size), self.kind, self.fabric.text());
        let left = format!("{size:>8}  {kind:<12} {fabric}");
        match (&self.nfs, self.kind.of_nfs(), self.ratios()) {
            (Some(nfs), Some(of_nfs), Some((rate, time))) => {
                let nfs = nfs.text();
                let percent = 100.0 * rate;
                format!("{left}   {of_nfs:<5}  {nfs} | {percent:>3.0}%  x{time:.1}")
            }
            _ => left,
        }
    }

    /// Returns the element of the JSON document.
    pub(super) fn json(&self) -> Value {
        let ratios = self.ratios();
        let of_nfs = self.nfs.as_ref().zip(self.kind.of_nfs());
        json!({
            "size": self.size,
            "fabric": self.fabric.json(self.kind),
            "nfs": of_nfs.map(|(nfs, kind)| nfs.json(kind)),
            "rate_ratio": ratios.map(|(rate, _)| rate),
            "latency_ratio": ratios.map(|(_, latency)| latency),
        })
    }
}

/// Returns the rows, by size and operation.
pub(super) fn rows(all: &[Figures]) -> Vec<Row<'_>> {
    let mut sizes: Vec<u32> = all.iter().map(|one| one.cell.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let pairs = sizes
        .into_iter()
        .flat_map(|size| Kind::ALL.map(|kind| (size, kind)));
    let row = |(size, kind): (u32, Kind)| {
        Some(Row {
            size,
            kind,
            fabric: Best::of(all, kind, size)?,
            nfs: kind.of_nfs().and_then(|of_nfs| Best::of(all, of_nfs, size)),
        })
    };
    pairs
        .filter(|(_, kind)| !kind.is_nfs())
        .filter_map(row)
        .collect()
}

/// Returns the titles of the columns.
fn title() -> String {
    let side = format!("{:>5} {:>9} {:>6} {:>9}", "depth", "MB/s", "spread", "us");
    format!(
        "{:>8}  {:<12} {side}   {:<5}  {side} | rate  time",
        "size", "fabric", "NFS"
    )
}

/// Returns the lines of the table.
pub(super) fn lines(rows: &[Row<'_>]) -> Vec<String> {
    [title()]
        .into_iter()
        .chain(rows.iter().map(Row::text))
        .collect()
}

/// Returns a size as people write it.
pub(super) fn human(size: u32) -> String {
    match size {
        0x10_0000.. if size % 0x10_0000 == 0 => format!("{} MiB", size >> 20),
        0x400.. if size % 0x400 == 0 => format!("{} KiB", size >> 10),
        _ => format!("{size} B"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fabric::{cell::Cell, sample::Sample};

    /// Returns the figures of a cell whose one round had this rate and latency.
    pub(in crate::fabric) fn figures(
        kind: Kind,
        size: u32,
        depth: u32,
        rate: f64,
        us: u64,
    ) -> Figures {
        let in_flight = depth;
        let cell = Cell {
            kind,
            size,
            depth,
            in_flight,
        };
        Figures::new(
            cell,
            &[Sample {
                count: 9,
                rate,
                median_ns: us * 1000,
            }],
        )
    }

    #[test]
    fn a_row_has_the_best_of_all_depths() {
        let all = [
            figures(Kind::Push, 4096, 1, 100.0, 10),
            figures(Kind::Push, 4096, 16, 400.0, 90),
            figures(Kind::Read, 4096, 1, 50.0, 40),
            figures(Kind::Read, 4096, 16, 300.0, 200),
            figures(Kind::OfferRead, 4096, 1, 1000.0, 5),
        ];
        let rows = rows(&all);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].ratios(), Some((0.75, 4.0)));
        assert_eq!(rows[1].ratios(), None);
        let json = rows[0].json();
        assert_eq!(json["fabric"]["in_flight"], 16);
        assert_eq!(json["fabric"]["bytes_per_second"], 400.0 * 4096.0);
        assert_eq!(
            (&json["nfs"]["operation"], &json["rate_ratio"]),
            (&"READ".into(), &0.75.into())
        );
        assert_eq!(rows[1].json()["nfs"], Value::Null);
        let lines = lines(&rows);
        assert!(
            lines[1].contains("push") && lines[1].ends_with("|  75%  x4.0"),
            "{lines:?}"
        );
        assert!(lines[2].ends_with("5.0"), "{lines:?}");
    }

    #[test]
    fn columns_are_below_their_titles() {
        let all = [
            figures(Kind::Pull, 64, 64, 1e6, 10),
            figures(Kind::Write, 64, 64, 1e6, 10),
        ];
        let lines = lines(&rows(&all));
        for (title, value) in [("size", "64 B"), ("MB/s", "64.00"), ("us", "10.0")] {
            let end = |line: &str, what: &str| line.find(what).map(|at| at + what.len());
            assert_eq!(end(&lines[0], title), end(&lines[1], value), "{lines:#?}");
            let last = |line: &str, what: &str| line.rfind(what).map(|at| at + what.len());
            if title != "size" {
                assert_eq!(last(&lines[0], title), last(&lines[1], value), "{lines:#?}");
            }
        }
        assert_eq!(lines[0].find('|'), lines[1].find('|'), "{lines:#?}");
    }

    #[test]
    fn null_moves_no_bytes_but_has_a_ratio() {
        let all = [
            figures(Kind::Send, 64, 1, 100.0, 10),
            figures(Kind::Null, 64, 1, 50.0, 20),
        ];
        let rows = rows(&all);
        assert_eq!(rows[0].ratios(), Some((0.5, 2.0)));
        assert_eq!(rows[0].json()["nfs"]["bytes_per_second"], Value::Null);
        assert_eq!(lines(&rows).len(), 2);
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [64, 1000, 1024, 1536, 65_536, 4 << 20].map(human);
        assert_eq!(
            sizes,
            ["64 B", "1000 B", "1 KiB", "1536 B", "64 KiB", "4 MiB"]
        );
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Connections with their latencies and rates.

use crate::{
    error::Result,
    latency::{
        Bound,
        Kind,
        Latencies, //
    },
    peer::Filter,
    system::System,
    table::Row, //
};
use clap::ValueEnum;
use serde_json::{
    json,
    Value, //
};
use std::{
    cmp::Reverse,
    collections::HashMap, //
};

/// KiB of a Receive buffer.
const RECEIVE_KIB: u64 = 4;
/// The columns with bytes that went inline, and with those that went by RDMA.
const INLINE: [&str; 2] = ["inline_received_bytes", "inline_sent_bytes"];
const BY_RDMA: [&str; 2] = ["read_bytes", "write_bytes"];
/// The columns of which [`Connection::memory_kib`] is the sum.
const MEMORY: [&str; 3] = ["receives", "reading_kib", "reply_kib"];

/// The order of connections, the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    Memory,
    Rate,
    Age,
    Latency,
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The line in the table `connections`.
    pub(crate) row: Row,
    latencies: Option<Latencies>,
    /// The rates between two looks.
    pub(crate) rates: Option<Rates>,
}

/// Numbers per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    pub(crate) calls: Option<f64>,
    pub(crate) read_bytes: Option<f64>,
    pub(crate) write_bytes: Option<f64>,
}

impl Rates {
    /// Returns the rates of a connection with two lines that were read `seconds` apart.
    fn between(before: &Row, after: &Row, seconds: f64) -> Self {
        let rate = |title| {
            let grown = after.number(title)?.checked_sub(before.number(title)?)?;
            (seconds > 0.0).then(|| grown as f64 / seconds)
        };
        Self {
            calls: rate("calls"),
            read_bytes: rate("read_bytes"),
            write_bytes: rate("write_bytes"),
        }
    }

    /// Returns the JSON object.
    fn json(self) -> Value {
        json!({
            "calls_per_second": self.calls,
            "read_bytes_per_second": self.read_bytes,
            "write_bytes_per_second": self.write_bytes,
        })
    }
}

impl Connection {
    /// Returns all connections that a filter selects, without rates.
    pub(crate) fn all(system: &System, filter: Option<Filter>) -> Result<Vec<Self>> {
        let table = system.table_with("connections", &["connection", "peer"])?;
        // Older modules have no such table.
        let mut latencies = match system.table("latency") {
            Ok(table) => Latencies::of_table(&table),
            Err(_) => HashMap::new(),
        };
        let rows = table.rows.into_iter().filter(|row| {
            filter.is_none_or(|filter| row.text("peer").is_some_and(|peer| filter.matches(peer)))
        });
        let connections = rows.map(|row| Self {
            latencies: row
                .number("connection")
                .and_then(|number| latencies.remove(&number)),
            rates: None,
            row,
        });
        Ok(connections.collect())
    }

    /// Returns the number, which is never used twice.
    pub(crate) fn number(&self) -> Option<u64> {
        self.row.number("connection")
    }

    /// Returns the memory that the server holds for the connection, as far as the module shows it.
    pub(crate) fn memory_kib(&self) -> Option<u64> {
        let [receives, reading, reply] = MEMORY.map(|title| self.row.number(title));
        Some(receives? * RECEIVE_KIB + reading? + reply?)
    }

    /// Returns the bytes that went inline as a part of all bytes, in per cent.
    pub(crate) fn inline_percent(&self) -> Option<u64> {
        let sum = |titles: [&str; 2]| {
            let [one, other] = titles.map(|title| self.row.number(title));
            one?.checked_add(other?)
        };
        let inline = u128::from(sum(INLINE)?);
        let all = inline + u128::from(sum(BY_RDMA)?);
        (inline * 100).checked_div(all)?.try_into().ok()
    }

    /// Returns a bound of a percentile.
    pub(crate) fn percentile(&self, kind: Kind, of_thousand: u64) -> Option<Bound> {
        self.latencies.as_ref()?.percentile(kind, of_thousand)
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> Value {
        json!({
            "columns": self.row.json(),
            "memory_kib": self.memory_kib(),
            "rates": self.rates.map(Rates::json),
            "latency": self.latencies.as_ref().map(Latencies::json),
        })
    }
}

/// Sets the rates of the connections that were there `seconds` before.
pub(crate) fn measure(before: &[Connection], after: &mut [Connection], seconds: f64) {
    let before: HashMap<u64, &Row> = before
        .iter()
        .filter_map(|each| Some((each.number()?, &each.row)))
        .collect();
    for connection in after {
        let earlier = connection.number().and_then(|number| before.get(&number));
        connection.rates = earlier.map(|row| Rates::between(row, &connection.row, seconds));
    }
}

/// Returns an error if the module does not show what an order needs.
pub(crate) fn check_order(system: &System, sort: Sort) -> Result {
    match sort {
        Sort::Memory => system.table_with("connections", &MEMORY).map(|_| ()),
        Sort::Rate => system.table_with("connections", &["calls"]).map(|_| ()),
        Sort::Age => system
            .table_with("connections", &["age_seconds"])
            .map(|_| ()),
        Sort::Latency => system.table_with("latency", &["kind", "b0"]).map(|_| ()),
    }
}

/// Sorts connections, the largest first; those without a value come last.
pub(crate) fn sort(connections: &mut [Connection], sort: Sort, kind: Kind) {
    match sort {
        Sort::Memory => connections.sort_by_key(|each| Reverse(each.memory_kib())),
        Sort::Age => connections.sort_by_key(|each| Reverse(each.row.number("age_seconds"))),
        Sort::Latency => connections
            .sort_by_key(|each| Reverse(each.percentile(kind, 990).map(Bound::microseconds))),
        Sort::Rate => connections.sort_by(|one, other| calls(other).total_cmp(&calls(one))),
    }
}

/// Returns the Calls per second, below 0 if they are not known.
fn calls(connection: &Connection) -> f64 {
    connection
        .rates
        .and_then(|rates| rates.calls)
        .unwrap_or(-1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    fn connections(text: &str) -> Vec<Connection> {
        let rows = Table::parse(text).rows.into_iter();
        rows.map(|row| Connection {
            row,
            latencies: None,
            rates: None,
        })
        .collect()
    }

    fn numbers(connections: &[Connection]) -> Vec<u64> {
        connections.iter().filter_map(Connection::number).collect()
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let before = connections("connection calls read_bytes\n1 100 0\n2 50 8\n");
        let mut after = connections("connection calls read_bytes\n2 70 4104\n1 101 0\n3 9 9\n");
        measure(&before, &mut after, 2.0);
        let two = after[0].rates.expect("rates of 2");
        assert_eq!(two.calls, Some(10.0));
        assert_eq!(two.read_bytes, Some(2048.0));
        assert_eq!(two.write_bytes, None);
        assert_eq!(after[2].rates, None);
        sort(&mut after, Sort::Rate, Kind::Server);
        assert_eq!(numbers(&after), [2, 1, 3]);
    }

    #[test]
    fn inline_bytes_are_a_part_of_all() {
        let found = connections(
            "connection read_bytes write_bytes inline_received_bytes inline_sent_bytes\n\
             1 1000 2000 600 400\n2 0 0 0 0\n3 - - - -\n",
        );
        assert_eq!(found[0].inline_percent(), Some(25));
        assert_eq!(found[1].inline_percent(), None);
        assert_eq!(found[2].inline_percent(), None);
    }

    #[test]
    fn memory_is_the_sum_of_three_columns() {
        let mut found = connections(
            "connection receives reading_kib reply_kib age_seconds\n1 13 0 0 9\n2 13 4 8 7\n3 - - - 8\n",
        );
        assert_eq!(found[1].memory_kib(), Some(64));
        assert_eq!(found[2].memory_kib(), None);
        sort(&mut found, Sort::Memory, Kind::Server);
        assert_eq!(numbers(&found), [2, 1, 3]);
        sort(&mut found, Sort::Age, Kind::Server);
        assert_eq!(numbers(&found), [1, 3, 2]);
    }
}

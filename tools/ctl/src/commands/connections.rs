// SPDX-License-Identifier: GPL-2.0

//! `connections`: the connections of all network namespaces.

use crate::{
    answer::Answer,
    cli::{
        self,
        View, //
    },
    columns::Columns,
    connection::{
        self,
        Connection,
        Rates,
        Sort, //
    },
    error::Result,
    human::{
        self,
        or_dash, //
    },
    latency::{
        Bound,
        PERCENTILES, //
    },
    system::System, //
};
use serde_json::{
    json,
    Value, //
};
use std::{
    thread,
    time::{
        Duration,
        Instant, //
    },
};

/// Seconds over which rates are measured if the order needs them.
const INTERVAL: f64 = 1.0;

/// Lists the connections.
pub(crate) fn run(args: &cli::Connections, system: &System) -> Result<Answer> {
    let view = args.view;
    connection::check_order(system, view.sort)?;
    let interval = args
        .interval
        .or((view.sort == Sort::Rate).then_some(INTERVAL));
    let mut connections = match interval {
        Some(seconds) => measured(system, view, seconds)?,
        None => Connection::all(system, view.peer)?,
    };
    connection::sort(&mut connections, view.sort, view.latency);
    Ok(Answer::new(
        table(&connections, view).text(),
        json!({"connections": list(&connections), "interval_seconds": interval}),
    ))
}

/// Returns the connections with their rates over `seconds`.
pub(crate) fn measured(system: &System, view: View, seconds: f64) -> Result<Vec<Connection>> {
    let before = Connection::all(system, view.peer)?;
    let start = Instant::now();
    thread::sleep(Duration::from_secs_f64(seconds));
    let mut after = Connection::all(system, view.peer)?;
    connection::measure(&before, &mut after, start.elapsed().as_secs_f64());
    Ok(after)
}

/// Returns the JSON array.
pub(crate) fn list(connections: &[Connection]) -> Vec<Value> {
    connections.iter().map(Connection::json).collect()
}

/// Returns the table for people.
pub(crate) fn table(connections: &[Connection], view: View) -> Columns {
    let mut columns = Columns::new(&[
        ">CONNECTION",
        "PEER",
        "DEVICE",
        ">LANE",
        "PHASE",
        ">AGE",
        ">MEMORY",
        ">CALLS",
        ">CALLS/S",
        ">IN/S",
        ">OUT/S",
        ">INLINE",
        ">UNANSWERED",
        ">CREDITS",
        ">BEHIND",
        ">p50",
        ">p99",
        ">p99.9",
    ]);
    for connection in connections {
        columns.push(line(connection, view));
    }
    columns
}

/// Returns the line of a connection.
fn line(connection: &Connection, view: View) -> Vec<String> {
    let row = &connection.row;
    let text = |title| or_dash(row.text(title), str::to_owned);
    let rate = |rate: fn(Rates) -> Option<f64>, text: fn(u64) -> String| {
        // Rates are far below 2^53.
        or_dash(connection.rates.and_then(rate), |rate| {
            text(rate.round() as u64)
        })
    };
    let mut line = vec![
        text("connection"),
        text("peer"),
        text("device"),
        text("lane"),
        text("phase"),
        or_dash(row.number("age_seconds"), human::seconds),
        or_dash(connection.memory_kib(), human::kib),
        or_dash(row.number("calls"), human::count),
        rate(|rates| rates.calls, human::count),
        rate(|rates| rates.read_bytes, human::bytes),
        rate(|rates| rates.write_bytes, human::bytes),
        or_dash(connection.inline_percent(), |percent| {
            format!("{percent} %")
        }),
        text("unanswered"),
        text("credits"),
        or_dash(row.number("behind_seconds"), human::seconds),
    ];
    for (_, _, of_thousand) in PERCENTILES {
        let bound = connection.percentile(view.latency, of_thousand);
        line.push(or_dash(bound, Bound::text));
    }
    line
}

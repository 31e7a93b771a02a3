// SPDX-License-Identifier: GPL-2.0

//! `closes`: the connections that closed last.

use crate::{
    answer::Answer,
    cli,
    close_reason,
    columns::Columns,
    error::Result,
    human::{
        self,
        or_dash, //
    },
    system::System,
    table::Row, //
};
use serde_json::{
    json,
    Value, //
};

/// Lists the closes, the oldest of each device first, and what to do about abnormal ones.
pub(crate) fn run(args: &cli::Closes, system: &System) -> Result<Answer> {
    let table = system.table_with("closes", &["peer", "reason"])?;
    let selected = table.rows.iter().filter(|row| {
        let peer = row.text("peer").unwrap_or("");
        args.peer.is_none_or(|filter| filter.matches(peer)) && (!args.abnormal || is_abnormal(row))
    });
    let rows: Vec<&Row> = selected.collect();
    let list: Vec<Value> = rows.iter().map(|row| json(row)).collect();
    Ok(Answer::new(text(&rows), json!({"closes": list})))
}

/// Returns the reason of a close.
fn reason(row: &Row) -> &str {
    row.text("reason").unwrap_or("")
}

/// Returns true if neither the peer nor nfsd nor an administrator wanted the close.
fn is_abnormal(row: &Row) -> bool {
    close_reason::is_abnormal(reason(row))
}

/// Returns the text for people.
fn text(rows: &[&Row]) -> String {
    let mut columns = Columns::new(&[">AGO", "DEVICE", ">CONNECTION", "PEER", ">NO", "REASON"]);
    for row in rows {
        let known = close_reason::find(reason(row));
        let field = |title| or_dash(row.text(title), str::to_owned);
        columns.push(vec![
            or_dash(row.number("seconds_ago"), human::seconds),
            field("device"),
            field("connection"),
            field("peer"),
            or_dash(known, |known| known.number.to_string()),
            field("reason"),
        ]);
    }
    columns.text() + &advice(rows)
}

/// Returns a line for each abnormal reason among the closes.
fn advice(rows: &[&Row]) -> String {
    let mut known: Vec<_> = rows
        .iter()
        .filter_map(|row| close_reason::find(reason(row)))
        .collect();
    known.sort_by_key(|known| known.number);
    known.dedup_by_key(|known| known.number);
    let lines = known
        .iter()
        .filter_map(|known| Some(format!("{:>2}: {}\n", known.number, known.advice?)));
    lines.collect()
}

/// Returns the JSON object of a close.
fn json(row: &Row) -> Value {
    let known = close_reason::find(reason(row));
    json!({
        "columns": row.json(),
        "reason_number": known.map(|known| known.number),
        "abnormal": is_abnormal(row),
        "advice": known.and_then(|known| known.advice),
    })
}

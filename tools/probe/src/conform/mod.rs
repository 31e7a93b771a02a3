// SPDX-License-Identifier: GPL-2.0

//! `conform`: checks a server against RFC 8166, 8167, 8267 and 8797, with one row for each
//! requirement.
//!
//! A row is either one message with the reactions that the RFC allows ([`messages`]) or a script.
//! Each row uses its own connections. Every reaction except the end of the connection includes that
//! the connection stays.

mod agreement;
mod callbacks;
mod calls;
mod credits;
mod directions;
mod eligibility;
mod endings;
mod headers;
mod invalidation;
mod links;
mod memory;
mod messages;
mod replies;
mod report;
mod row;
mod seen;
mod tried;
mod version3;

use self::{
    report::Report,
    row::{Bench, Row}, //
};
use crate::{
    args::Args,
    error::{Error, Result},
    peer, //
};

/// Options of the command.
pub(crate) const OPTIONS: &[&str] = &[
    "file",
    "call-limit",
    "part",
    "only",
    "pause",
    "json",
    "quick",
];

/// All rows, by part.
const PARTS: &[(&str, &[Row])] = &[
    ("messages", messages::ROWS),
    ("headers", headers::ROWS),
    ("calls", calls::ROWS),
    ("replies", replies::ROWS),
    ("links", links::ROWS),
    ("version3", version3::ROWS),
    ("eligibility", eligibility::ROWS),
    ("agreement", agreement::ROWS),
    ("invalidation", invalidation::ROWS),
    ("credits", credits::ROWS),
    ("callbacks", callbacks::ROWS),
    ("directions", directions::ROWS),
    ("endings", endings::ROWS),
];

/// Returns an error for an unknown part.
fn check_part(part: &str) -> Result {
    match PARTS.iter().any(|(name, _)| *name == part) {
        true => Ok(()),
        false => Err(Error::new(format!("--part: unknown value \"{part}\""))),
    }
}

/// Returns the rows of `part`, or of all parts.
fn rows(part: Option<&str>) -> impl Iterator<Item = &'static Row> + '_ {
    let wanted = move |name: &str| part.is_none_or(|part| part == name);
    PARTS
        .iter()
        .filter(move |(name, _)| wanted(name))
        .flat_map(|(_, rows)| *rows)
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let bench = Bench {
        target: args.target()?,
        file: args.text("file"),
        call_limit: args
            .text("call-limit")
            .map(|_| args.value("call-limit", 0))
            .transpose()?,
        is_quick: args.quick(),
    };
    args.text("part").map_or(Ok(()), check_part)?;
    peer::set_pause(args.value("pause", 0)?);
    // A server that cannot be reached violates nothing.
    let mut peer = bench.first_peer()?;
    if let Some(file) = bench.file {
        replies::fill_file(&mut peer, file)?;
    }
    drop(peer);
    let only = args.text("only").unwrap_or_default();
    let mut report = Report::new(args.json());
    for row in rows(args.text("part")).filter(|row| row.name.contains(only)) {
        report.add(row, &row.try_on(&bench));
    }
    report.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = rows(None).map(|row| row.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_row_is_in_the_documentation() {
        let text = include_str!("../../../../Documentation/protocol.rst");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let missing: Vec<&str> = rows(None)
            .map(|row| row.name)
            .filter(|name| !text.contains(&format!("*{name}*")))
            .collect();
        assert_eq!(missing, [""; 0]);
    }
}

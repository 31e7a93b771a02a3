// SPDX-License-Identifier: GPL-2.0

//! `conform`: checks a server against RFC 8166, 8167, 8267 and 8797, with one row for each
//! requirement.
//!
//! A row is either one message with the reactions that the RFC allows ([`messages`]) or a script.
//! Each row uses its own connections. Every reaction except the end of the connection includes that
//! the connection stays.

mod agreement;
mod bench;
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
mod props;
mod replies;
mod report;
mod row;
mod seen;
mod tried;
mod version3;

use self::{
    bench::Bench,
    report::Report,
    row::Row, //
};
use crate::{
    error::Result,
    output::{Format, Output},
    run::Run,
    target::Server, //
};
use clap::{builder::PossibleValuesParser, value_parser};
use std::time::Duration;

/// Check a server against RFC 8166, 8167, 8267 and 8797, and print a table
///
/// The exit status is 0 if a requirement is met and none is violated, and 3 if none was tried or this
/// side has failed. Rows that need an optional feature are not tried without it: NFS version 3 that
/// accepts handles of version 4; callbacks about locks (OPEN4_RESULT_MAY_NOTIFY_LOCK); READ_PLUS.
#[derive(Debug, clap::Args)]
pub(crate) struct Conform {
    #[command(flatten)]
    server: Server,
    /// File below the root of NFS version 4, in a directory where links can be made; it is
    /// overwritten. Rows that need a file are not tried without it
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Bytes of the longest Call that the server accepts. Rows that need it are not tried without it
    #[arg(long, value_name = "BYTES", value_parser = value_parser!(u32).range(1..))]
    call_limit: Option<u32>,
    /// Only this part of the rows
    #[arg(
        long,
        value_name = "PART",
        value_parser = PossibleValuesParser::new(PARTS.iter().map(|(name, _)| *name))
    )]
    part: Option<String>,
    /// Only rows whose name contains TEXT
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    only: String,
    /// Milliseconds to wait after connecting, before the first message
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pause: u64,
    /// Try 12 of the 256 size codes
    #[arg(long)]
    quick: bool,
    /// The same as --format json
    #[arg(long)]
    json: bool,
}

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

/// Returns the rows of `part`, or of all parts.
fn rows(part: Option<&str>) -> impl Iterator<Item = &'static Row> + '_ {
    let wanted = move |name: &str| part.is_none_or(|part| part == name);
    PARTS
        .iter()
        .filter(move |(name, _)| wanted(name))
        .flat_map(|(_, rows)| *rows)
}

impl Run for Conform {
    fn format(&self) -> Format {
        if self.json {
            Format::Json
        } else {
            self.server.format()
        }
    }

    fn run(&self, output: &mut Output) -> Result {
        let mut target = self.server.target()?;
        target.pause = Duration::from_millis(self.pause);
        let mut bench = Bench {
            target,
            file: self.file.as_deref(),
            call_limit: self.call_limit,
            is_quick: self.quick,
        };
        // A server that cannot be reached violates nothing.
        let mut peer = bench.first_peer()?;
        if let Some(file) = bench.file {
            replies::fill_file(&mut peer, file)?;
        }
        drop(peer);
        let mut report = Report::new(output);
        let chosen = rows(self.part.as_deref()).filter(|row| row.name.contains(&self.only));
        for row in chosen {
            report.add(row, &row.try_on(&bench));
        }
        report.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = rows(None).map(|row| row.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// Returns the sections in the first column of the tables of protocol.rst, as [`Row::source`] has
    /// them. A section without an RFC is one of the RFC in the title above.
    fn documented() -> BTreeSet<String> {
        let text = include_str!("../../../../Documentation/protocol.rst");
        let (mut title, mut sections) = ("", BTreeSet::new());
        for line in text.lines() {
            if let Some((_, rfc)) = line.split_once(" (RFC ") {
                title = rfc.get(..4).unwrap_or_default();
            }
            let cell = line.split_once("  ").map_or("", |(cell, _)| cell);
            let mut rfc = title;
            for part in cell.trim_end_matches(';').split(", ") {
                match part.strip_prefix("RFC ") {
                    Some(other) => rfc = other,
                    None => drop(sections.insert(format!("RFC {rfc}, {part}"))),
                }
            }
        }
        sections
    }

    #[test]
    fn each_section_is_in_the_documentation() {
        let sections = documented();
        let missing: BTreeSet<&str> = rows(None)
            .map(|row| row.source)
            .filter(|source| *source != "no RFC" && !sections.contains(*source))
            .collect();
        assert_eq!(missing, BTreeSet::new());
    }
}

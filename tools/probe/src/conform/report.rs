// SPDX-License-Identifier: GPL-2.0

//! Prints the outcome of the rows as a table or as JSON.

use super::row::{Outcome, Row};
use crate::error::{Error, Result};
use serde_json::{json, Value};

/// The number of rows per outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    met: usize,
    violated: usize,
    not_tried: usize,
}

/// A report under construction.
pub(super) struct Report {
    json: bool,
    rows: Vec<Value>,
    count: Count,
}

impl Report {
    /// Creates a report, which prints JSON when it is finished or a table row by row.
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            rows: Vec::new(),
            count: Count::default(),
        }
    }

    /// Adds the outcome of `row`.
    pub(super) fn add(&mut self, row: &Row, outcome: &Outcome) {
        let (word, detail) = match outcome {
            Outcome::Met(seen) => (
                "met",
                seen.map_or_else(String::new, |seen| seen.to_string()),
            ),
            Outcome::Violated(detail) => ("violated", detail.clone()),
            Outcome::NotTried(detail) => ("not tried", detail.clone()),
        };
        match outcome {
            Outcome::Met(_) => self.count.met += 1,
            Outcome::Violated(_) => self.count.violated += 1,
            Outcome::NotTried(_) => self.count.not_tried += 1,
        }
        if self.json {
            self.rows.push(json!({
                "source": row.source, "name": row.name, "outcome": word, "detail": detail,
            }));
            return;
        }
        let colon = if detail.is_empty() { "" } else { ": " };
        println!("{:<16} {:<46} {word}{colon}{detail}", row.source, row.name);
    }

    /// Finishes the report.
    ///
    /// # Errors
    ///
    /// Returns an error if a row was violated or none was met.
    pub(super) fn finish(self) -> Result {
        let Count {
            met,
            violated,
            not_tried,
        } = self.count;
        let summary = format!("{met} met, {violated} violated, {not_tried} not tried");
        if self.json {
            let report = json!({
                "rows": self.rows, "met": met, "violated": violated, "not_tried": not_tried,
            });
            println!("{report:#}");
        } else {
            println!("{summary}");
        }
        match (violated, met) {
            (0, 1..) => Ok(()),
            _ => Err(Error::new(summary)),
        }
    }
}

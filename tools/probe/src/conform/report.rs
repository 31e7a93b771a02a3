// SPDX-License-Identifier: GPL-2.0

//! What is said about the rows, to people or to programs.

use super::row::{Outcome, Row};
use crate::error::{Error, Result};
use serde_json::{json, Value};

/// How many rows came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    met: usize,
    violated: usize,
    not_tried: usize,
}

/// A report under way.
pub(super) struct Report {
    json: bool,
    rows: Vec<Value>,
    count: Count,
}

impl Report {
    /// Begins one, as JSON at its end or as a table at once.
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            rows: Vec::new(),
            count: Count::default(),
        }
    }

    /// Adds what came of `row`.
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

    /// Ends it.
    ///
    /// # Errors
    ///
    /// If a row was violated, or none was tried.
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

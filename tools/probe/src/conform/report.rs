// SPDX-License-Identifier: GPL-2.0

//! Prints the outcome of the rows.

use super::row::{Outcome, Row};
use crate::{
    error::{Error, Result},
    output::Output, //
};
use serde_json::{json, Value};
use std::fmt;

/// The number of rows per outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    met: usize,
    violated: usize,
    not_tried: usize,
    /// Those of `not_tried` that an error of this side prevented.
    failed: usize,
}

/// A report under construction.
pub(super) struct Report<'a> {
    output: &'a mut Output,
    rows: Vec<Value>,
    count: Count,
}

impl<'a> Report<'a> {
    /// Creates a report.
    pub(super) fn new(output: &'a mut Output) -> Self {
        Self {
            output,
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
            Outcome::NotTried(detail) | Outcome::Failed(detail) => ("not tried", detail.clone()),
        };
        match outcome {
            Outcome::Met(_) => self.count.met += 1,
            Outcome::Violated(_) => self.count.violated += 1,
            Outcome::NotTried(_) => self.count.not_tried += 1,
            Outcome::Failed(_) => {
                self.count.not_tried += 1;
                self.count.failed += 1;
            }
        }
        self.rows.push(json!({
            "source": row.source, "name": row.name, "outcome": word, "detail": detail,
        }));
        let colon = if detail.is_empty() { "" } else { ": " };
        self.output.line(format_args!(
            "{:<16} {:<46} {word}{colon}{detail}",
            row.source, row.name
        ));
    }

    /// Finishes the report.
    ///
    /// # Errors
    ///
    /// Returns an error if a row was violated, if none was met, or if this side has failed.
    pub(super) fn finish(self) -> Result {
        let Self {
            output,
            rows,
            count,
        } = self;
        let summary = count.to_string();
        output.line(&summary);
        output.set("rows", rows);
        output.set("met", count.met);
        output.set("violated", count.violated);
        output.set("not_tried", count.not_tried);
        match count {
            Count { violated: 1.., .. } => Err(Error::new(summary)),
            Count { met: 0, .. } | Count { failed: 1.., .. } => Err(Error::unavailable(summary)),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} met, {} violated, {} not tried",
            self.met, self.violated, self.not_tried
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::Outcome as Verdict, output::Format};

    #[test]
    fn a_report_with_errors_of_this_side_is_no_verdict() {
        let verdict = |outcomes: &[Outcome]| {
            let mut output = Output::new("conform", Format::Json);
            let mut report = Report::new(&mut output);
            let row = Row::script("no RFC", "a row", |_| Ok(()));
            outcomes
                .iter()
                .for_each(|outcome| report.add(&row, outcome));
            Verdict::of(&report.finish())
        };
        let met = Outcome::Met(None);
        let failed = Outcome::Failed("EMFILE".to_owned());
        let missing = Outcome::NotTried("no file".to_owned());
        let violated = Outcome::Violated("wrong".to_owned());
        assert_eq!(verdict(&[met.clone(), missing.clone()]), Verdict::Good);
        assert_eq!(verdict(&[met.clone(), failed.clone()]), Verdict::Untested);
        assert_eq!(verdict(&[missing]), Verdict::Untested);
        assert_eq!(verdict(&[met, failed, violated]), Verdict::Finding);
    }
}

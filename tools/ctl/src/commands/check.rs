// SPDX-License-Identifier: GPL-2.0

//! `check`: what is wrong, and what to do.

use crate::{
    answer::Answer,
    checks,
    finding::{
        self,
        Finding, //
    },
    system::System, //
};
use serde_json::{
    json,
    Value, //
};

/// Checks the host.
pub(crate) fn run(system: &System) -> Answer {
    let findings = checks::all(system);
    answer(&findings, &checks::good(system))
}

/// Returns the answer that lists findings, or says `good` if there are none.
pub(crate) fn answer(findings: &[Finding], good: &str) -> Answer {
    let level = finding::worst(findings);
    let mut text: String = findings
        .iter()
        .map(|finding| finding.line() + "\n")
        .collect();
    if findings.is_empty() {
        text = format!("good     {good}\n");
    }
    let list: Vec<Value> = findings.iter().map(Finding::json).collect();
    let json = json!({"level": level.name(), "findings": list});
    Answer::with_status(text, json, level.status())
}

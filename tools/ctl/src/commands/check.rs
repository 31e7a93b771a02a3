// SPDX-License-Identifier: GPL-2.0

//! `check`: what is wrong, and what to do.

use crate::{
    answer::Answer,
    checks,
    cli,
    fabric,
    finding::{
        self,
        Finding, //
    },
    human::plural,
    system::System, //
};
use serde_json::{
    json,
    Value, //
};
use std::{
    thread,
    time::Duration, //
};

/// Checks the host once, or also what it counts between two looks; `next` is the host at the second.
pub(crate) fn command(args: &cli::Check, system: &System, next: &System) -> Answer {
    match args.watch {
        Some(seconds) => watch(seconds, system, next),
        None => run(system),
    }
}

/// Looks twice, `seconds` apart.
fn watch(seconds: f64, system: &System, next: &System) -> Answer {
    let before = fabric::look(system);
    thread::sleep(Duration::from_secs_f64(seconds));
    let grown = fabric::growth(&before, &fabric::look(next));
    let mut findings = checks::now(next);
    findings.extend(checks::watch::findings(next, &grown, seconds));
    let good = format!(
        "{}, and {} counted no fault within {seconds} s",
        checks::good(next),
        plural(grown.len() as u64, "port")
    );
    let mut answer = answer(&checks::sorted(findings), &good);
    let ports: Vec<Value> = grown.iter().map(fabric::Port::json).collect();
    answer
        .json
        .insert("interval_seconds".to_owned(), seconds.into());
    answer.json.insert("grown".to_owned(), ports.into());
    answer
}

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

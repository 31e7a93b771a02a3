// SPDX-License-Identifier: GPL-2.0

//! The subjects of `check`. Each function returns the findings of one subject.
//!
//! Taints of the kernel are no finding: each module from elsewhere sets one.

mod adapter;
mod fabric;
mod load;
pub(crate) mod module;
mod service;
pub(crate) mod watch;

use crate::{
    finding::{
        Finding,
        Level, //
    },
    human::plural,
    system::{
        Server,
        System, //
    },
    table::Row,
};

/// Returns all findings, the worst first.
pub(crate) fn all(system: &System) -> Vec<Finding> {
    let mut findings = now(system);
    findings.extend(fabric::links(system));
    sorted(findings)
}

/// Returns the findings about the present state of the host. What links have counted since it has
/// started is not among them.
pub(crate) fn now(system: &System) -> Vec<Finding> {
    let mut findings = module::findings(system);
    findings.extend(service::findings(system));
    if system.server() == Server::Ours {
        findings.extend(load::findings(system));
    }
    findings.extend(fabric::findings(system));
    findings.extend(adapter::findings(system));
    findings
}

/// Returns findings without repeats, the worst first.
pub(crate) fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings.dedup_by(|one, other| one.line() == other.line());
    findings
}

/// Returns the sentence for a host without findings.
pub(crate) fn good(system: &System) -> String {
    let version = system
        .version()
        .unwrap_or_else(|| "without a version".to_owned());
    let number = |name| {
        system
            .values()
            .ok()
            .and_then(|values| values.get(name))
            .unwrap_or(0)
    };
    format!(
        "svcrdma {version} serves {} on {}",
        plural(number("connections"), "connection"),
        plural(number("listeners"), "listener")
    )
}

/// Returns the connections of some lines as a text: `connection 7 of 10.0.0.7:40001`.
fn named(rows: &[&Row]) -> String {
    const MOST: usize = 3;
    let named = rows.iter().take(MOST).map(|row| {
        let number = row.text("connection").unwrap_or("-");
        format!("{number} of {}", row.text("peer").unwrap_or("-"))
    });
    let named: Vec<String> = named.collect();
    let word = if rows.len() == 1 {
        "connection"
    } else {
        "connections"
    };
    let rest = match rows.len().saturating_sub(MOST) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!("{word} {}{rest}", named.join(", "))
}

/// Creates the finding of something that stops the service.
pub(crate) fn broken(
    id: &'static str,
    text: impl Into<String>,
    action: impl Into<String>,
) -> Finding {
    Finding::new(Level::Broken, id, text, action)
}

/// Returns a finding unless root runs the program. `text` says what only root can do.
pub(crate) fn rights(text: &str) -> Option<Finding> {
    let is_root = rustix::process::geteuid().is_root();
    (!is_root).then(|| Finding::new(Level::Unknown, "no-rights", text, "run this as root"))
}

/// Creates the finding of something that impairs the service.
fn warning(id: &'static str, text: impl Into<String>, action: impl Into<String>) -> Finding {
    Finding::new(Level::Warning, id, text, action)
}

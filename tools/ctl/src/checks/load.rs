// SPDX-License-Identifier: GPL-2.0

//! The load: closed connections, memory, and what the module shows of them.

use super::warning;
use crate::{
    close_reason,
    counter::Values,
    error::Kind,
    finding::{
        Finding,
        Level, //
    },
    human::{
        self,
        plural, //
    },
    system::System,
    table::{
        Row,
        Table, //
    },
};

/// Seconds for which an abnormal close is a finding.
const RECENT: u64 = 3600;
/// The share of the host's memory that should be available, in percent.
const AVAILABLE: u64 = 5;

/// Returns the findings of a host on which svcrdma serves.
pub(crate) fn findings(system: &System) -> Vec<Finding> {
    let mut findings = Vec::new();
    let values = match system.values() {
        Ok(values) => Some(values),
        Err(error) => {
            findings.push(Finding::of_error(Level::Unknown, &error));
            None
        }
    };
    findings.extend(closes(system, values.as_ref()));
    findings.extend(devices(system, values.as_ref()));
    findings.extend(host_memory(system));
    findings
}

/// Reads a table, or returns why there is none. Without debugfs the service is not impaired.
fn table(system: &System, name: &str) -> Result<Table, Finding> {
    system.table(name).map_err(|error| {
        debug_assert_eq!(error.kind, Kind::Unknown);
        let is_rights = error.id == "no-rights";
        let level = if is_rights {
            Level::Unknown
        } else {
            Level::Warning
        };
        match error.id {
            "no-debugfs" | "no-rights" => {
                let text = error.text.replace(&format!("/svcrdma/{name}"), "/svcrdma");
                Finding::new(level, error.id, text, error.action)
            }
            _ => Finding::of_error(level, &error),
        }
    })
}

/// Checks that no connection has closed abnormally in the last hour.
fn closes(system: &System, values: Option<&Values>) -> Vec<Finding> {
    let table = match table(system, "closes") {
        Ok(table) => table,
        Err(finding) => {
            let total = values
                .and_then(|values| values.get("closed_abnormally"))
                .unwrap_or(0);
            let counted = (total > 0).then(|| {
                let text = format!(
                    "{} closed abnormally since svcrdma was loaded",
                    plural(total, "connection")
                );
                warning(
                    "closes-abnormal",
                    text,
                    "look for closed: in the kernel log",
                )
            });
            return counted.into_iter().chain([finding]).collect();
        }
    };
    let is_recent = |row: &&Row| row.number("seconds_ago").is_none_or(|ago| ago <= RECENT);
    let reason = |row: &Row| row.text("reason").unwrap_or("").to_owned();
    let recent: Vec<&Row> = table.rows.iter().filter(is_recent).collect();
    let abnormal: Vec<&&Row> = recent
        .iter()
        .filter(|row| close_reason::is_abnormal(&reason(row)))
        .collect();
    let Some(last) = abnormal.iter().min_by_key(|row| row.number("seconds_ago")) else {
        return Vec::new();
    };
    let text = format!(
        "{} closed abnormally in the last hour, the last one because {}",
        plural(abnormal.len() as u64, "connection"),
        reason(last)
    );
    let advice = close_reason::find(&reason(last)).and_then(|known| known.advice);
    vec![warning(
        "closes-abnormal",
        text,
        advice.unwrap_or("svcrdmactl closes"),
    )]
}

/// Checks that Calls do not wait for memory and that no limit of a device is reached.
fn devices(system: &System, values: Option<&Values>) -> Vec<Finding> {
    let table = match table(system, "devices") {
        Ok(table) => table,
        Err(finding) => return vec![finding],
    };
    let rows = table.rows.iter();
    rows.flat_map(|row| device(row, values)).collect()
}

/// Returns the findings of the line of a device.
fn device(row: &Row, values: Option<&Values>) -> Vec<Finding> {
    let name = row.text("device").unwrap_or("-");
    let has_reached = |title, setting| {
        let limit = values.and_then(|values| values.get(setting));
        row.number(title)
            .zip(limit)
            .is_some_and(|(number, limit)| number >= limit)
    };
    let mut findings = Vec::new();
    if let Some(waiting) = row.number("calls_waiting").filter(|waiting| *waiting > 0) {
        let text = format!("{name}: {} for pages", plural_wait(waiting));
        findings.push(warning(
            "memory-shortage",
            text,
            "look for a large reading_kib in svcrdmactl connections, or raise read_pages_per_device",
        ));
    }
    if has_reached("reply_pages", "reply_pages_per_device") {
        let text = format!("{name}: Replies hold all pages that they may");
        findings.push(warning(
            "memory-shortage",
            text,
            "look for a large reply_kib in svcrdmactl connections, or raise reply_pages_per_device",
        ));
    }
    if has_reached("receives", "receive_buffers_per_device") {
        let text = format!("{name}: all Receive buffers are used, so that credits do not grow");
        findings.push(warning(
            "receive-buffers",
            text,
            "raise receive_buffers_per_device",
        ));
    }
    findings
}

/// Returns `1 Call waits` or `N Calls wait`.
fn plural_wait(calls: u64) -> String {
    let verb = if calls == 1 { "waits" } else { "wait" };
    format!("{} {verb}", plural(calls, "Call"))
}

/// Checks that the host has memory.
fn host_memory(system: &System) -> Option<Finding> {
    let text = system.root.read("/proc/meminfo").ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let (total, available) = (field("MemTotal")?, field("MemAvailable")?);
    (available < total / 100 * AVAILABLE).then(|| {
        let text = format!(
            "the host has {} of {} available",
            human::kib(available),
            human::kib(total)
        );
        warning(
            "host-memory",
            text,
            "find what uses it, or lower the settings *_per_device",
        )
    })
}

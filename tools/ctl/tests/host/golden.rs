// SPDX-License-Identifier: GPL-2.0

//! The JSON of each command on one host, as the golden files in the folder `snapshots` have it, and
//! the page that describes it.
//!
//! A change of keys that is meant takes a change of the golden files, which `INSTA_UPDATE=always`
//! writes, and of the page. Keys that are renamed or removed take a new schema, too.

use crate::{
    host::{
        Host,
        SYSCTL, //
    },
    watch, //
};
use serde_json::{
    Map,
    Value, //
};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt, //
};

const PAGE: &str = include_str!("../../../../Documentation/svcrdmactl-json.rst");
/// Objects whose keys are names of the host or of the module.
const OPEN: [&str; 4] = ["columns", "counters", "kept", "labels"];
/// Keys with texts for people.
const PROSE: [&str; 6] = ["action", "advice", "help", "page", "script", "text"];
/// The metrics of the golden file.
const METRICS: [&str; 4] = [
    "svcrdma_up",
    "svcrdma_info",
    "svcrdma_calls_total",
    "svcrdma_latency_seconds",
];
/// A counter that grows between two looks.
const OUT_OF_SEQUENCE: &str = "mlx5_0/ports/1/hw_counters/out_of_sequence";
/// Names, command lines and exit statuses.
const COMMANDS: &[(&str, &[&str], i32)] = &[
    ("status", &["status"], 0),
    ("connections", &["connections", "--sort", "latency"], 0),
    ("top", &["top", "--once", "--interval", "0.1"], 0),
    ("devices", &["devices"], 0),
    ("listeners", &["listeners"], 0),
    ("listener-list", &["listen", "list"], 0),
    ("listener-add", &["listen", "add", "rdma"], 0),
    ("closes", &["closes"], 0),
    (
        "settings-get",
        &["settings", "get", "credits", "accept_from"],
        0,
    ),
    ("settings-explain", &["settings", "explain", "credits"], 0),
    ("settings-set", &["settings", "set", "credits", "64"], 0),
    ("settings-persist", &["settings", "persist"], 0),
    ("check", &["check"], 1),
    (
        "check-watch",
        &["check", "--watch", "0.1", "--next", "next"],
        1,
    ),
    ("metrics", &["metrics", "--output", "svcrdma.prom"], 0),
    ("report", &["report", "--output", "r.tar.gz"], 0),
    ("upgrade-check", &["upgrade", "--check"], 0),
    (
        "upgrade",
        &[
            "upgrade",
            "lib/modules/7.3.4+deb13-amd64/updates/svcrdma/svcrdma.ko.xz",
        ],
        0,
    ),
    ("completion", &["completion", "bash"], 0),
    ("man", &["man"], 0),
    ("error", &["settings", "set", "credits", "5000"], 1),
];

/// Returns what each command prints on a host on which svcrdma serves and a connection has closed.
fn answers() -> Vec<(&'static str, Value)> {
    let host = Host::serving();
    host.add_latency();
    host.replace("sys/kernel/debug/svcrdma/closes", " 9000 ", " 90 ");
    host.write(&format!("{SYSCTL}/host_listeners"), "2\n");
    host.write(&format!("{SYSCTL}/latency_server"), "1 2 4\n");
    let program = "usr/libexec/svcrdma/upgrade";
    host.write(program, "#!/bin/sh\necho replaced\n");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(host.path(program), executable).expect("permissions");
    // The second look is at a tree in that of the host.
    let later = Host::serving();
    later.write(&format!("sys/class/infiniband/{OUT_OF_SEQUENCE}"), "7\n");
    std::os::unix::fs::symlink(later.path(""), host.path("next")).expect("a link");
    let run = |args: &[&str], status| host.run(&[args, &["--json"]].concat()).exits(status).json();
    let answers = COMMANDS
        .iter()
        .map(|(name, args, status)| (*name, run(args, *status)));
    let watched = watch::objects(&watch::host(&watch::written()), &[]);
    answers.chain([("watch", watched.into())]).collect()
}

/// Returns JSON for people: a line for each key, and an array of numbers or texts in one line.
pub(crate) fn pretty(value: &Value, indent: &str) -> String {
    let deeper = format!("{indent}  ");
    let is_flat = |value: &Value| !value.is_array() && !value.is_object();
    let lines: Vec<String> = match value {
        Value::Object(map) if !map.is_empty() => {
            let lines = map.iter();
            lines
                .map(|(key, value)| format!("{deeper}{key:?}: {}", pretty(value, &deeper)))
                .collect()
        }
        Value::Array(list) if !list.iter().all(is_flat) => list
            .iter()
            .map(|value| format!("{deeper}{}", pretty(value, &deeper)))
            .collect(),
        _ => return value.to_string(),
    };
    let (open, close) = if value.is_object() {
        ('{', '}')
    } else {
        ('[', ']')
    };
    format!("{open}\n{}\n{indent}{close}", lines.join(",\n"))
}

/// Replaces what differs from run to run, and prose, which has no part in the format.
fn settle(value: &mut Value) {
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(key, value)| {
            if PROSE.contains(&key.as_str()) && value.is_string() {
                *value = "...".into();
            }
            if key == "interval_seconds" && value.is_number() || key == "time" {
                *value = "...".into();
            }
            settle(value);
        }),
        Value::Array(list) => list.iter_mut().for_each(settle),
        _ => {}
    }
}

/// Leaves one metric of each kind.
fn choose_metrics(answer: &mut Value) {
    if let Some(Value::Array(metrics)) = answer.get_mut("metrics") {
        metrics.retain(|metric| METRICS.iter().any(|name| metric["name"] == *name));
    }
}

#[test]
fn json_is_that_of_the_golden_files() {
    for (name, mut answer) in answers() {
        settle(&mut answer);
        choose_metrics(&mut answer);
        insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(name, pretty(&answer, ""));
        });
    }
}

/// Collects the keys of all objects in `value`.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    let open = |map: &Map<String, Value>, found: &mut BTreeSet<String>| {
        for (key, value) in map {
            found.insert(key.clone());
            if !OPEN.contains(&key.as_str()) {
                keys(value, found);
            }
        }
    };
    match value {
        Value::Object(map) => open(map, found),
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn the_page_has_all_keys_and_no_others() {
    let mut found = BTreeSet::new();
    answers()
        .iter()
        .for_each(|(_, answer)| keys(answer, &mut found));
    // The first cell of each line of a table, which has one key or several.
    let lines = PAGE.lines().filter(|line| line.starts_with("``"));
    let cells = lines.filter_map(|line| Some(line.split_once("``  ")?.0));
    let described: BTreeSet<String> = cells
        .flat_map(|cell| cell.split(", "))
        .map(|key| key.trim_matches('`').to_owned())
        .collect();
    assert_eq!(found, described);
}

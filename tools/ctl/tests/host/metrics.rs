// SPDX-License-Identifier: GPL-2.0

//! `metrics`.

use crate::host::{
    Host,
    SYSCTL, //
};
use std::{
    collections::HashSet,
    os::unix::fs::PermissionsExt, //
};

/// Checks that each sample follows the HELP and TYPE lines of its metric, which are there once.
fn check_format(text: &str) {
    let mut seen = HashSet::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a text");
            assert!(seen.insert(name.to_owned()) && !help.is_empty(), "{line}");
            current = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, class) = rest.split_once(' ').expect("a type");
            assert_eq!(name, current);
            assert!(
                ["counter", "gauge", "histogram", "untyped"].contains(&class),
                "{line}"
            );
            assert_eq!(class == "counter", name.ends_with("_total"), "{line}");
        } else {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            assert!(name.starts_with(&current), "{line}");
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let rest = name.trim_start_matches(is_name);
            assert!(
                rest.is_empty() || rest.starts_with('{') && rest.ends_with("\"}"),
                "{line}"
            );
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    assert!(text.ends_with('\n') && !seen.is_empty());
}

#[test]
fn metrics_of_a_host_that_serves() {
    let host = Host::serving();
    let done = host.run(&["metrics"]).exits(0);
    check_format(&done.out);
    done.says("svcrdma_up 1\n")
        .says("svcrdma_info{server=\"svcrdma\",version=\"1.0+0123456789ab\",kernel=\"7.3.4+deb13-amd64\"} 1\n")
        .says("svcrdma_check_status 0\n")
        .says("# TYPE svcrdma_calls_total counter\nsvcrdma_calls_total 5000\n")
        .says("svcrdma_write_bytes_total 18446744073709551615\n")
        .says("# TYPE svcrdma_host_connections gauge\nsvcrdma_host_connections 3\n")
        .says("svcrdma_setting{name=\"stall_seconds\"} 77\n")
        .says("svcrdma_listener_up{address=\"[::]:20049\",net=\"4026531840\"} 1\n")
        .says("svcrdma_device_receives{device=\"mlx5_0\"} 176\n")
        .says("svcrdma_unanswered_calls 1\n")
        .says("svcrdma_behind_seconds 3\n")
        .says("svcrdma_recent_closes{reason=\"9\"} 1\n");
    let json = host.run(&["metrics", "--json"]).exits(0).json();
    assert_eq!(json["metrics"][0]["name"], "svcrdma_up");
    assert_eq!(json["metrics"][0]["samples"][0]["value"], 1);
}

#[test]
fn metrics_of_a_newer_module() {
    let host = Host::serving();
    host.write(&format!("{SYSCTL}/latency_server"), "1 2 4\n");
    host.write(&format!("{SYSCTL}/latency_sends"), "8 0 0\n");
    host.write(&format!("{SYSCTL}/later"), "42\n");
    let done = host.run(&["metrics"]).exits(0);
    check_format(&done.out);
    done.says("# TYPE svcrdma_latency_seconds histogram\n")
        .says("svcrdma_latency_seconds_bucket{kind=\"server\",le=\"0.000004\"} 3\n")
        .says("svcrdma_latency_seconds_count{kind=\"sends\"} 8\n")
        .says("# TYPE svcrdma_later untyped\nsvcrdma_later 42\n");
}

/// Returns the names of metrics of svcrdma in `text`, without the suffixes of histograms.
fn names(text: &str) -> HashSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c| !is_name(c));
    let names = words.filter(|word| word.starts_with("svcrdma_"));
    names
        .map(|name| name.trim_end_matches("_bucket").to_owned())
        .collect()
}

#[test]
fn alerts_and_dashboard_use_metrics_that_exist() {
    let host = Host::serving();
    host.write(&format!("{SYSCTL}/latency_server"), "1 2 4\n");
    let exist = names(&host.run(&["metrics"]).exits(0).out);
    for (file, text) in [
        (
            "svcrdma.rules.yml",
            include_str!("../../../monitoring/svcrdma.rules.yml"),
        ),
        (
            "dashboard.json",
            include_str!("../../../monitoring/dashboard.json"),
        ),
    ] {
        let used = names(text);
        assert!(used.len() > 5, "{file}");
        let missing: Vec<&String> = used.difference(&exist).collect();
        assert!(missing.is_empty(), "{file}: {missing:?}");
    }
}

#[test]
fn metrics_say_that_svcrdma_does_not_serve() {
    for (host, server) in [
        (Host::with_rpcrdma(), "rpcrdma"),
        (Host::without_server(), "none"),
    ] {
        let done = host.run(&["metrics"]).exits(0);
        check_format(&done.out);
        done.says("svcrdma_up 0\n")
            .says(&format!("svcrdma_info{{server=\"{server}\""))
            .says("svcrdma_check_status 2\n");
    }
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let host = Host::serving();
    host.write("collector/svcrdma.prom", "old\n");
    let done = host
        .run(&["metrics", "--output", "collector/svcrdma.prom"])
        .exits(0);
    assert!(done.out.is_empty());
    let text = host.read("collector/svcrdma.prom");
    check_format(&text);
    assert!(text.contains("svcrdma_up 1\n"));
    assert_eq!(
        host.path("collector")
            .read_dir()
            .expect("the folder")
            .count(),
        1
    );
    let mode = host
        .path("collector/svcrdma.prom")
        .metadata()
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o644);
    host.run(&["metrics", "--output", "nowhere/svcrdma.prom"])
        .exits(1)
        .complains("nowhere/svcrdma.prom cannot be written, because its folder does not exist: create the folder");
}

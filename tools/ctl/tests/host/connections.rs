// SPDX-License-Identifier: GPL-2.0

//! `connections`.

use crate::host::{
    Host,
    DEBUGFS, //
};
use serde_json::Value;

/// Returns the numbers of the connections that a command lists.
fn numbers(host: &Host, args: &[&str]) -> Vec<u64> {
    let done = host
        .run(&[&["--json", "connections"], args].concat())
        .exits(0);
    let connections = done.json()["connections"].clone();
    let connections = connections.as_array().expect("an array");
    let number = |connection: &Value| connection["columns"]["connection"].as_u64();
    connections.iter().filter_map(number).collect()
}

#[test]
fn connections_are_sorted() {
    let host = Host::serving();
    assert_eq!(numbers(&host, &[]), [7, 8, 9]);
    assert_eq!(numbers(&host, &["--sort", "memory"]), [7, 8, 9]);
    assert_eq!(numbers(&host, &["--sort", "age"]), [8, 7, 9]);
    host.add_latency();
    assert_eq!(numbers(&host, &["--sort", "latency"]), [8, 7, 9]);
    assert_eq!(
        numbers(&host, &["--sort", "latency", "--latency", "sends"]),
        [7, 8, 9]
    );
}

#[test]
fn connections_are_selected_by_peer() {
    let host = Host::serving();
    assert_eq!(numbers(&host, &["--peer", "10.77.1.20"]), [8]);
    assert_eq!(numbers(&host, &["--peer", "10.77.0.0/16"]), [7, 8]);
    assert_eq!(numbers(&host, &["--peer", "fd00::/8"]), [9]);
    assert!(numbers(&host, &["--peer", "192.0.2.1"]).is_empty());
}

#[test]
fn lines_have_memory_and_dashes() {
    Host::serving()
        .run(&["connections"])
        .exits(0)
        .says("7  10.77.0.2:40001   mlx5_0     0  established  5m07s   1.70M  4.00k        -     -      -       -           1      128      0s    -    -      -\n")
        .says("9  [fd77::2]:40003   mlx5_0     -  accepting       1s       -      0");
}

#[test]
fn latencies_are_shown_if_the_module_has_them() {
    let host = Host::serving();
    host.run(&["connections", "--sort", "latency"])
        .exits(3)
        .complains("the loaded svcrdma has no /sys/kernel/debug/svcrdma/latency");
    host.add_latency();
    // 500 of 1000 Calls took less than 128 us, 990 less than 256 us, 999 less than 2048 us.
    host.run(&["connections"])
        .exits(0)
        .says("0s   128us   256us  2.05ms\n")
        .says("3s  16.4ms  16.4ms  16.4ms\n");
    host.run(&["connections", "--latency", "sends"])
        .exits(0)
        .says("0s  2us  2us    2us\n");
    let found = host.run(&["connections", "--json"]).exits(0).json();
    let latency = &found["connections"][0]["latency"];
    assert_eq!(latency["server"]["count"], 1000);
    assert_eq!(latency["server"]["p50_us"], 128);
    assert_eq!(latency["server"]["p99_us"], 256);
    assert_eq!(latency["server"]["p999_us"], 2048);
    assert_eq!(latency["server"]["buckets"][31], 1);
    assert!(latency["reads"]["p50_us"].is_null());
    assert!(found["connections"][2]["latency"].is_null());
}

#[test]
fn rates_are_measured_over_an_interval() {
    let host = Host::serving();
    let found = host
        .run(&[
            "connections",
            "--sort",
            "rate",
            "--interval",
            "0.1",
            "--json",
        ])
        .exits(0)
        .json();
    assert_eq!(found["interval_seconds"], 0.1);
    // Nothing moves in a tree of files, and the module does not show bytes of connections.
    assert_eq!(found["connections"][0]["rates"]["calls_per_second"], 0.0);
    assert!(found["connections"][0]["rates"]["read_bytes_per_second"].is_null());
    assert!(host
        .run(&["connections", "--interval", "0"])
        .exits(2)
        .err
        .contains("0.1 to 3600"));
}

#[test]
fn columns_are_found_by_name_and_later_ones_are_kept() {
    let host = Host::serving();
    host.write(
        &format!("{DEBUGFS}/connections"),
        "read_bytes peer connection later calls\n18446744073709551615 10.77.0.2:1 7 new 5\n",
    );
    let found = host
        .run(&[
            "connections",
            "--sort",
            "rate",
            "--interval",
            "0.1",
            "--json",
        ])
        .exits(0)
        .json();
    let columns = &found["connections"][0]["columns"];
    assert_eq!(columns["read_bytes"], u64::MAX);
    assert_eq!(columns["later"], "new");
    assert_eq!(
        found["connections"][0]["rates"]["read_bytes_per_second"],
        0.0
    );
    assert!(found["connections"][0]["memory_kib"].is_null());
    host.run(&["connections", "--sort", "memory"])
        .exits(3)
        .complains("svcrdma 1.0+0123456789ab does not show receives in its table connections");
    host.run(&["connections", "--sort", "age"])
        .exits(3)
        .complains("does not show age_seconds");
}

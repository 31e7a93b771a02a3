// SPDX-License-Identifier: GPL-2.0

//! `top` without a terminal, the completion scripts and the man pages.

use crate::host::Host;

#[test]
fn one_frame_is_printed_without_a_terminal() {
    let host = Host::serving();
    for args in [
        ["top", "--interval", "0.1"].as_slice(),
        &["top", "--once", "--interval", "0.1"],
    ] {
        host.run(args)
            .exits(0)
            .says("svcrdma 1.0+0123456789ab: 2 connections, 2 listeners, 8 nfsd threads, 0 abnormal closes\n")
            .says("Calls 0/s, in 0/s, out 0/s, page waits 0/s, Reply waits 0/s\n")
            .says("7  10.77.0.2:40001   mlx5_0     0  established");
    }
    let frame = host
        .run(&["top", "--interval", "0.1", "--json", "--sort", "age"])
        .exits(0)
        .json();
    assert_eq!(frame["connections"][0]["columns"]["connection"], 8);
    assert_eq!(frame["rates"]["calls_per_second"], 0.0);
    assert!(frame["interval_seconds"]
        .as_f64()
        .is_some_and(|seconds| seconds >= 0.1));
}

#[test]
fn no_server_ends_top() {
    Host::without_server()
        .run(&["top", "--once"])
        .exits(3)
        .complains("svcrdma is not loaded");
    Host::serving()
        .run(&["top", "--sort", "latency"])
        .exits(3)
        .complains("has no /sys/kernel/debug/svcrdma/latency");
}

#[test]
fn completion_and_man_pages() {
    let host = Host::serving();
    for shell in ["bash", "zsh", "fish"] {
        host.run(&["completion", shell]).exits(0).says("persist");
    }
    host.run(&["man"])
        .exits(0)
        .says(".TH svcrdmactl 8")
        .says("connections");
    host.write("man/x", "");
    host.run(&["man", "--directory", "man"]).exits(0);
    for name in [
        "svcrdmactl.8",
        "svcrdmactl-check.8",
        "svcrdmactl-settings-persist.8",
    ] {
        assert!(
            host.read(&format!("man/{name}")).contains(".TH svcrdmactl"),
            "{name}"
        );
    }
    assert!(!host.path("man/svcrdmactl-man.8").exists());
    let help = host.run(&["--help"]).exits(0);
    assert!(!help.out.contains("completion") && !help.out.contains("--root"));
}

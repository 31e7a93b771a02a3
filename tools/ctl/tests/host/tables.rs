// SPDX-License-Identifier: GPL-2.0

//! `status`, `devices`, `listeners`, `closes`, and the command line.

use crate::host::{
    Host,
    DEBUGFS,
    SYSCTL, //
};
use serde_json::json;

#[test]
fn status_of_a_host_that_serves() {
    let host = Host::serving();
    host.run(&["status"])
        .exits(0)
        .says("server       svcrdma 1.0+0123456789ab, kernel 7.3.4+deb13-amd64\n")
        .says("nfsd         8 threads, 5.12k RPCs over all transports\n")
        .says("file I/O     READ buffered, WRITE direct\n")
        .says("listeners    0.0.0.0:20049 listening, [::]:20049 listening\n")
        .says("mlx5_0 active with 3 connections on 2 lanes, mlx5_1 not active\n")
        .says("connections  2 (3 of all network namespaces), 12 accepted, 0 rejected, 0 closed abnormally\n")
        .says("memory       Receive buffers 704K of 64.0M, read pages 2.00M of 64.0M, Reply pages 64K of 64.0M\n");
    let status = host.run(&["status", "--json"]).exits(0).json();
    assert_eq!(status["server"], "svcrdma");
    assert_eq!(status["lanes"], 2);
    assert_eq!(status["counters"]["write_bytes"], u64::MAX);
    assert_eq!(status["listeners"][1]["port"], 20049);
    assert_eq!(
        status["memory"][0],
        json!({"kind": "receives", "kib": 704, "limit_kib_per_device": 65536})
    );
    assert_eq!(status["findings"], json!([]));
}

#[test]
fn status_of_the_kernels_own_server() {
    let host = Host::with_rpcrdma();
    host.run(&["status"])
        .exits(0)
        .says("server       rpcrdma, the kernel's own")
        .says("listeners    port 20049, port 20049\n")
        .says("broken   rpcrdma-serves:");
    assert_eq!(host.run(&["--json", "status"]).json()["server"], "rpcrdma");
}

#[test]
fn status_of_a_host_without_a_server() {
    let host = Host::without_server();
    host.run(&["status"])
        .exits(0)
        .says("server       none")
        .says("listeners    none\n")
        .says("broken   no-module:");
    assert!(host.run(&["--json", "status"]).json()["server"].is_null());
}

#[test]
fn status_without_debugfs_shows_the_rest() {
    let host = Host::serving();
    host.remove("sys/kernel/debug");
    host.run(&["status"])
        .exits(0)
        .says("listeners    port 20049")
        .says("Receive buffers - of 64.0M")
        .says("warning  no-debugfs: debugfs is not mounted: mount -t debugfs debugfs /sys/kernel/debug\n");
}

#[test]
fn devices_have_ports_and_numbers() {
    let host = Host::serving();
    host.run(&["devices"])
        .exits(0)
        .says("mlx5_0  1     ACTIVE  Ethernet  ens1f0np0  mlx5_core  used");
    host.write(
        &format!("{DEBUGFS}/devices"),
        "device state lanes later\nmlx5_0 used 2 7\n",
    );
    let devices = host.run(&["devices", "--json"]).exits(0).json();
    assert_eq!(devices["devices"][0]["columns"]["later"], 7);
    assert_eq!(devices["devices"][0]["driver"], "mlx5_core");
    assert_eq!(devices["devices"][1]["ports"][0]["state"], "DOWN");
    assert!(devices["devices"][1]["columns"].is_null());
}

#[test]
fn devices_are_listed_without_svcrdma() {
    let host = Host::without_server();
    host.run(&["devices"]).exits(0).says("mlx5_1  1     DOWN");
    host.remove("sys/class/infiniband");
    assert_eq!(
        host.run(&["devices", "--json"]).exits(0).json()["devices"],
        json!([])
    );
}

#[test]
fn listeners_of_each_server() {
    let host = Host::serving();
    host.replace(
        &format!("{DEBUGFS}/listeners"),
        "[::]:20049 listening",
        "[fd77::1]:20050 lost",
    );
    host.run(&["listeners"])
        .exits(0)
        .says("[fd77::1]:20050  lost       4026531840\n");
    let listeners = Host::with_rpcrdma()
        .run(&["listeners", "--json"])
        .exits(0)
        .json();
    assert_eq!(listeners["server"], "rpcrdma");
    assert_eq!(listeners["listeners"].as_array().map(Vec::len), Some(2));
    Host::without_server()
        .run(&["listeners"])
        .exits(3)
        .complains("svcrdma is not loaded: svcrdmactl load");
}

#[test]
fn closes_have_numbers_and_advice() {
    let host = Host::serving();
    host.run(&["closes"])
        .exits(0)
        .says("2h30m  mlx5_0           1  10.77.0.2:39001    9  Send, Read or Write failed: transport retry")
        .says("1m00s  mlx5_0           2  10.77.0.2:39002    1  closed by the peer (event 10)\n")
        .says("\n 9: if retries were exceeded, make the network lossless");
    let closes = host
        .run(&["closes", "--abnormal", "--json"])
        .exits(0)
        .json();
    assert_eq!(closes["closes"].as_array().map(Vec::len), Some(1));
    assert_eq!(closes["closes"][0]["reason_number"], 9);
    assert_eq!(closes["closes"][0]["columns"]["seconds_ago"], 9000);
    let closes = host
        .run(&["closes", "--peer", "10.77.1.0/24", "--json"])
        .exits(0)
        .json();
    assert_eq!(closes["closes"][0]["columns"]["connection"], 3);
    assert_eq!(closes["closes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_reason_of_a_newer_module_is_abnormal() {
    let host = Host::serving();
    host.write(
        &format!("{DEBUGFS}/closes"),
        "device connection peer seconds_ago reason\nmlx5_0 1 10.77.0.2:1 5 the moon is full\n",
    );
    let closes = host.run(&["closes", "--json"]).exits(0).json();
    assert_eq!(closes["closes"][0]["abnormal"], true);
    assert!(closes["closes"][0]["reason_number"].is_null());
}

#[test]
fn what_cannot_be_found_out_ends_with_3() {
    for command in ["connections", "closes"] {
        let nobody = Host::without_server();
        nobody
            .run(&[command])
            .exits(3)
            .complains("svcrdma is not loaded: svcrdmactl load");
        let kernels = Host::with_rpcrdma();
        kernels
            .run(&[command])
            .exits(3)
            .complains("the kernel's own server (rpcrdma) serves RDMA");
        let host = Host::serving();
        host.run_as_user(&[command])
            .exits(3)
            .complains("run this as root");
        host.remove("sys/kernel/debug");
        host.run(&[command])
            .exits(3)
            .complains("mount -t debugfs debugfs /sys/kernel/debug");
    }
    let error = Host::without_server()
        .run(&["closes", "--json"])
        .exits(3)
        .json();
    assert_eq!(
        error["error"],
        json!({"id": "no-module", "text": "svcrdma is not loaded", "action": "svcrdmactl load"})
    );
    assert_eq!(error["command"], "closes");
}

#[test]
fn lockdown_is_named_where_it_forbids_debugfs() {
    let host = Host::serving();
    host.write(
        "sys/kernel/security/lockdown",
        "none [integrity] confidentiality\n",
    );
    host.run_as_user(&["connections"])
        .exits(3)
        .complains("lockdown (integrity)");
}

#[test]
fn an_older_module_lacks_a_column_or_a_table() {
    let host = Host::serving();
    host.write(
        &format!("{DEBUGFS}/closes"),
        "device connection seconds_ago reason\n",
    );
    host.run(&["closes"])
        .exits(3)
        .complains("svcrdma 1.0+0123456789ab does not show peer in its table closes");
    host.remove(&format!("{DEBUGFS}/closes"));
    host.run(&["closes"])
        .exits(3)
        .complains("the loaded svcrdma has no /sys/kernel/debug/svcrdma/closes");
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let host = Host::serving();
    assert!(host.run(&["frob"]).exits(2).err.contains("frob"));
    assert!(host
        .run(&["connections", "--peer", "client7"])
        .exits(2)
        .err
        .contains("client7"));
    host.run(&["--version"]).exits(0).says("svcrdmactl ");
    host.run(&["settings", "--help"]).exits(0).says("persist");
}

#[test]
fn counters_with_several_numbers_do_not_disturb() {
    let host = Host::serving();
    host.write(&format!("{SYSCTL}/latency_server"), "1 2 3\n");
    host.write(&format!("{SYSCTL}/words"), "not a number\n");
    let status = host.run(&["status", "--json"]).exits(0).json();
    assert!(status["counters"]["latency_server"].is_null());
    assert_eq!(status["counters"]["calls"], 5000);
}

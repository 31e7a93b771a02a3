// SPDX-License-Identifier: GPL-2.0

//! `report`.

use crate::host::{
    Host,
    DEBUGFS, //
};
use flate2::read::GzDecoder;
use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    os::unix::fs::PermissionsExt, //
};

/// Returns the files of an archive by their names below its folder.
fn files(host: &Host, name: &str) -> BTreeMap<String, String> {
    let archive = File::open(host.path(name)).expect("the archive");
    let mode = archive.metadata().expect("the mode").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").display().to_string();
        let name = path
            .strip_prefix("svcrdma-report/")
            .expect("the folder")
            .to_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        files.insert(name, text);
    }
    files
}

/// Creates a host with secrets and runs the command.
fn report(args: &[&str]) -> BTreeMap<String, String> {
    let host = Host::serving();
    host.write("etc/exports", "/secret-export *(rw)\n");
    host.write("proc/fs/nfsd/exports", "/secret-export *(rw)\n");
    host.write(
        "proc/modules",
        "svcrdma 225280 3 - Live 0xffffffffc0a00000 (OE)\n",
    );
    host.write("proc/sys/kernel/hostname", "filer7.rdma.example\n");
    host.write("etc/hosts", "10.77.0.9 backup.lan backup\n");
    host.write(
        "etc/default/svcrdma",
        "# backup and client7 on filer7\nMODE=warn\n",
    );
    host.run(&[&["report", "--output", "r.tar.gz"], args].concat())
        .exits(0)
        .says("r.tar.gz: ");
    files(&host, "r.tar.gz")
}

#[test]
fn report_has_what_a_fault_report_needs() {
    let files = report(&[]);
    assert_eq!(files["sys/module/svcrdma/version"], "1.0+0123456789ab\n");
    assert_eq!(files["proc/sys/sunrpc/svcrdma/calls"], "5000\n");
    assert!(files["sys/kernel/debug/svcrdma/connections"].contains("10.77.0.2:40001"));
    assert_eq!(
        files["sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence"],
        "0\n"
    );
    assert_eq!(files["sys/class/infiniband/mlx5_0/fw_ver"], "16.35.4506\n");
    assert!(files["modules"].starts_with("svcrdma 225280 3 -\nsvcrdma: /lib/modules/"));
    assert!(files["kernel-log"].contains("connection 7 of 10.77.0.2:40001: closed"));
    assert!(files["kernel-log"].contains("schedule+0x27/0xf0"));
    assert!(files["check"].starts_with("good "));
    let status: serde_json::Value = serde_json::from_str(&files["status.json"]).expect("JSON");
    assert_eq!(status["server"], "svcrdma");
    assert!(files
        .keys()
        .all(|name| files["README"].contains(name) || name == "README"));
}

#[test]
fn report_has_nothing_private() {
    for text in report(&[]).values() {
        for secret in ["secret", "0c42:a103:0012:3456", "0xffffffffc0a00000"] {
            assert!(!text.contains(secret), "{secret} in:\n{text}");
        }
    }
}

#[test]
fn addresses_and_names_can_be_masked() {
    let files = report(&["--mask"]);
    for (name, text) in &files {
        for hidden in [
            "10.77.",
            "fd77:",
            "filer7",
            "rdma.example",
            "client7",
            "backup",
        ] {
            assert!(!text.contains(hidden), "{hidden} in {name}:\n{text}");
        }
    }
    assert!(files["kernel-log"].contains("Hostname set to <host1>."));
    assert!(files["kernel-log"].contains("lockd: cannot monitor host"));
    assert!(files["etc/default/svcrdma"].starts_with("# host"));
    // One peer has the same name everywhere, and the listeners stay.
    let connections = &files["sys/kernel/debug/svcrdma/connections"];
    let line = connections.lines().nth(1).expect("a line");
    let peer = line.split(' ').nth(2).expect("a peer");
    assert!(
        peer.starts_with("peer") && peer.ends_with(":40001"),
        "{peer}"
    );
    assert!(files["kernel-log"].contains(&format!("connection 7 of {peer}: closed")));
    assert!(files["sys/kernel/debug/svcrdma/listeners"].contains("0.0.0.0:20049"));
}

#[test]
fn sections_are_bounded() {
    const MOST: usize = 4 << 20;
    let host = Host::serving();
    let connections = format!("{DEBUGFS}/connections");
    let line = "7 mlx5_0 10.77.0.2:40001 established\n";
    host.write(&connections, &line.repeat(MOST / line.len() + 1));
    let counters = "sys/class/infiniband/mlx5_0/ports/1/hw_counters";
    (0..300).for_each(|n| host.write(&format!("{counters}/a{n:03}"), "0\n"));
    host.write("log", &"nfsd: a line\n".repeat(20_000));
    let done = host.run(&["report", "--output", "r", "--json"]).exits(0);
    let cut = format!(r#""cut":["kernel-log","{connections}","/{counters}"]"#);
    assert!(done.out.contains(&cut), "{}", done.out);
    let files = files(&host, "r");
    let (kept, end) = files[&connections].rsplit_once(line).expect("lines");
    assert_eq!(end, "[the rest is left out]\n");
    assert!(kept.len() + line.len() <= MOST && kept.len() + 2 * line.len() > MOST);
    assert_eq!(files["kernel-log"].lines().count(), 10_001);
    let counters = files.keys().filter(|name| name.starts_with(counters));
    assert_eq!(counters.count(), 256);
    assert!(files["README"].contains(&format!("Cut:\n  kernel-log\n  {connections}\n")));
}

#[test]
fn report_says_what_it_could_not_read() {
    let host = Host::serving();
    host.write("writable/x", "");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(host.path("writable"), open).expect("permissions");
    host.run_as_user(&["report", "--output", "writable/r.tar.gz"])
        .exits(3)
        .says("not readable, run this as root: ")
        .says(&format!("/{DEBUGFS}"));
    let files = files(&host, "writable/r.tar.gz");
    assert!(files["README"].contains(&format!("Not readable:\n  /{DEBUGFS}\n")));
}

#[test]
fn report_of_the_kernels_own_server() {
    let host = Host::with_rpcrdma();
    let done = host.run(&["report", "--json"]).exits(0).json();
    let name = done["file"].as_str().expect("a name").to_owned();
    assert!(name.starts_with("svcrdma-report-") && name.ends_with(".tar.gz"));
    assert!(files(&host, &name)["check"].contains("rpcrdma-serves"));
    host.run(&["report", "--output", "nowhere/r"])
        .exits(1)
        .complains("nowhere/r cannot be written, because its folder does not exist: ");
}

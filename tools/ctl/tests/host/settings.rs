// SPDX-License-Identifier: GPL-2.0

//! `settings`.

use crate::host::{
    Host,
    SYSCTL, //
};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

const KEPT: &str = "etc/sysctl.d/90-svcrdma.conf";

#[test]
fn settings_are_shown_with_defaults() {
    let host = Host::serving();
    host.run(&["settings", "get"])
        .exits(0)
        .says("stall_seconds                  77       60  4 to 3600           seconds\n");
    let done = host
        .run(&["settings", "get", "credits", "--json"])
        .exits(0)
        .json();
    let credits = &done["settings"][0];
    assert_eq!(credits["value"], 128);
    assert_eq!(
        (&credits["min"], &credits["max"]),
        (&json!(1), &json!(1024))
    );
    host.run(&["settings", "get", "credit"])
        .exits(1)
        .complains("credit is not a setting: choose one of credits ");
    host.remove(&format!("{SYSCTL}/minimum_rate"));
    host.run(&["settings", "get", "minimum_rate"])
        .exits(3)
        .complains("the loaded svcrdma has no setting minimum_rate");
    host.run(&["settings", "get"])
        .exits(0)
        .says("minimum_rate                    -    65536");
    Host::without_server()
        .run(&["settings", "get"])
        .exits(3)
        .complains("svcrdma is not loaded");
}

#[test]
fn settings_are_explained_without_a_module() {
    let host = Host::without_server();
    host.run(&["settings", "explain", "credits"])
        .exits(0)
        .says("credits: 1 to 1024 Calls of a connection, default 128\n    Upper bound");
    let done = host.run(&["settings", "explain"]).exits(0);
    assert!(done.out.lines().all(|line| line.len() <= 100));
    Host::serving()
        .run(&["settings", "explain", "stall_seconds"])
        .exits(0)
        .says("default 60, now 77\n");
}

#[test]
fn settings_are_changed_within_bounds() {
    let host = Host::serving();
    host.run(&["settings", "set", "credits", "64"])
        .exits(0)
        .says("credits: 128 -> 64\n");
    assert_eq!(host.read(&format!("{SYSCTL}/credits")), "64\n");
    host.run(&["settings", "set", "credits", "1025"])
        .exits(1)
        .complains("credits cannot be \"1025\": give 1 to 1024 Calls of a connection");
    assert_eq!(host.read(&format!("{SYSCTL}/credits")), "64\n");
    host.run(&["settings", "set", "sunrpc.svcrdma.credits", "32"])
        .exits(0);
    host.run_as_user(&["settings", "set", "credits", "16"])
        .exits(3)
        .complains("credits cannot be set: run this as root, in");
    assert_eq!(host.read(&format!("{SYSCTL}/credits")), "32\n");
}

#[test]
fn a_file_with_another_value_is_named() {
    let host = Host::serving();
    host.write("etc/sysctl.d/50-site.conf", "sunrpc.svcrdma.credits = 64\n");
    let set = |value| {
        host.run(&["settings", "set", "credits", value])
            .exits(0)
            .out
    };
    assert_eq!(set("64"), "credits: 128 -> 64\n");
    let line = "/etc/sysctl.d/50-site.conf sets credits to 64 at the next start of nfs-server: \
                svcrdmactl settings persist credits\n";
    assert_eq!(set("32"), format!("credits: 64 -> 32\n{line}"));
    // The default has to be kept, too.
    set("128");
    host.run(&["settings", "persist"]).exits(0);
    assert!(host.read(KEPT).contains("sunrpc.svcrdma.credits = 128\n"));
    assert_eq!(set("128"), "credits: 128 -> 128\n");
    // A file of the same name in another folder does not count.
    host.write(
        "usr/lib/sysctl.d/90-svcrdma.conf",
        "sunrpc.svcrdma.credits = 8\n",
    );
    let done = host
        .run(&["settings", "set", "credits", "16", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        done["at_next_start"],
        json!({"file": "/etc/sysctl.d/90-svcrdma.conf", "value": 128})
    );
}

#[test]
fn prefixes_are_shown_changed_and_kept() {
    let host = Host::serving();
    let file = format!("{SYSCTL}/accept_from");
    host.run(&["settings", "get"]).exits(0).says(
        "accept_from                   any      any  any, or a list      of address prefixes\n",
    );
    host.run(&["settings", "set", "accept_from", "10.0.0.0/8", "fd00::/8"])
        .exits(0)
        .says("accept_from: any -> 10.0.0.0/8 fd00::/8\n");
    assert_eq!(host.read(&file), "10.0.0.0/8 fd00::/8\n");
    host.run(&[
        "settings",
        "set",
        "accept_from",
        "192.168.1.0/24,fd00::/8,10.0.0.0/8",
    ])
    .exits(0);
    host.run(&["settings", "get"])
        .exits(0)
        .says("accept_from                 (1 below)      any")
        .says("\naccept_from = 192.168.1.0/24,fd00::/8,10.0.0.0/8\n");
    for refused in ["10.0.0.0/33", "client7", ""] {
        host.run(&["settings", "set", "accept_from", refused])
            .exits(1)
            .complains("accept_from cannot be")
            .complains(": give any, or a list of address prefixes");
    }
    host.run(&["settings", "set", "credits", "1", "2"]).exits(1);
    host.run(&["settings", "set", "accept_from"]).exits(2);

    host.write(&file, "10.0.0.0/8 fd00::/8\n");
    let done = host.run(&["settings", "persist", "--json"]).exits(0).json();
    assert_eq!(done["kept"]["accept_from"], "10.0.0.0/8 fd00::/8");
    assert_eq!(done["invalid"], json!([]));
    assert!(host
        .read(KEPT)
        .contains("sunrpc.svcrdma.accept_from = 10.0.0.0/8 fd00::/8\n"));
    let done = host
        .run(&["settings", "get", "accept_from", "--json"])
        .exits(0)
        .json();
    let setting = &done["settings"][0];
    assert_eq!(
        (&setting["value"], &setting["default"]),
        (&json!("10.0.0.0/8 fd00::/8"), &json!("any"))
    );
    assert_eq!(
        (&setting["min"], &setting["max"]),
        (&json!(null), &json!(null))
    );
    host.remove(&file);
    host.run(&["settings", "set", "accept_from", "any"])
        .exits(3)
        .complains("the loaded svcrdma has no setting accept_from");
}

#[test]
fn settings_are_kept_if_they_differ_from_the_defaults() {
    let host = Host::serving();
    host.write(&format!("{SYSCTL}/release"), "1\n");
    host.run(&["settings", "persist"])
        .exits(0)
        .says("/etc/sysctl.d/90-svcrdma.conf: 1 setting\n")
        .says("/etc/sysctl.d/99-local.conf sets stall_seconds too, and is applied later");
    assert_eq!(
        host.read(KEPT),
        "# Written by svcrdmactl settings persist.\nsunrpc.svcrdma.stall_seconds = 77\n"
    );
    let mode = host
        .path(KEPT)
        .metadata()
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o644);
    // Nothing else is left in the folder.
    let names = host
        .path("etc/sysctl.d")
        .read_dir()
        .expect("the folder")
        .count();
    assert_eq!(names, 2);

    host.run(&["settings", "set", "stall_seconds", "60"])
        .exits(0);
    host.run(&["settings", "persist", "credits"]).exits(0);
    assert!(host.read(KEPT).contains("stall_seconds = 77\n"));
    assert!(host.read(KEPT).contains("credits = 128\n"));
    let done = host.run(&["settings", "persist", "--json"]).exits(0).json();
    assert_eq!(done["kept"], json!({}));
    assert!(!host.path(KEPT).exists());
}

#[test]
fn other_lines_of_the_file_stay() {
    let host = Host::serving();
    let others = "# ticket 12\nvm.swappiness = 1\n-sunrpc/svcrdma/credits = 5000\n";
    host.write(KEPT, others);
    host.run(&["settings", "persist", "stall_seconds"])
        .exits(0)
        .says("90-svcrdma.conf: 2 settings\n")
        .says("90-svcrdma.conf sets credits to a value that svcrdma refuses: svcrdmactl settings persist credits\n");
    let kept = host.read(KEPT);
    assert_eq!(kept, format!("{others}sunrpc.svcrdma.stall_seconds = 77\n"));
    host.run(&["settings", "persist"]).exits(0);
    assert_eq!(
        host.read(KEPT),
        "# ticket 12\nvm.swappiness = 1\nsunrpc.svcrdma.stall_seconds = 77\n"
    );
}

#[test]
fn what_cannot_be_kept_changes_nothing() {
    let host = Host::serving();
    host.run(&["settings", "persist", "release"])
        .exits(1)
        .complains("release is an action");
    host.run_as_user(&["settings", "persist"])
        .exits(3)
        .complains("run this as root");
    assert!(!host.path(KEPT).exists());
    Host::without_server()
        .run(&["settings", "persist"])
        .exits(3)
        .complains("svcrdma is not loaded");
}

#[test]
fn files_that_cannot_be_read_are_not_taken_for_empty() {
    let host = Host::serving();
    // A comment in Latin-1.
    let others = b"# f\xfcr Kunden\nvm.swappiness = 1\n";
    std::fs::write(host.path(KEPT), others).expect("a file");
    host.run(&["settings", "persist"])
        .exits(1)
        .complains("/etc/sysctl.d/90-svcrdma.conf: ");
    assert_eq!(std::fs::read(host.path(KEPT)).expect("the file"), others);

    host.remove(KEPT);
    host.write(KEPT, "vm.swappiness = 1\n");
    let mode = |bits| {
        let permissions = std::fs::Permissions::from_mode(bits);
        std::fs::set_permissions(host.path(KEPT), permissions).expect("permissions");
    };
    mode(0o200);
    host.run_as_user(&["settings", "persist"])
        .exits(3)
        .complains("/etc/sysctl.d/90-svcrdma.conf cannot be read: run this as root");
    mode(0o644);
    assert_eq!(host.read(KEPT), "vm.swappiness = 1\n");

    // A later file may overrule the settings, so it is read before anything is written.
    std::fs::create_dir(host.path("etc/sysctl.d/95-other.conf")).expect("a folder");
    host.run(&["settings", "persist"])
        .exits(1)
        .complains("/etc/sysctl.d/95-other.conf: ");
    assert_eq!(host.read(KEPT), "vm.swappiness = 1\n");
}

#[test]
fn the_example_of_the_package_is_the_file_that_is_written() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../debian/examples")
        .join(KEPT.trim_start_matches("etc/"));
    let example = std::fs::read_to_string(&examples).expect("the example");
    let host = Host::serving();
    host.write(KEPT, &example);
    host.run(&["settings", "persist"]).exits(0);
    let kept = host.read(KEPT);
    assert_eq!(
        kept,
        format!("{example}sunrpc.svcrdma.stall_seconds = 77\n")
    );
}

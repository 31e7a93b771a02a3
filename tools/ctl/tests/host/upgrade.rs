// SPDX-License-Identifier: GPL-2.0

//! `upgrade`, with a program that only says that it ran.

use crate::host::{
    Host,
    DEBUGFS,
    SYSCTL, //
};
use std::{
    fs,
    os::unix::fs::PermissionsExt, //
};

const PROGRAM: &str = "usr/libexec/svcrdma/upgrade";
const INSTALLED: &str = "lib/modules/7.3.4+deb13-amd64/updates/svcrdma/svcrdma.ko.xz";

/// Creates a host whose module can be replaced.
fn ready() -> Host {
    let host = Host::serving();
    host.write(&format!("{SYSCTL}/host_listeners"), "2\n");
    host.write(
        PROGRAM,
        "#!/bin/sh\necho \"$@\" >ran\necho replaced >&2\n[ ! -e fails ]\n",
    );
    fs::set_permissions(host.path(PROGRAM), fs::Permissions::from_mode(0o755))
        .expect("permissions");
    host
}

/// Checks that both a check and an upgrade have this finding alone, and that nothing ran.
#[track_caller]
fn refuses(host: &Host, args: &[&str], line: &str) {
    for first in [["upgrade", "--check"].as_slice(), &["upgrade"]] {
        let done = host.run(&[first, args].concat()).exits(2).says(line);
        assert_eq!(done.out.lines().count(), 1, "{}", done.out);
        assert!(!host.path("ran").exists());
    }
}

#[test]
fn a_check_changes_nothing() {
    let host = ready();
    host.run(&["upgrade", "--check"])
        .exits(0)
        .says("good     the module can be replaced while nfsd runs\n");
    assert_eq!(
        host.run(&["upgrade", "--check", "--json"]).exits(0).json()["level"],
        "good"
    );
    assert!(!host.path("ran").exists());
}

#[test]
fn the_program_runs_if_nothing_is_wrong() {
    let host = ready();
    host.write("sys/module/svcrdma/version", "0.9\n");
    assert_eq!(host.run(&["upgrade"]).exits(0).err, "replaced\n");
    assert_eq!(host.read("ran"), "--checked\n");
    host.write("new/svcrdma.ko", &host.read(INSTALLED));
    let done = host
        .run(&["upgrade", "new/svcrdma.ko", "--json"])
        .exits(0)
        .json();
    assert_eq!(done["replaced"], true);
    assert_eq!(done["said"], "replaced");
    assert_eq!(host.read("ran"), "--checked new/svcrdma.ko\n");
    host.write("fails", "");
    assert_eq!(
        host.run(&["upgrade", "--json"]).exits(1).json()["replaced"],
        false
    );
}

#[test]
fn the_installed_module_is_not_replaced_by_itself() {
    let host = ready();
    host.run(&["upgrade"])
        .exits(0)
        .says("the installed module is loaded already");
    assert!(!host.path("ran").exists());
    assert_eq!(host.run(&["upgrade", "--json"]).json()["replaced"], false);
    // An unknown version may be another one.
    host.remove("sys/module/svcrdma/version");
    assert_eq!(host.run(&["upgrade"]).exits(0).err, "replaced\n");
}

/// A replacement that was killed has left the module released, and nfsd without a listener.
#[test]
fn a_replacement_that_was_cut_off_is_mended_first() {
    let host = ready();
    let release = format!("{SYSCTL}/release");
    host.write(&release, "1\n");
    host.write("run/svcrdma/upgrade/ports", "20049\n");
    host.write(
        PROGRAM,
        &format!("#!/bin/sh\necho \"$@\" >>ran\n[ \"$1\" != --recover ] || echo 0 >{release}\n"),
    );
    host.run(&["upgrade", "--check"])
        .exits(2)
        .says("broken   released: release is 1");
    assert!(!host.path("ran").exists());
    host.write("sys/module/svcrdma/version", "0.9\n");
    host.run(&["upgrade"]).exits(0);
    assert_eq!(host.read("ran"), "--recover\n--checked\n");
}

#[test]
fn what_the_module_lacks() {
    let host = ready();
    host.write(&format!("{SYSCTL}/release"), "1\n");
    refuses(
        &host,
        &[],
        "broken   released: release is 1: another upgrade runs",
    );
    host.remove(&format!("{SYSCTL}/release"));
    refuses(
        &host,
        &[],
        "broken   old-module: the loaded svcrdma has no setting release",
    );
    let host = ready();
    host.write(&format!("{SYSCTL}/host_listeners"), "4\n");
    refuses(
        &host,
        &[],
        "broken   namespace: nfsd has RDMA listeners in other network namespaces",
    );
    host.remove(&format!("{SYSCTL}/host_listeners"));
    refuses(
        &host,
        &[],
        "broken   namespace: this is not the host's network namespace",
    );
    let host = ready();
    host.write("proc/fs/nfsd/portlist", "rdma 20049\n");
    refuses(
        &host,
        &[],
        "broken   only-rdma: nfsd needs a listener while it runs",
    );
    host.write("proc/fs/nfsd/portlist", "tcp 2049\n");
    refuses(&host, &[], "broken   no-listener: ");
    host.write("proc/fs/nfsd/threads", "0\n");
    refuses(&host, &[], "broken   no-nfsd: ");
}

#[test]
fn listeners_that_nfsd_cannot_create_again() {
    let host = ready();
    let listeners = format!("{DEBUGFS}/listeners");
    host.replace(&listeners, "0.0.0.0:20049", "10.77.0.1:20049");
    refuses(
        &host,
        &[],
        "broken   single-address: nfsd cannot take the listener of one address 10.77.0.1:20049",
    );
    host.replace(
        &listeners,
        "10.77.0.1:20049 listening",
        "0.0.0.0:20049 lost",
    );
    refuses(
        &host,
        &[],
        "broken   listener-lost: listener 0.0.0.0:20049 has no device",
    );
}

#[test]
fn modules_that_cannot_be_loaded() {
    let host = ready();
    refuses(
        &host,
        &["nowhere/svcrdma.ko"],
        "broken   no-module-file: nowhere/svcrdma.ko is not a kernel module",
    );
    host.write("other.ko", "vermagic=7.3.4+deb13-amd64 SMP\n");
    refuses(
        &host,
        &["other.ko"],
        "broken   no-module-file: other.ko is not named svcrdma.ko",
    );
    host.write("old/svcrdma.ko", "vermagic=7.2.12+deb13-amd64 SMP\n");
    refuses(
        &host,
        &["old/svcrdma.ko"],
        "broken   other-kernel: old/svcrdma.ko is for another kernel (7.2.12+deb13-amd64 SMP)",
    );
    host.write(
        "sys/kernel/security/lockdown",
        "none [integrity] confidentiality\n",
    );
    refuses(&host, &[], "broken   unsigned-module: ");
    let text = host.read(INSTALLED);
    host.write(INSTALLED, &format!("{text}signer=my modules\n"));
    host.run(&["upgrade", "--check"]).exits(0);
    host.remove("lib/modules");
    refuses(
        &host,
        &[],
        "broken   no-module-file: no svcrdma is installed for kernel 7.3.4+deb13-amd64",
    );
}

#[test]
fn no_module_no_program_and_no_rights() {
    let host = ready();
    host.run_as_user(&["upgrade", "--check"])
        .exits(3)
        .says("unknown  no-rights: only root can replace the module");
    host.remove(PROGRAM);
    refuses(
        &host,
        &[],
        "broken   no-program: /usr/libexec/svcrdma/upgrade is missing: install svcrdma-tools\n",
    );
    Host::without_server()
        .run(&["upgrade"])
        .exits(2)
        .says("broken   no-module: svcrdma is not loaded");
}

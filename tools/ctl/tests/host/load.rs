// SPDX-License-Identifier: GPL-2.0

//! `load`, with programs that load and unload the modules of a tree.

use crate::host::Host;

const MODULES: &str = "lib/modules/7.3.4+deb13-amd64";
const MOUNT: &str =
    "10.77.0.1:/ /mnt/a nfs4 rw,relatime,vers=4.2,proto=rdma,port=20049,timeo=600 0 0\n";

/// Creates a host on which rpcrdma is loaded, has so many users, and nfsd does not run.
fn with_idle_rpcrdma(references: u32) -> Host {
    let host = Host::without_server();
    host.remove("proc/fs/nfsd");
    host.write("sys/module/rpcrdma/refcnt", &format!("{references}\n"));
    host
}

/// Checks that the command refuses with this line, which `check` has as well, and ran these programs.
#[track_caller]
fn refuses(host: &Host, line: &str, ran: &str) {
    let done = host.run(&["load"]).exits(2).says(line);
    assert_eq!(done.out.lines().count(), 1, "{}", done.out);
    assert_eq!(host.read("ran"), ran);
    host.run(&["check"]).exits(2).says(&done.out);
}

/// Checks that the command refuses with this line before it runs a program.
#[track_caller]
fn refuses_at_once(host: &Host, line: &str) {
    host.write("ran", "");
    refuses(host, line, "");
}

#[test]
fn a_loaded_module_stays() {
    let host = Host::serving();
    host.run(&["load"])
        .exits(0)
        .says("good     svcrdma is loaded\n");
    assert!(!host.path("ran").exists());
}

#[test]
fn an_idle_rpcrdma_is_unloaded() {
    let host = with_idle_rpcrdma(0);
    host.run(&["load"]).exits(0).says("svcrdma is loaded");
    assert_eq!(host.read("ran"), "rmmod rpcrdma\nmodprobe svcrdma\n");
    let host = Host::without_server();
    host.run(&["load"]).exits(0);
    assert_eq!(host.read("ran"), "modprobe svcrdma\n");
}

#[test]
fn a_mount_holds_rpcrdma() {
    let host = with_idle_rpcrdma(1);
    let other = MOUNT
        .replace("/mnt/a", "/mnt/tcp")
        .replace("proto=rdma", "proto=tcp");
    let ipv6 = MOUNT
        .replace("/mnt/a", "/mnt/b")
        .replace("proto=rdma", "proto=rdma6");
    host.write("proc/mounts", &format!("{other}{MOUNT}{ipv6}"));
    refuses(
        &host,
        "broken   no-module: svcrdma is not loaded, because rpcrdma was loaded first and is used by what is mounted over RDMA at /mnt/a /mnt/b: stop nfs-server, umount /mnt/a /mnt/b, modprobe -r rpcrdma, start nfs-server\n",
        "rmmod rpcrdma\nmodprobe svcrdma\n",
    );
}

#[test]
fn rpcrdma_is_held_by_something_that_is_not_seen() {
    let host = with_idle_rpcrdma(1);
    let attempts = "rmmod rpcrdma\n".repeat(30);
    refuses(
        &host,
        "because rpcrdma was loaded first and is used by a mount or an nfsd in a container: stop nfs-server, stop that container, modprobe -r rpcrdma, start nfs-server\n",
        &format!("{attempts}modprobe svcrdma\n"),
    );
}

#[test]
fn nfsd_serves_with_rpcrdma() {
    let host = Host::with_rpcrdma();
    host.write("sys/module/rpcrdma/refcnt", "2\n");
    refuses(
        &host,
        "broken   rpcrdma-serves: the kernel's own server (rpcrdma) serves RDMA instead of svcrdma, because rpcrdma was loaded first: stop nfs-server, modprobe -r rpcrdma, start nfs-server\n",
        "rmmod rpcrdma\nmodprobe svcrdma\n",
    );
}

#[test]
fn rpcrdma_comes_back_if_svcrdma_cannot_be_loaded() {
    let host = with_idle_rpcrdma(0);
    host.write("unloadable", "");
    host.run(&["load"]).exits(2).says(
        "broken   cannot-load: /lib/modules/7.3.4+deb13-amd64/updates/svcrdma/svcrdma.ko.xz cannot be loaded (Exec format error): look for the reason in the kernel log\n",
    );
    assert_eq!(
        host.read("ran"),
        "rmmod rpcrdma\nmodprobe svcrdma\nmodprobe rpcrdma\n"
    );
}

/// The file is looked at first, and rpcrdma stays if svcrdma cannot replace it.
#[test]
fn causes_in_their_order() {
    let host = with_idle_rpcrdma(0);
    let module = format!("{MODULES}/updates/svcrdma/svcrdma.ko.xz");
    host.write(
        "sys/kernel/security/lockdown",
        "none [integrity] confidentiality\n",
    );
    host.write("sys/module/rdma_cm/taint", "OE\n");
    let index = host.read(&format!("{MODULES}/modules.dep"));
    host.replace(
        &format!("{MODULES}/modules.dep"),
        "updates/svcrdma/svcrdma.ko.xz:",
        "updates/other.ko:",
    );
    refuses_at_once(
        &host,
        "broken   no-module: svcrdma is not loaded, and kernel 7.3.4+deb13-amd64 has no svcrdma module: install svcrdma-modules-7.3.4+deb13-amd64 or svcrdma-dkms\n",
    );
    host.write(&format!("{MODULES}/modules.dep"), &index);
    refuses_at_once(&host, "broken   replaced-module: the loaded rdma_cm");
    host.write("sys/module/rdma_cm/taint", "\n");
    refuses_at_once(&host, "broken   unsigned-module: ");
    // If the signature cannot be read, the kernel decides.
    host.write(&module, "no module\n");
    host.run(&["load"]).exits(0);
}

#[test]
fn only_root_may() {
    Host::without_server()
        .run_as_user(&["load"])
        .exits(3)
        .says("unknown  no-rights: only root can load a module: run this as root\n");
}

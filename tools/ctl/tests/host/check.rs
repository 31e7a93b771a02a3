// SPDX-License-Identifier: GPL-2.0

//! `check`.

use crate::host::{
    Done,
    Host,
    DEBUGFS,
    SYSCTL, //
};
use std::os::unix::fs::PermissionsExt;

const MODULES: &str = "lib/modules/7.3.4+deb13-amd64";

/// Checks that a host has exactly one finding, with this exit status and this line.
#[track_caller]
fn finds(host: &Host, status: i32, line: &str) {
    let done = host.run(&["check"]).exits(status).says(line);
    assert_eq!(done.out.lines().count(), 1, "{}", done.out);
}

#[test]
fn nothing_is_wrong() {
    let host = Host::serving();
    finds(
        &host,
        0,
        "good     svcrdma 1.0+0123456789ab serves 2 connections on 2 listeners\n",
    );
    let check = host.run(&["check", "--json"]).exits(0).json();
    assert_eq!(check["level"], "good");
    assert_eq!(check["findings"].as_array().map(Vec::len), Some(0));
}

#[test]
fn taint_is_no_finding() {
    let host = Host::serving();
    host.write("proc/sys/kernel/tainted", "4611686018427387903\n");
    finds(&host, 0, "good");
}

#[test]
fn programs_in_the_path_of_the_caller_are_not_started() {
    let host = Host::serving();
    host.write("caller/modinfo", "#!/bin/sh\n: >>started\n");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(host.path("caller/modinfo"), executable).expect("permissions");
    let path = format!("{}:/usr/bin:/bin", host.path("caller").display());
    let mut command = host.command(&["check"]);
    // modinfo finds that the installed module is the loaded one.
    Done::of(
        command
            .env("PATH", path)
            .output()
            .expect("the program runs"),
    )
    .exits(0)
    .says("good ");
    assert!(!host.path("started").exists());
}

#[test]
fn what_the_system_says_is_no_action() {
    let host = Host::serving();
    let table = format!("{DEBUGFS}/closes");
    host.remove(&table);
    host.write(&format!("{table}/file"), "");
    let check = host.run(&["check", "--json"]).exits(1).json();
    assert_eq!(
        check["findings"],
        serde_json::json!([{
            "level": "warning",
            "id": "unreadable",
            "text": format!("/{table}: Is a directory (os error 21)"),
            "action": "",
        }])
    );
}

#[test]
fn no_module() {
    let host = Host::without_server();
    let done = host.run(&["check"]).exits(2);
    let done = done.says("broken   no-module: svcrdma is not loaded: modprobe svcrdma\n");
    done.says("broken   no-listener:");
    host.replace(
        &format!("{MODULES}/modules.dep"),
        "updates/svcrdma/svcrdma.ko.xz:",
        "updates/other.ko:",
    );
    host.run(&["check"]).exits(2).says(
        "and kernel 7.3.4+deb13-amd64 has no svcrdma module: install svcrdma-modules-7.3.4+deb13-amd64 or svcrdma-dkms\n",
    );
}

#[test]
fn rpcrdma_serves() {
    let host = Host::with_rpcrdma();
    finds(&host, 2, "broken   rpcrdma-serves: the kernel's own server (rpcrdma) serves RDMA instead of svcrdma, because rpcrdma was loaded first: stop nfs-server");
    let check = host.run(&["check", "--json"]).exits(2).json();
    assert_eq!(check["findings"][0]["id"], "rpcrdma-serves");
    assert_eq!(check["findings"][0]["level"], "broken");
}

#[test]
fn rpcrdma_was_loaded_first_without_a_listener() {
    let host = Host::with_rpcrdma();
    host.write("proc/fs/nfsd/portlist", "tcp 2049\n");
    host.write("sys/module/rpcrdma/refcnt", "0\n");
    host.run(&["check"]).exits(2).says(
        "no-module: svcrdma is not loaded, because rpcrdma was loaded first: stop nfs-server",
    );
}

#[test]
fn no_listener() {
    let host = Host::serving();
    host.write("proc/fs/nfsd/portlist", "tcp 2049\n");
    finds(
        &host,
        2,
        "broken   no-listener: nfsd has no RDMA listener: svcrdmactl listen add rdma\n",
    );
}

#[test]
fn nfsd_does_not_run() {
    let host = Host::serving();
    host.write("proc/fs/nfsd/threads", "0\n");
    finds(
        &host,
        2,
        "broken   no-nfsd: nfsd has no threads: systemctl start nfs-server\n",
    );
    host.remove("proc/fs/nfsd");
    finds(
        &host,
        2,
        "broken   no-nfsd: nfsd does not run: systemctl start nfs-server\n",
    );
}

#[test]
fn release_is_set() {
    let host = Host::serving();
    host.write(&format!("{SYSCTL}/release"), "1\n");
    finds(&host, 2, "broken   released: release is 1");
}

#[test]
fn listener_is_lost() {
    let host = Host::serving();
    host.replace(
        &format!("{DEBUGFS}/listeners"),
        "0.0.0.0:20049 listening",
        "0.0.0.0:20049 lost",
    );
    finds(
        &host,
        1,
        "warning  listener-lost: listener 0.0.0.0:20049 is lost: no device has its address: bring",
    );
    host.replace(
        &format!("{DEBUGFS}/listeners"),
        "[::]:20049 listening",
        "[::]:20049 lost",
    );
    host.run(&["check"])
        .exits(2)
        .says("broken   listener-lost: listener [::]:20049");
}

#[test]
fn connections_closed_abnormally() {
    let host = Host::serving();
    let closes = format!("{DEBUGFS}/closes");
    host.replace(&closes, "10.77.0.2:39001 9000", "10.77.0.2:39001 3600");
    finds(&host, 1, "warning  closes-abnormal: 1 connection closed abnormally in the last hour, the last one because Send, Read or Write failed: transport retry counter exceeded: if retries were exceeded, make");
    host.replace(
        &closes,
        "30 closed by the server",
        "30 the peer is slower than minimum_rate",
    );
    finds(
        &host,
        1,
        "2 connections closed abnormally in the last hour, the last one because the peer is slower",
    );
}

#[test]
fn memory_is_short() {
    let host = Host::serving();
    host.replace(
        &format!("{DEBUGFS}/devices"),
        "512 256 0 64 1 16",
        "512 0 3 64 1 16",
    );
    finds(
        &host,
        1,
        "warning  memory-shortage: mlx5_0: 3 Calls wait for pages: look for",
    );
    host.replace(
        &format!("{DEBUGFS}/devices"),
        "512 0 3 64 1 16",
        "512 0 0 64 1 16384",
    );
    finds(
        &host,
        1,
        "warning  memory-shortage: mlx5_0: Replies hold all pages",
    );
    host.replace(
        &format!("{DEBUGFS}/devices"),
        "used 3 176 512 0 0 64 1 16384",
        "used 3 16400 512 0 0 64 1 16",
    );
    finds(
        &host,
        1,
        "warning  receive-buffers: mlx5_0: all Receive buffers are used",
    );
    let host = Host::serving();
    host.replace(
        "proc/meminfo",
        "MemAvailable:    6000000",
        "MemAvailable:    300000",
    );
    finds(
        &host,
        1,
        "warning  host-memory: the host has 293M of 7.63G available",
    );
}

#[test]
fn debugfs_is_missing_or_forbidden() {
    let host = Host::serving();
    host.run_as_user(&["check"])
        .exits(3)
        .says("unknown  no-rights: ")
        .says(": run this as root\n");
    host.remove("sys/kernel/debug");
    finds(
        &host,
        1,
        "warning  no-debugfs: debugfs is not mounted: mount -t debugfs debugfs /sys/kernel/debug\n",
    );
    host.write(&format!("{SYSCTL}/closed_abnormally"), "2\n");
    host.run(&["check"])
        .exits(1)
        .says("closes-abnormal: 2 connections closed abnormally since svcrdma was loaded");
}

#[test]
fn kernel_is_not_supported() {
    let host = Host::serving();
    host.write("proc/sys/kernel/osrelease", "6.12.48+deb13-amd64\n");
    finds(&host, 1, "warning  unsupported-kernel: kernel 6.12.48+deb13-amd64 is not of a supported family: boot a kernel of 7.3 or 7.2\n");
    let host = Host::without_server();
    host.write("proc/sys/kernel/osrelease", "6.12.48+deb13-amd64\n");
    host.run(&["check"])
        .exits(2)
        .says("broken   unsupported-kernel:");
}

#[test]
fn another_rdma_stack_replaces_the_kernels() {
    let host = Host::serving();
    let index = format!("{MODULES}/modules.dep");
    host.replace(
        &index,
        "kernel/drivers/infiniband/core/ib_core.ko.xz:",
        "updates/dkms/ib-core.ko:",
    );
    finds(&host, 2, "broken   replaced-module: /lib/modules/7.3.4+deb13-amd64/updates/dkms/ib-core.ko replaces a module of the kernel (DOCA or OFED)");
    host.replace(
        &index,
        "updates/dkms/ib-core.ko:",
        "kernel/drivers/infiniband/core/ib_core.ko.xz:",
    );
    host.replace(
        &index,
        "kernel/net/sunrpc/xprtrdma/rpcrdma.ko.xz:",
        "extra/mlnx-nfsrdma/rpcrdma.ko:",
    );
    finds(&host, 2, "extra/mlnx-nfsrdma/rpcrdma.ko replaces");
    let host = Host::serving();
    host.write("sys/module/rdma_cm/taint", "OE\n");
    finds(&host, 2, "replaced-module: the loaded rdma_cm replaces");
}

#[test]
fn no_module_is_installed() {
    let host = Host::serving();
    host.remove("lib/modules");
    finds(
        &host,
        1,
        "warning  not-installed: svcrdma serves, but no module is installed for kernel 7.3.4+deb13-amd64, so that rpcrdma serves after the next boot: install svcrdma-modules-7.3.4+deb13-amd64 or svcrdma-dkms\n",
    );
}

#[test]
fn signatures_under_lockdown() {
    let host = Host::without_server();
    host.write(
        "sys/kernel/security/lockdown",
        "none [integrity] confidentiality\n",
    );
    let module = format!("{MODULES}/updates/svcrdma/svcrdma.ko.xz");
    host.run(&["check"]).exits(2).says(
        "/updates/svcrdma/svcrdma.ko.xz has no signature, and lockdown (integrity) allows signed modules only: sign it",
    );
    let text = host.read(&module);
    host.write(&module, &format!("{text}signer=my modules\n"));
    // The keys of the kernel cannot be seen.
    assert!(!host.run(&["check"]).exits(2).out.contains("module: /"));
    let others = "20bb28c8 I------     1 perm 1f010000     0     0 asymmetri Debian Secure Boot CA: 6ccece7e4c6c: X509.rsa 7e4c6c []\n";
    host.write("proc/keys", others);
    host.run(&["check"]).exits(2).says(
        "/updates/svcrdma/svcrdma.ko.xz is signed by \"my modules\", the kernel has no key of that name, and lockdown (integrity) requires one: mokutil --import",
    );
    let ours = others.replace("Debian Secure Boot CA", "my modules");
    host.write("proc/keys", &format!("{others}{ours}"));
    assert!(!host.run(&["check"]).exits(2).out.contains("unknown-key"));
    host.write(&module, "no module\n");
    host.run(&["check"])
        .exits(2)
        .says("unknown  unsigned-module: the signature of");
}

#[test]
fn enforced_signatures() {
    let host = Host::serving();
    host.write("sys/module/module/parameters/sig_enforce", "Y\n");
    finds(
        &host,
        2,
        "and module.sig_enforce allows signed modules only",
    );
}

#[test]
fn another_build_is_installed() {
    let host = Host::serving();
    let module = format!("{MODULES}/updates/svcrdma/svcrdma.ko.xz");
    host.replace(&module, "version=1.0+0123456789ab", "version=1.1");
    finds(&host, 1, "warning  other-build: svcrdma 1.0+0123456789ab is loaded, and 1.1 is installed: svcrdmactl upgrade\n");
}

#[test]
fn devices_are_missing_or_down() {
    let host = Host::serving();
    host.write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
    finds(
        &host,
        2,
        "broken   device-down: no port of mlx5_0, mlx5_1 is active: look at rdma link",
    );
    host.remove("sys/class/infiniband");
    finds(
        &host,
        2,
        "broken   no-device: this host has no RDMA device: load the driver",
    );
}

#[test]
fn the_worst_finding_decides_and_comes_first() {
    let host = Host::serving();
    host.remove("sys/kernel/debug");
    host.write("proc/fs/nfsd/portlist", "tcp 2049\n");
    let done = host.run(&["check"]).exits(2);
    let levels: Vec<&str> = done
        .out
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(levels, ["broken", "warning"]);
}

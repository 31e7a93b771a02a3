// SPDX-License-Identifier: GPL-2.0

//! `listener`.

use crate::host::Host;
use serde_json::json;

const PORTLIST: &str = "proc/fs/nfsd/portlist";
const THREADS: &str = "proc/fs/nfsd/threads";
const KEPT: &str = "etc/nfs.conf.d/svcrdma.conf";
const WRITTEN: &str = "# Written by svcrdmactl listen.\n[nfsd]\n";

#[test]
fn listeners_of_all_transports_are_listed() {
    let host = Host::serving();
    host.run(&["listen", "list"])
        .exits(0)
        .says("TRANSPORT  ADDRESS   PORT\nrdma       0.0.0.0  20049\nrdma       ::       20049\n")
        .says("tcp        ::        2049\n");
    let listed = host.run(&["listen", "list", "--json"]).exits(0).json();
    assert_eq!(
        listed["listeners"][2],
        json!({"transport": "tcp", "address": "0.0.0.0", "port": 2049})
    );
    host.remove("proc/fs/nfsd");
    host.run(&["listen", "list"])
        .exits(3)
        .complains("nfsd is not loaded: systemctl start nfs-server");
}

#[test]
fn a_listener_is_added_beside_others_and_kept() {
    let host = Host::serving();
    host.write(PORTLIST, "tcp 2049\n");
    host.run(&["listen", "add", "rdma"])
        .exits(0)
        .says("nfsd listens on RDMA port 20049\n/etc/nfs.conf.d/svcrdma.conf has that");
    assert_eq!(host.read(PORTLIST), "tcp 2049\nrdma 20049\n");
    let kept = format!("{WRITTEN}rdma=y\nrdma-port=20049\n");
    assert_eq!(host.read(KEPT), kept);
    let again = host
        .run(&["listen", "add", "rdma", "20049", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&again["changed"], &again["file"]),
        (&json!(false), &json!(null))
    );
    assert_eq!(host.read(PORTLIST), "tcp 2049\nrdma 20049\n");

    // nfsd keeps one port.
    host.run(&["listen", "add", "rdma", "20050"])
        .exits(1)
        .complains("nfsd keeps one RDMA port, and that is 20049: give --runtime, or ");
    assert_eq!(host.read(PORTLIST), "tcp 2049\nrdma 20049\n");
    host.run(&["listen", "add", "rdma", "20050", "--runtime"])
        .exits(0);
    assert_eq!(host.read(PORTLIST), "tcp 2049\nrdma 20049\nrdma 20050\n");
    assert_eq!(host.read(KEPT), kept);

    for wrong in [&["tcp", "2049"], &["rdma", "0"], &["rdma", "65536"]] {
        host.run(&[&["listen", "add"], &wrong[..]].concat())
            .exits(2);
    }
}

#[test]
fn files_of_others_stay() {
    let host = Host::serving();
    host.write("etc/nfs.conf.d/rdma.conf", "[nfsd]\nrdma=y\n");
    host.run(&["listen", "add", "rdma"])
        .exits(0)
        .says("already\n");
    assert!(!host.path(KEPT).exists());

    let before = host.read(PORTLIST);
    host.run(&["listen", "remove", "rdma"])
        .exits(1)
        .complains("until it starts again: systemctl restart nfs-server");
    assert_eq!(host.read(PORTLIST), before);
    assert_eq!(host.read(KEPT), format!("{WRITTEN}rdma=n\n"));
    assert_eq!(host.read("etc/nfs.conf.d/rdma.conf"), "[nfsd]\nrdma=y\n");
    host.run(&["listen", "add", "rdma"]).exits(0);
    assert_eq!(
        host.read(KEPT),
        format!("{WRITTEN}rdma=y\nrdma-port=20049\n")
    );

    host.write(
        "etc/nfs.conf.d/zz.conf",
        "[nfsd]\nrdma=y\nrdma-port=20049\n",
    );
    host.write(PORTLIST, "tcp 2049\n");
    let removed = host
        .run(&["listen", "remove", "rdma", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        removed["overruled"],
        json!([{"file": "/etc/nfs.conf.d/zz.conf", "name": "rdma"}])
    );

    host.remove("etc/nfs.conf.d/zz.conf");
    host.write(KEPT, "[nfsd]\nrdma=n\n");
    host.run(&["listen", "add", "rdma"]).exits(1).complains(
        "/etc/nfs.conf.d/svcrdma.conf has lines about RDMA that svcrdmactl has not written: change them",
    );
    assert_eq!(host.read(KEPT), "[nfsd]\nrdma=n\n");
    assert_eq!(host.read(PORTLIST), "tcp 2049\n");
}

#[test]
fn a_listener_is_removed_while_nfsd_is_not_loaded() {
    let host = Host::serving();
    host.write(KEPT, &format!("{WRITTEN}rdma=y\nrdma-port=20049\n"));
    host.remove(PORTLIST);
    host.run(&["listen", "list"])
        .exits(3)
        .complains("nfsd is not loaded: systemctl start nfs-server");
    host.run(&["listen", "remove", "rdma"])
        .exits(0)
        .says("has that for the next start of nfsd\n");
    assert!(!host.path(KEPT).exists());
}

#[test]
fn a_listener_of_a_running_nfsd_is_removed_at_its_next_start() {
    let host = Host::serving();
    host.write(KEPT, &format!("{WRITTEN}rdma=y\nrdma-port=20049\n"));
    let before = host.read(PORTLIST);
    host.run(&["listen", "remove", "rdma"])
        .exits(1)
        .complains("until it starts again: systemctl restart nfs-server");
    assert_eq!(host.read(PORTLIST), before);
    assert!(!host.path(KEPT).exists());
    host.run(&["listen", "remove", "rdma", "20051"])
        .exits(0)
        .says("nfsd does not listen on RDMA port 20051\n");
}

#[test]
fn lines_of_others_in_the_file_stay() {
    let host = Host::serving();
    host.write(PORTLIST, "tcp 2049\n");
    let ours = format!("{WRITTEN}rdma=y\nrdma-port=20049\n");
    // Below those of svcrdmactl, between them, and in other sections.
    for (with, without) in [
        (format!("{ours}threads=16\n"), "[nfsd]\nthreads=16\n"),
        (
            format!("{WRITTEN}rdma=y\n# two racks\nrdma-port=20049\n"),
            "# two racks\n",
        ),
        (
            format!("# two racks\n{ours}\n[mountd]\nport=4002\n"),
            "# two racks\n\n[mountd]\nport=4002\n",
        ),
    ] {
        host.write(KEPT, &with);
        host.run(&["listen", "remove", "rdma"]).exits(0);
        assert_eq!(host.read(KEPT), without);
        for _ in 0..2 {
            host.write(PORTLIST, "tcp 2049\n");
            host.run(&["listen", "add", "rdma"]).exits(0);
            assert_eq!(host.read(KEPT), format!("{ours}{without}"));
            host.write(PORTLIST, "tcp 2049\n");
            host.run(&["listen", "remove", "rdma"]).exits(0);
            assert_eq!(host.read(KEPT), without);
        }
    }
    // The file goes with its last line.
    host.write(KEPT, &ours);
    host.run(&["listen", "remove", "rdma"]).exits(0);
    assert!(!host.path(KEPT).exists());
}

#[test]
fn what_prevents_a_listener_is_said() {
    let host = Host::without_server();
    host.run(&["listen", "add", "rdma"])
        .exits(3)
        .complains("svcrdma is not loaded: svcrdmactl load");
    Host::with_rpcrdma()
        .run(&["listen", "add", "rdma"])
        .exits(3)
        .complains("the kernel's own server (rpcrdma) serves RDMA");
    let host = Host::serving();
    host.write(PORTLIST, "");
    host.run_as_user(&["listen", "add", "rdma", "--runtime"])
        .exits(3)
        .complains("/proc/fs/nfsd/portlist cannot be written: run this as root");
}

#[test]
fn an_nfsd_without_threads_listens_when_it_starts() {
    let host = Host::serving();
    host.write(THREADS, "0\n");
    host.write(PORTLIST, "");
    host.run(&["listen", "add", "rdma", "--runtime"])
        .exits(1)
        .complains("nfsd does not run: systemctl start nfs-server");
    host.run(&["listen", "add", "rdma"])
        .exits(0)
        .says("nfsd listens on RDMA port 20049 when it starts\n");
    assert_eq!(host.read(PORTLIST), "");
    assert_eq!(
        host.read(KEPT),
        format!("{WRITTEN}rdma=y\nrdma-port=20049\n")
    );
}

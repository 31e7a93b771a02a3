// SPDX-License-Identifier: GPL-2.0

//! `check` and `check --watch` on hosts with one device, a driver each.
//!
//! Each case is one fault of a healthy host; it must give its finding and no other. The golden file
//! `fabric` has the findings of all cases.

use crate::{
    golden::pretty,
    host::{
        fixture,
        Host,
        DEBUGFS, //
    },
};
use serde_json::Value;
use std::os::unix::fs::symlink;

/// The interface of the device.
const NET: &str = "ens1f0";
/// Devices and the files with their trees.
const DEVICES: [(&str, &str); 7] = [
    ("mlx5_0", "mlx5"),
    ("ibp5s0", "mlx5-ib"),
    ("rxe0", "rxe"),
    ("siw0", "siw"),
    ("bnxt_re0", "bnxt_re"),
    ("irdma0", "irdma"),
    ("efa_0", "efa"),
];
const HW: &str = "ports/1/hw_counters";
const PORT: &str = "ports/1/counters";
const SNMP: &str = "Tcp: ActiveOpens RetransSegs InErrs\nTcp: 12 REPEATED 0\n";

/// A host with a device.
struct Fabric {
    host: Host,
    device: &'static str,
}

impl Fabric {
    /// Creates a healthy host with the only device of a driver.
    fn of(driver: &str) -> Self {
        let (device, _) = DEVICES
            .into_iter()
            .find(|(_, file)| *file == driver)
            .expect("a driver");
        let host = Host::serving();
        host.remove("sys/class/infiniband");
        host.write("proc/uptime", "86500.12 1000.00\n");
        host.write("proc/net/snmp", &SNMP.replace("REPEATED", "40"));
        for table in ["connections", "closes", "devices"] {
            let table = format!("{DEBUGFS}/{table}");
            let text = host.read(&table).replace("mlx5_0", device);
            host.write(&table, &text);
        }
        let this = Self { host, device };
        this.add_files(&fixture("devices").join(driver));
        this.connections(&["4096 106 roce2", "4096 106 roce2"]);
        this
    }

    /// Writes the files of the tree of a driver, a line each.
    fn add_files(&self, path: &std::path::Path) {
        let text = std::fs::read_to_string(path).expect("a file");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for (name, value) in lines.filter_map(|line| line.split_once('=')) {
            if name == "driver" {
                let folder = self.path("device");
                std::fs::create_dir_all(self.host.path(&folder)).expect("a folder");
                let link = self.host.path(&format!("{folder}/driver"));
                symlink(format!("../../bus/pci/drivers/{value}"), link).expect("a link");
            } else {
                self.host.write(&self.path(name), &format!("{value}\n"));
            }
        }
        if self.host.path(&format!("sys/class/net/{NET}")).exists() {
            self.set("ports/1/gid_attrs/ndevs/0", NET);
        }
        for irq in 40..44 {
            self.affinity(irq, &format!("{}", irq - 40));
        }
        for (node, list) in [(0, "0-7"), (1, "8-15")] {
            let list = format!("{list}\n");
            let file = format!("sys/devices/system/node/node{node}/cpulist");
            self.host.write(&file, &list);
        }
    }

    /// Returns the path of a file of the device, or below `net` of its interface.
    fn path(&self, name: &str) -> String {
        match name.strip_prefix("net/") {
            Some(name) => format!("sys/class/net/{NET}/{name}"),
            None => format!("sys/class/infiniband/{}/{name}", self.device),
        }
    }

    fn set(&self, name: &str, value: &str) {
        self.host.write(&self.path(name), &format!("{value}\n"));
    }

    /// Lets a CPU handle an interrupt.
    fn affinity(&self, irq: u32, list: &str) {
        let file = format!("proc/irq/{irq}/effective_affinity_list");
        self.host.write(&file, &format!("{list}\n"));
    }

    /// Writes the table of connections with these paths.
    fn connections(&self, paths: &[&str]) {
        let mut table =
            "device connection peer phase path_mtu traffic_class encapsulation\n".to_owned();
        for (n, path) in (7..).zip(paths) {
            let device = self.device;
            table += &format!("{device} {n} 10.77.0.{n}:40001 established {path}\n");
        }
        self.host.write(&format!("{DEBUGFS}/connections"), &table);
    }

    /// Lets a counter grow by `by`.
    fn grow(&self, name: &str, by: u64) {
        let old: u64 = self.host.read(&self.path(name)).trim().parse().expect(name);
        self.set(name, &(old + by).to_string());
    }

    /// Checks the host once.
    fn check(&self, status: i32) -> Value {
        let done = self.host.run(&["check", "--json"]);
        done.exits(status).json()
    }

    /// Looks at this host, and at `next` instead a moment later.
    fn watch(&self, next: &Self, status: i32) -> Value {
        let next = next.host.path("");
        let next = next.to_str().expect("UTF-8");
        let args = ["check", "--watch", "0.1", "--next", next, "--json"];
        self.host.run(&args).exits(status).json()
    }
}

/// Returns the identifiers of the findings in an answer.
fn ids(answer: &Value) -> Vec<&str> {
    let findings = answer["findings"].as_array().expect("findings");
    let ids = findings.iter().map(|finding| finding["id"].as_str());
    ids.map(|id| id.expect("a text")).collect()
}

/// Faults that two looks show: driver, finding, counters that grow.
type Watched = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str, u64)],
);
const WATCHED: &[Watched] = &[
    (
        "mlx5",
        "fabric-loss",
        &[(HW, "out_of_sequence", 40), (HW, "duplicate_request", 3)],
    ),
    (
        "mlx5",
        "fabric-loss",
        &[(HW, "packet_seq_err", 9), (HW, "local_ack_timeout_err", 2)],
    ),
    (
        "mlx5",
        "fabric-timeouts",
        &[
            (HW, "local_ack_timeout_err", 8),
            (HW, "req_transport_retries_exceeded", 1),
        ],
    ),
    (
        "mlx5",
        "fabric-congestion",
        &[
            (HW, "np_cnp_sent", 812),
            (HW, "np_ecn_marked_roce_packets", 4100),
        ],
    ),
    ("mlx5", "fabric-congestion", &[(HW, "rp_cnp_handled", 33)]),
    (
        "mlx5",
        "receiver-not-ready",
        &[(HW, "rnr_nak_retry_err", 5)],
    ),
    ("mlx5", "receiver-not-ready", &[(HW, "out_of_buffer", 6)]),
    (
        "mlx5",
        "link-errors",
        &[("net/statistics", "rx_crc_errors", 7)],
    ),
    ("mlx5", "link-errors", &[(HW, "rx_icrc_encapsulated", 2)]),
    (
        "mlx5",
        "link-down",
        &[(PORT, "link_downed", 1), ("net", "carrier_down_count", 1)],
    ),
    (
        "mlx5-ib",
        "link-errors",
        &[(PORT, "symbol_error", 12), (PORT, "port_rcv_errors", 4)],
    ),
    (
        "mlx5-ib",
        "fabric-loss",
        &[(PORT, "port_xmit_discards", 15)],
    ),
    (
        "rxe",
        "fabric-loss",
        &[
            (HW, "out_of_seq_request", 19),
            (HW, "rcvd_seq_err", 11),
            (HW, "duplicate_request", 30),
            (HW, "completer_retry_err", 14),
        ],
    ),
    (
        "rxe",
        "fabric-timeouts",
        &[
            (HW, "completer_retry_err", 7),
            (HW, "retry_exceeded_err", 1),
        ],
    ),
    ("rxe", "receiver-not-ready", &[(HW, "send_rnr_err", 2)]),
    ("rxe", "receiver-not-ready", &[(HW, "rcvd_rnr_err", 2)]),
    (
        "rxe",
        "host-overrun",
        &[("net/statistics", "rx_missed_errors", 90)],
    ),
    (
        "bnxt_re",
        "fabric-loss",
        &[
            (HW, "oos_drop_count", 8),
            (HW, "seq_err_naks_rcvd", 3),
            (HW, "dup_req", 2),
            (HW, "to_retransmits", 1),
        ],
    ),
    (
        "bnxt_re",
        "fabric-timeouts",
        &[(HW, "to_retransmits", 6), (HW, "max_retry_exceeded", 1)],
    ),
    (
        "bnxt_re",
        "fabric-congestion",
        &[(HW, "rx_cnp_pkts", 70), (HW, "rx_ecn_marked_pkts", 100)],
    ),
    ("bnxt_re", "host-overrun", &[(HW, "rx_roce_discards", 44)]),
    ("bnxt_re", "receiver-not-ready", &[(HW, "rnr_naks_rcvd", 4)]),
    (
        "irdma",
        "fabric-loss",
        &[
            (HW, "Rcvd Out of order packets", 21),
            (HW, "Nak Sequence Error", 2),
        ],
    ),
    ("irdma", "fabric-loss", &[(HW, "RTO", 3)]),
    (
        "irdma",
        "fabric-congestion",
        &[(HW, "cnpSent", 81), (HW, "RxECNMrkd", 200)],
    ),
    ("irdma", "receiver-not-ready", &[(HW, "RNR received", 1)]),
    ("irdma", "host-overrun", &[(HW, "ip4InDiscards", 17)]),
    (
        "efa",
        "fabric-loss",
        &[(HW, "retrans_pkts", 61), (HW, "retrans_timeout_events", 2)],
    ),
    (
        "efa",
        "fabric-timeouts",
        &[(HW, "unresponsive_remote_events", 1)],
    ),
    ("efa", "host-overrun", &[(HW, "rx_drops", 13)]),
];

/// A fault that one look shows: its name in the golden file, driver, finding, and what differs from a
/// healthy host.
type Seen = (&'static str, &'static str, &'static str, fn(&Fabric));
const SEEN: &[Seen] = &[
    (
        "a client with a larger MTU",
        "mlx5",
        "mtu-mismatch",
        |fabric| fabric.set("net/mtu", "1500"),
    ),
    (
        "a client with a smaller MTU",
        "rxe",
        "mtu-mismatch",
        |fabric| {
            fabric.connections(&["4096 2 roce2", "1024 2 roce2"]);
        },
    ),
    ("no RoCE version 2", "mlx5", "gid-type", |fabric| {
        ["1", "2"].map(|gid| fabric.set(&format!("ports/1/gid_attrs/types/{gid}"), "IB/RoCE v1"));
    }),
    (
        "a client with RoCE version 1",
        "mlx5",
        "gid-type",
        |fabric| {
            fabric.connections(&["4096 106 roce2", "4096 0 roce1"]);
        },
    ),
    (
        "a client without a DSCP",
        "mlx5",
        "pfc-priority",
        |fabric| {
            fabric.host.write("pfc", "pfc-cap 8 macsec-bypass off delay 0\nprio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off\n");
            fabric.host.write("dscp", "dscp-prio 26:3 \n");
            fabric.connections(&[
                "4096 106 roce2",
                "4096 2 roce2",
                "4096 2 roce2",
                "4096 2 roce2",
                "4096 2 roce2",
            ]);
        },
    ),
    ("a bad cable", "mlx5", "link-errors", |fabric| {
        fabric.set("net/statistics/rx_crc_errors", "911")
    }),
    (
        "a bad cable of InfiniBand",
        "mlx5-ib",
        "link-errors",
        |fabric| fabric.set("ports/1/counters/symbol_error", "4000"),
    ),
    ("a link that flaps", "bnxt_re", "link-down", |fabric| {
        fabric.set("net/carrier_down_count", "31")
    }),
    (
        "one CPU for all interrupts",
        "mlx5",
        "irq-affinity",
        |fabric| (40..44).for_each(|irq| fabric.affinity(irq, "5")),
    ),
    (
        "interrupts on another node",
        "irdma",
        "irq-numa",
        |fabric| (40..44).for_each(|irq| fabric.affinity(irq, &format!("{}", irq - 32))),
    ),
    (
        "a bond with a port that is down",
        "rxe",
        "roce-lag",
        |fabric| {
            bond(fabric, NET, &["ens1f0np0", "ens1f1np1"]);
            fabric
                .host
                .write("sys/class/net/ens1f1np1/bonding_slave/mii_status", "down\n");
        },
    ),
    ("a bond of two RDMA devices", "mlx5", "roce-lag", |fabric| {
        bond(fabric, "bond0", &[NET, "ens1f1"]);
        fabric
            .host
            .write("sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n");
        fabric.host.write(
            "sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0",
            "ens1f1\n",
        );
    }),
];

/// Adds a bond with ports that are up.
fn bond(fabric: &Fabric, bond: &str, ports: &[&str]) {
    let host = &fabric.host;
    host.write(
        &format!("sys/class/net/{bond}/bonding/slaves"),
        &(ports.join(" ") + "\n"),
    );
    for port in ports {
        let folder = format!("sys/class/net/{port}");
        host.write(&format!("{folder}/bonding_slave/mii_status"), "up\n");
        symlink(format!("../{bond}"), host.path(&format!("{folder}/master"))).expect("a link");
    }
}

#[test]
fn healthy_devices_have_no_finding() {
    for (_, driver) in DEVICES {
        let (one, next) = (Fabric::of(driver), Fabric::of(driver));
        if driver == "mlx5-ib" || driver == "siw" {
            [&one, &next].map(|fabric| fabric.connections(&["2048 0 ib"]));
        }
        let traffic = ["net/statistics/rx_packets", "net/statistics/tx_packets"];
        for name in traffic.iter().filter(|_| driver != "efa") {
            next.grow(name, 1_000_000);
        }
        assert_eq!(ids(&one.check(0)), [""; 0], "{driver}");
        let answer = one.watch(&next, 0);
        assert_eq!(ids(&answer), [""; 0], "{driver}");
        assert_eq!(answer["grown"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn each_fault_has_its_finding_and_no_other() {
    let mut golden = String::new();
    let mut add = |title: String, id: &str, answer: &Value| {
        assert_eq!(ids(answer), [id], "{title}");
        golden += &format!("{title}\n{}\n\n", pretty(&answer["findings"][0], ""));
    };
    for (driver, id, counters) in WATCHED {
        let (one, next) = (Fabric::of(driver), Fabric::of(driver));
        let mut title = format!("{driver}:");
        for (folder, name, by) in *counters {
            next.grow(&format!("{folder}/{name}"), *by);
            title += &format!(" {name} +{by}");
        }
        if *driver == "mlx5-ib" {
            [&one, &next].map(|fabric| fabric.connections(&["2048 0 ib"]));
        }
        add(title, id, &one.watch(&next, 1));
    }
    for (title, driver, id, change) in SEEN {
        let fabric = Fabric::of(driver);
        change(&fabric);
        add(format!("{driver}: {title}"), id, &fabric.check(1));
    }
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("fabric", golden);
    });
}

#[test]
fn peers_that_complete_no_work_are_silent() {
    let (one, next) = (Fabric::of("rxe"), Fabric::of("rxe"));
    next.grow(&format!("{HW}/completer_retry_err"), 3);
    let table = |oldest: &str| {
        let rows = format!("rxe0 7 10.77.0.7:40001 0\nrxe0 8 10.77.0.8:40001 {oldest}\n");
        let text = format!("device connection peer oldest_seconds\n{rows}");
        next.host.write(&format!("{DEBUGFS}/connections"), &text);
    };
    table("4");
    assert_eq!(ids(&one.watch(&next, 1)), ["fabric-loss"]);
    table("5");
    let answer = one.watch(&next, 1);
    assert_eq!(ids(&answer), ["fabric-timeouts"]);
    let text = answer["findings"][0]["text"].as_str().expect("a text");
    let wanted = "; silent for 5 s or more: connection 8 of 10.77.0.8:40001";
    assert!(text.ends_with(wanted), "{text}");
    // What is seen of loss weighs more.
    next.grow(&format!("{HW}/rcvd_seq_err"), 1);
    assert_eq!(ids(&one.watch(&next, 1)), ["fabric-loss"]);
}

#[test]
fn siw_has_the_counters_of_tcp() {
    let (one, next) = (Fabric::of("siw"), Fabric::of("siw"));
    [&one, &next].map(|fabric| fabric.connections(&["- - -"]));
    next.host
        .write("proc/net/snmp", &SNMP.replace("REPEATED", "52"));
    let answer = one.watch(&next, 1);
    assert_eq!(ids(&answer), ["fabric-loss"]);
    assert_eq!(answer["grown"][0]["counters"]["RetransSegs"], 12);
}

#[test]
fn pauses_are_of_ethtool() {
    for (grown, id) in [
        ("rx_prio3_pause: 4100", "fabric-congestion"),
        ("tx_prio3_pause: 90", "host-overrun"),
        ("rx_prio3_discards: 8", "host-overrun"),
        ("rx_crc_errors_phy: 3", "link-errors"),
    ] {
        let (one, next) = (Fabric::of("mlx5"), Fabric::of("mlx5"));
        let text = std::fs::read_to_string(fixture("devices/ethtool")).expect("a file");
        one.host.write(&format!("ethtool-{NET}"), &text);
        let name = grown.split(':').next().expect("a name");
        let text = text.replace(&format!("{name}: 0"), grown);
        // Of the interface's own receive queues, and the time of a pause.
        let text = text.replace("rx_out_of_buffer: 7", "rx_out_of_buffer: 99");
        let text = text.replace("duration: 0", "duration: 99");
        one.host.write(&format!("ethtool-{NET}.next"), &text);
        assert_eq!(ids(&one.watch(&next, 1)), [id], "{grown}");
    }
}

#[test]
fn closes_of_the_interval_are_named() {
    let (one, next) = (Fabric::of("rxe"), Fabric::of("rxe"));
    next.grow(&format!("{HW}/retry_exceeded_err"), 1);
    let closes = format!("{DEBUGFS}/closes");
    next.host.replace(&closes, " 9000 Send", " 0 Send");
    let answer = one.watch(&next, 1);
    assert_eq!(ids(&answer), ["closes-abnormal", "fabric-timeouts"]);
    let text = answer["findings"][1]["text"].as_str().expect("a text");
    let wanted = "(retry_exceeded_err 1); 1 connection closed, the last one, connection 1 of 10.77.0.2:39001, because Send, Read or Write failed: transport retry counter exceeded";
    assert!(text.contains(wanted), "{text}");
    // An earlier one is no part of it.
    next.host.replace(&closes, " 0 Send", " 60 Send");
    let answer = one.watch(&next, 1);
    let text = answer["findings"][1]["text"].as_str().expect("a text");
    assert!(!text.contains("closed"), "{text}");
}

#[test]
fn few_errors_since_the_start_are_no_finding() {
    let fabric = Fabric::of("mlx5");
    fabric.set("net/statistics/rx_crc_errors", "70");
    fabric.set("ports/1/counters/link_downed", "9");
    assert_eq!(ids(&fabric.check(0)), [""; 0]);
    // Since they did not grow, they are none for --watch, either.
    let (one, next) = (Fabric::of("mlx5"), Fabric::of("mlx5"));
    [&one, &next].map(|fabric| fabric.set("net/statistics/rx_crc_errors", "911"));
    assert_eq!(ids(&one.watch(&next, 0)), [""; 0]);
}

#[test]
fn older_modules_show_no_paths() {
    let fabric = Fabric::of("mlx5");
    fabric.set("net/mtu", "1500");
    fabric.host.write(
        &format!("{DEBUGFS}/connections"),
        "device connection peer phase\nmlx5_0 7 10.77.0.7:40001 established\n",
    );
    assert_eq!(ids(&fabric.check(0)), [""; 0]);
}

#[test]
fn a_time_is_needed() {
    let fabric = Fabric::of("rxe");
    for time in ["0", "x", "3601"] {
        fabric.host.run(&["check", "--watch", time]).exits(2);
    }
}

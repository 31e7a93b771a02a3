// SPDX-License-Identifier: GPL-2.0

//! The set-up of the fabric, at one look: MTU, RoCE version and priority of each connection against
//! those of its device, and errors of links since the host has started.

use super::{
    named,
    warning, //
};
use crate::{
    device::{
        Device,
        CLASS, //
    },
    ethernet::{
        self,
        Priorities, //
    },
    fabric::{
        self,
        listed,
        Port, //
    },
    fabric_counter::Meaning,
    finding::Finding,
    human::plural,
    system::System,
    table::Row, //
};

/// The most GIDs of a port that are read.
const GIDS: u64 = 256;
/// The packets among which one damaged packet makes a link a finding.
const PACKETS: u64 = 1_000_000;
/// Fewer damaged packets, or fewer times without a link, are none: a cable may have been touched.
const FEW: u64 = 10;

/// Returns the findings.
pub(crate) fn findings(system: &System) -> Vec<Finding> {
    let devices = Device::all(system).unwrap_or_default();
    let rows = system.rows("connections");
    let active = devices.iter().filter(|device| device.is_active());
    let found = active.flat_map(|device| {
        let name = Some(device.name.as_str());
        let rows: Vec<&Row> = rows
            .iter()
            .filter(|row| row.text("device") == name)
            .collect();
        roce(system, device, &rows)
    });
    found.collect()
}

/// Returns the findings of a device with its connections, if it speaks RoCE. The subnet manager of
/// InfiniBand sets MTU and priorities.
fn roce(system: &System, device: &Device, rows: &[&Row]) -> Vec<Finding> {
    if device.is_iwarp(system) || !device.is_ethernet() {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = gid_type(system, device, rows).into_iter().collect();
    if let Some(interface) = device.interface() {
        findings.extend(mtu(system, device, interface, rows));
        findings.extend(priority(system, device, interface, rows));
    }
    findings
}

/// Checks that the packets of connections have the size that the interface of the device sends.
fn mtu(system: &System, device: &Device, interface: &str, rows: &[&Row]) -> Vec<Finding> {
    let Some(mtu) = ethernet::mtu(system, interface) else {
        return Vec::new();
    };
    let ours = ethernet::payload(mtu).unwrap_or(0);
    let of = |wanted: fn(u64, u64) -> bool| -> Vec<&Row> {
        let rows = rows.iter().copied();
        rows.filter(|row| {
            row.number("path_mtu")
                .is_some_and(|path| path > 0 && wanted(path, ours))
        })
        .collect()
    };
    let (larger, smaller) = (of(|path, ours| path > ours), of(|path, ours| path < ours));
    let action = format!("set one MTU on the interfaces of both sides and on all switches between them, and mount again; {interface} has {mtu}");
    let device = &device.name;
    let mut findings = Vec::new();
    if let Some(row) = larger.first() {
        let path = row.text("path_mtu").unwrap_or("-");
        let text = format!("the path MTU of {} is {path}, and {device} ({interface}) carries {ours}: large READs and WRITEs are lost", named(&larger));
        findings.push(warning("mtu-mismatch", text, &action));
    }
    if let Some(row) = smaller.first() {
        let path = row.text("path_mtu").unwrap_or("-");
        let text = format!("the path MTU of {} is {path}, and {device} ({interface}) could carry {ours}: the same data takes more packets", named(&smaller));
        findings.push(warning("mtu-mismatch", text, &action));
    }
    findings
}

/// Checks that connections use RoCE version 2 if the device has it, and that the device has it.
fn gid_type(system: &System, device: &Device, rows: &[&Row]) -> Option<Finding> {
    let types = gid_types(system, device);
    let has_v2 = types.iter().any(|kind| kind == "RoCE v2");
    let name = &device.name;
    if !has_v2 {
        return (!types.is_empty()).then(|| {
            let text = format!("{name} has GIDs of RoCE version 1 only, and clients use version 2 by default: they cannot connect");
            warning("gid-type", text, "look for a setting of the driver or of the firmware that enables RoCE version 2")
        });
    }
    let rows = rows.iter().copied();
    let old: Vec<&Row> = rows
        .filter(|row| row.text("encapsulation") == Some("roce1"))
        .collect();
    (!old.is_empty()).then(|| {
        let text = format!("RoCE version 1 carries {}, and {name} has version 2: without an IP header, neither routers nor DSCP work", named(&old));
        warning("gid-type", text, "on the client, write \"RoCE v2\" to default_roce_mode of the port in /sys/kernel/config/rdma_cm, and mount again")
    })
}

/// Returns the types of the GIDs of a device that are set.
fn gid_types(system: &System, device: &Device) -> Vec<String> {
    let mut types = Vec::new();
    for port in &device.ports {
        let folder = format!("{CLASS}/{}/ports/{}", device.name, port.number);
        for index in 0..GIDS {
            let Some(gid) = system.root.line(&format!("{folder}/gids/{index}")) else {
                break;
            };
            if gid.chars().any(|digit| !matches!(digit, '0' | ':')) {
                // A GID that has just gone has no type.
                types.extend(
                    system
                        .root
                        .line(&format!("{folder}/gid_attrs/types/{index}")),
                );
            }
        }
    }
    types
}

/// Checks that the packets of connections have a priority that PFC protects, if it protects any.
fn priority(system: &System, device: &Device, interface: &str, rows: &[&Row]) -> Option<Finding> {
    let has_class = |row: &&Row| row.number("traffic_class").is_some();
    if !device.is_adapter(system) || !rows.iter().any(has_class) {
        return None;
    }
    let priorities = Priorities::ask(interface)?;
    if priorities.paused.is_empty() {
        return None;
    }
    // The lower two bits of the traffic class are ECN.
    let dscp = |row: &Row| row.number("traffic_class").map(|class| class >> 2);
    let rows = rows.iter().copied();
    let outside: Vec<&Row> = rows
        .filter(|row| {
            dscp(row).is_some_and(|dscp| !priorities.paused.contains(&priorities.of_dscp(dscp)))
        })
        .collect();
    let dscp = dscp(outside.first()?)?;
    let paused: Vec<String> = priorities.paused.iter().map(u64::to_string).collect();
    let text = format!(
        "the DSCP of {} is {dscp}, which has priority {}, and PFC of {interface} protects priority {} only",
        named(&outside),
        priorities.of_dscp(dscp),
        paused.join(", ")
    );
    Some(warning("pfc-priority", text, "set default_roce_tos on the client and dcb on both sides: see \"Flow control\" in the page Operation"))
}

/// Returns the findings of links since the host has started.
pub(crate) fn links(system: &System) -> Vec<Finding> {
    let devices = Device::all(system).unwrap_or_default();
    let is_active = |port: &Port| {
        devices
            .iter()
            .any(|device| device.name == port.device && device.is_active())
    };
    let uptime = system.root.line("/proc/uptime").unwrap_or_default();
    let days = uptime
        .split('.')
        .next()
        .and_then(|seconds| seconds.parse::<u64>().ok())
        .map_or(1, |seconds| seconds / 86400 + 1);
    let ports = fabric::look(system).into_iter().filter(is_active);
    let found = ports.flat_map(|port| {
        let damaged = damaged(system, &port);
        let downs = port.with(Meaning::LinkDown);
        let most = downs.iter().map(|(_, times)| *times).max().unwrap_or(0);
        let down = (most >= FEW && most > days).then(|| {
            let days = plural(days, "day");
            link_down(&port, &format!("within {days}"), &downs)
        });
        damaged.into_iter().chain(down)
    });
    found.collect()
}

/// Checks that few packets were damaged, as far as the packets are counted.
fn damaged(system: &System, port: &Port) -> Option<Finding> {
    let counters = port.with(Meaning::Damaged);
    let most = counters.iter().map(|(_, number)| *number).max()?;
    let packets = packets(system, port)?;
    let text = format!(
        "in {} since the host has started",
        plural(packets, "packet")
    );
    (most >= FEW && most > packets / PACKETS).then(|| link_errors(port, &text, &counters))
}

/// Returns the packets that a port has received.
fn packets(system: &System, port: &Port) -> Option<u64> {
    let interface = port.interface.as_ref();
    let of_interface = interface
        .map(|interface| format!("{}/{interface}/statistics/rx_packets", fabric::INTERFACES));
    let (device, number) = (&port.device, &port.number);
    let of_port = format!("{CLASS}/{device}/ports/{number}/counters/port_rcv_packets");
    let files = [Some(of_port), of_interface].into_iter().flatten();
    let numbers = files.filter_map(|file| system.root.line(&file)?.parse().ok());
    numbers.max()
}

/// Creates the finding of damaged packets.
pub(crate) fn link_errors(port: &Port, when: &str, counters: &[(&str, u64)]) -> Finding {
    let text = format!(
        "{} received damaged packets {when} ({})",
        port.name(),
        listed(counters)
    );
    let action = "clean or replace the cable and the transceivers, and look at the same counters of the port of the switch";
    warning("link-errors", text, action)
}

/// Creates the finding of a link that goes down.
pub(crate) fn link_down(port: &Port, when: &str, counters: &[(&str, u64)]) -> Finding {
    let text = format!(
        "{} lost its link {when} ({})",
        port.name(),
        listed(counters)
    );
    warning("link-down", text, "look at the cable, the transceivers and the port of the switch, and for messages of the driver in the kernel log")
}

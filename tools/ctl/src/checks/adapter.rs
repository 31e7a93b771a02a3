// SPDX-License-Identifier: GPL-2.0

//! How an adapter is tied to the host: interrupts, NUMA nodes, bonds.

use super::warning;
use crate::{
    device::{
        Device,
        CLASS, //
    },
    ethernet,
    finding::Finding,
    human::plural,
    system::System, //
};
use std::collections::{
    BTreeMap,
    BTreeSet, //
};

/// Returns the findings.
pub(crate) fn findings(system: &System) -> Vec<Finding> {
    let devices = Device::all(system).unwrap_or_default();
    let active = devices.iter().filter(|device| device.is_active());
    let mut findings: Vec<Finding> = active
        .filter_map(|device| interrupts(system, device))
        .collect();
    findings.extend(bonds(system, &devices));
    findings
}

/// Checks that the interrupts of an adapter go to more than one CPU if it has several lanes, and to
/// its own NUMA node among others. The kernel spreads the vectors of an adapter over all CPUs.
fn interrupts(system: &System, device: &Device) -> Option<Finding> {
    let name = &device.name;
    let folder = format!("{CLASS}/{name}/device");
    let numbers = system.root.names(&format!("{folder}/msi_irqs")).ok()?;
    let lists = numbers.iter().filter_map(|number| {
        let file = format!("/proc/irq/{number}/effective_affinity_list");
        system.root.line(&file)
    });
    let lists: Vec<BTreeSet<u64>> = lists.map(|list| cpus(&list)).collect();
    let used: BTreeSet<u64> = lists.iter().flatten().copied().collect();
    let lanes = device.number("lanes").unwrap_or(0);
    if let ([_, _, ..], 1, Some(cpu)) = (lists.as_slice(), used.len(), used.first()) {
        return (lanes > 1).then(|| {
            let text = format!(
                "CPU {cpu} handles all {} interrupts of {name}, which serves {}",
                lists.len(),
                plural(lanes, "lane")
            );
            warning(
                "irq-affinity",
                text,
                "stop what sets their affinity (irqbalance, a script of the vendor), or spread them over the CPUs of its NUMA node",
            )
        });
    }
    let node: u64 = system
        .root
        .line(&format!("{folder}/numa_node"))?
        .parse()
        .ok()?;
    let list = format!("/sys/devices/system/node/node{node}/cpulist");
    let near = cpus(&system.root.line(&list)?);
    // A node may have memory alone.
    let is_far = !used.is_empty() && !near.is_empty() && used.is_disjoint(&near);
    is_far.then(|| {
        let text = format!("all interrupts of {name}, which is on NUMA node {node}, go to CPUs of other nodes");
        warning("irq-numa", text, format!("let them go to CPUs of node {node} (irqbalance, /proc/irq/NUMBER/smp_affinity_list)"))
    })
}

/// Returns the CPUs of a list such as `0-3,8`.
fn cpus(list: &str) -> BTreeSet<u64> {
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<u64>().ok()?..=last.trim().parse().ok()?)
    });
    ranges.flatten().collect()
}

/// Checks the bonds that have ports of RDMA devices: all ports are up, and one device has them all
/// (RoCE LAG), or connections do not outlive a port.
fn bonds(system: &System, devices: &[Device]) -> Vec<Finding> {
    let mut members: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for device in devices {
        let Some(interface) = device.interface() else {
            continue;
        };
        let is_bond = !ethernet::bond_ports(system, interface).is_empty();
        let own = is_bond.then(|| interface.to_owned());
        if let Some(bond) = own.or_else(|| ethernet::bond_of(system, interface)) {
            members.entry(bond).or_default().push(&device.name);
        }
    }
    let found = members.iter().flat_map(|(bond, devices)| {
        let down = ethernet::bond_ports(system, bond).into_iter();
        let down = down
            .filter(|(_, state)| state != "up")
            .map(|(port, _)| port);
        let down: Vec<String> = down.collect();
        let names = devices.join(" and ");
        let is_split = devices.len() > 1;
        let split = is_split.then(|| {
            let text = format!("{bond} has ports of {names}, and no RDMA device of its own: connections do not move when a port fails");
            warning("roce-lag", text, "let the driver join the ports to one RDMA device (RoCE LAG): see its documentation")
        });
        let lost = (!down.is_empty()).then(|| {
            let text = format!("port {} of {bond}, which carries {names}, is down", down.join(", "));
            warning("roce-lag", text, "look at the cable and the port of the switch: the bond has less bandwidth, and no spare port")
        });
        split.into_iter().chain(lost)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_have_ranges() {
        assert_eq!(cpus("0-2,8\n"), BTreeSet::from([0, 1, 2, 8]));
        assert!(cpus("").is_empty());
        assert!(cpus("-").is_empty());
    }
}

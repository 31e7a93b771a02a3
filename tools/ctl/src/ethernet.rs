// SPDX-License-Identifier: GPL-2.0

//! State that the kernel and `dcb` show of the network interface of a RoCE port.

use crate::{
    fabric::INTERFACES,
    program,
    system::System, //
};
use std::collections::HashMap;

/// The bytes of a RoCE packet that are no payload, as the kernel counts them: `iboe_get_mtu()` of
/// include/rdma/ib_addr.h.
const HEADERS: u64 = 96;

/// Returns a file of an interface.
fn line(system: &System, interface: &str, file: &str) -> Option<String> {
    system
        .root
        .line(&format!("{INTERFACES}/{interface}/{file}"))
}

/// Returns the MTU of an interface.
pub(crate) fn mtu(system: &System, interface: &str) -> Option<u64> {
    line(system, interface, "mtu")?.parse().ok()
}

/// Returns the largest payload of a RoCE packet that an interface with the MTU `mtu` sends.
pub(crate) fn payload(mtu: u64) -> Option<u64> {
    let room = mtu.checked_sub(HEADERS)?;
    let sizes = [4096, 2048, 1024, 512, 256];
    sizes.into_iter().find(|size| *size <= room)
}

/// Returns the bond that an interface is a port of.
pub(crate) fn bond_of(system: &System, interface: &str) -> Option<String> {
    let folder = format!("{INTERFACES}/{interface}");
    let is_port = system.root.exists(&format!("{folder}/bonding_slave"));
    is_port.then(|| system.root.link(&format!("{folder}/master")))?
}

/// Returns the ports of a bond, each with its state: `up`, `down` or another.
pub(crate) fn bond_ports(system: &System, bond: &str) -> Vec<(String, String)> {
    let names = line(system, bond, "bonding/slaves").unwrap_or_default();
    let ports = names.split_whitespace().map(|name| {
        let state = line(system, name, "bonding_slave/mii_status");
        (name.to_owned(), state.unwrap_or_default())
    });
    ports.collect()
}

/// The priorities of an interface, from `dcb`.
#[derive(Debug)]
pub(crate) struct Priorities {
    /// Priorities that a switch may pause.
    pub(crate) paused: Vec<u64>,
    /// Priorities by DSCP.
    of_dscp: HashMap<u64, u64>,
}

impl Priorities {
    /// Asks `dcb`. Returns nothing if it is not installed, or the interface has no PFC.
    pub(crate) fn ask(interface: &str) -> Option<Self> {
        let pfc = program::said("dcb", &["pfc", "show", "dev", interface])?;
        let apps = ["-N", "app", "show", "dev", interface, "dscp-prio"];
        let apps = program::said("dcb", &apps).unwrap_or_default();
        Some(Self::parse(&pfc, &apps))
    }

    /// Parses the lines `prio-pfc 0:off 3:on` and `dscp-prio 26:3`.
    fn parse(pfc: &str, apps: &str) -> Self {
        let paused = pairs(pfc, "prio-pfc").filter(|(_, state)| *state == "on");
        let of_dscp =
            pairs(apps, "dscp-prio").filter_map(|(dscp, prio)| Some((dscp, prio.parse().ok()?)));
        Self {
            paused: paused.map(|(priority, _)| priority).collect(),
            of_dscp: of_dscp.collect(),
        }
    }

    /// Returns the priority of packets with a DSCP: the one that was set, or its upper three bits.
    pub(crate) fn of_dscp(&self, dscp: u64) -> u64 {
        self.of_dscp.get(&dscp).copied().unwrap_or(dscp >> 3)
    }
}

/// Returns the words `NUMBER:TEXT` that follow the word `title`.
fn pairs<'a>(text: &'a str, title: &'a str) -> impl Iterator<Item = (u64, &'a str)> {
    let words = text.split_whitespace();
    let words = words.skip_while(move |word| *word != title).skip(1);
    words.map_while(|word| {
        let (number, rest) = word.split_once(':')?;
        Some((number.parse().ok()?, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_the_largest_size_that_fits() {
        assert_eq!(payload(1500), Some(1024));
        assert_eq!(payload(4191), Some(2048));
        assert_eq!(payload(4192), Some(4096));
        assert_eq!(payload(9000), Some(4096));
        assert_eq!(payload(300), None);
        assert_eq!(payload(0), None);
    }

    #[test]
    fn priorities_are_those_of_dcb() {
        let pfc = "pfc-cap 8 macsec-bypass off delay 0\nprio-pfc 0:off 1:off 2:off 3:on 4:off\n";
        let found = Priorities::parse(pfc, "dscp-prio 26:3 48:6 \n");
        assert_eq!(found.paused, [3]);
        assert_eq!(found.of_dscp(26), 3);
        assert_eq!(found.of_dscp(48), 6);
        assert_eq!(found.of_dscp(0), 0);
        assert_eq!(found.of_dscp(34), 4);
        assert!(Priorities::parse("", "").paused.is_empty());
    }
}

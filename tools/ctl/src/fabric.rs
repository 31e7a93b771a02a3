// SPDX-License-Identifier: GPL-2.0

//! Two looks at the counters of all RDMA devices, and what has grown between them.

use crate::{
    device::{
        Device,
        CLASS, //
    },
    fabric_counter::{
        meaning,
        Meaning,
        Place, //
    },
    program,
    system::System, //
};
use serde_json::{
    json,
    Map,
    Value, //
};
use std::collections::BTreeMap;

/// The folder of the network interfaces.
pub(crate) const INTERFACES: &str = "/sys/class/net";

/// The counters of a port with its device and its interface, as far as they say something about the
/// fabric.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) device: String,
    pub(crate) number: String,
    pub(crate) interface: Option<String>,
    counters: BTreeMap<(Place, String), u64>,
}

/// Reads the counters of all ports.
pub(crate) fn look(system: &System) -> Vec<Port> {
    let devices = Device::all(system).unwrap_or_default();
    let ports = devices.iter().flat_map(|device| {
        let ports = device.ports.iter();
        ports.map(|port| Port::read(system, device, &port.number, port.interface.clone()))
    });
    ports.collect()
}

/// Returns the ports of two looks, with what their counters have grown by.
pub(crate) fn growth(before: &[Port], after: &[Port]) -> Vec<Port> {
    let ports = after.iter().filter_map(|after| {
        let before = before
            .iter()
            .find(|before| before.device == after.device && before.number == after.number)?;
        Some(after.grown_since(before))
    });
    ports.collect()
}

impl Port {
    /// Reads the counters of a port. Those of the device itself are often those of its only port.
    fn read(system: &System, device: &Device, number: &str, interface: Option<String>) -> Self {
        let mut port = Self {
            device: device.name.clone(),
            number: number.to_owned(),
            interface,
            counters: BTreeMap::new(),
        };
        let folder = format!("{CLASS}/{}", device.name);
        let of_port = format!("{folder}/ports/{number}");
        port.add_folder(system, Place::Device, &format!("{folder}/hw_counters"));
        port.add_folder(system, Place::Device, &format!("{of_port}/hw_counters"));
        port.add_folder(system, Place::Port, &format!("{of_port}/counters"));
        if device.is_soft_iwarp(system) {
            port.add_tcp(system);
        }
        if let Some(interface) = port.interface.clone() {
            port.add_interface(system, &interface, device.is_adapter(system));
        }
        port
    }

    /// Adds a counter, unless it says nothing about the fabric.
    fn add(&mut self, place: Place, name: &str, value: &str) {
        if let (Some(_), Ok(value)) = (meaning(place, name), value.trim().parse()) {
            self.counters.insert((place, name.to_owned()), value);
        }
    }

    /// Adds the counters in a folder.
    fn add_folder(&mut self, system: &System, place: Place, folder: &str) {
        for name in system.root.names(folder).unwrap_or_default() {
            let value = system.root.line(&format!("{folder}/{name}"));
            self.add(place, &name, &value.unwrap_or_default());
        }
    }

    /// Adds the counters of the interface; of adapters, those of ethtool, too.
    fn add_interface(&mut self, system: &System, interface: &str, is_adapter: bool) {
        let folder = format!("{INTERFACES}/{interface}");
        self.add_folder(system, Place::Interface, &format!("{folder}/statistics"));
        let downs = system.root.line(&format!("{folder}/carrier_down_count"));
        self.add(
            Place::Interface,
            "carrier_down_count",
            &downs.unwrap_or_default(),
        );
        if !is_adapter {
            return;
        }
        let said = program::said("ethtool", &["-S", interface]).unwrap_or_default();
        for (name, value) in said.lines().filter_map(|line| line.rsplit_once(':')) {
            self.add(Place::Interface, name.trim(), value);
        }
    }

    /// Adds the segments that TCP of this host has repeated: soft iWARP counts nothing itself.
    fn add_tcp(&mut self, system: &System) {
        let text = system.root.read("/proc/net/snmp").unwrap_or_default();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
            return;
        };
        for (name, value) in names.split(' ').zip(values.split(' ')) {
            self.add(Place::Device, name, value);
        }
    }

    /// Returns the counters with a meaning that are above 0.
    pub(crate) fn with(&self, wanted: Meaning) -> Vec<(&str, u64)> {
        let found = self.counters.iter().filter_map(|((place, name), value)| {
            let is_wanted = *value > 0 && meaning(*place, name) == Some(wanted);
            is_wanted.then_some((name.as_str(), *value))
        });
        found.collect()
    }

    /// Returns the port with what its counters have grown by. A counter that has fallen was reset.
    fn grown_since(&self, before: &Port) -> Self {
        let grown = self.counters.iter().filter_map(|(key, value)| {
            let grown = value.checked_sub(*before.counters.get(key)?)?;
            (grown > 0).then_some((key.clone(), grown))
        });
        Self {
            counters: grown.collect(),
            ..self.clone()
        }
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> Value {
        let counters = self.counters.iter();
        let counters = counters.map(|((_, name), value)| (name.clone(), (*value).into()));
        json!({
            "device": self.device,
            "port": self.number,
            "interface": self.interface,
            "counters": Map::from_iter(counters),
        })
    }

    /// Returns `DEVICE` or, with an interface, `DEVICE (INTERFACE)`.
    pub(crate) fn name(&self) -> String {
        let port = match self.number.as_str() {
            "1" => String::new(),
            number => format!(" port {number}"),
        };
        let interface = self.interface.as_ref();
        let interface = interface.map_or_else(String::new, |name| format!(" ({name})"));
        format!("{}{port}{interface}", self.device)
    }
}

/// Returns counters as `NAME 12, OTHER 3`, the largest first, without those beyond the sixth.
pub(crate) fn listed(counters: &[(&str, u64)]) -> String {
    let mut sorted = counters.to_vec();
    sorted.sort_by_key(|(name, value)| (std::cmp::Reverse(*value), *name));
    let texts: Vec<String> = sorted
        .iter()
        .take(6)
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    texts.join(", ")
}

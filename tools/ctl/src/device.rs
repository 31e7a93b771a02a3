// SPDX-License-Identifier: GPL-2.0

//! RDMA devices: what the kernel and what svcrdma show of them.

use crate::{
    error::{
        Error,
        Result, //
    },
    root::Gap,
    system::System,
    table::Row, //
};
use serde_json::{
    json,
    Value, //
};

/// The folder of all RDMA devices of the host.
pub(crate) const CLASS: &str = "/sys/class/infiniband";

/// A device.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) ports: Vec<Port>,
    pub(crate) driver: Option<String>,
    pub(crate) firmware: Option<String>,
    /// The line in the table `devices`, unless svcrdma or debugfs is missing.
    pub(crate) row: Option<Row>,
}

/// A port of a device.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) number: String,
    /// `ACTIVE`, `DOWN`, `INIT`, `ARMED`.
    pub(crate) state: Option<String>,
    /// `InfiniBand` or `Ethernet`.
    pub(crate) link: Option<String>,
    pub(crate) rate: Option<String>,
    /// The network interface.
    pub(crate) interface: Option<String>,
}

impl Device {
    /// Returns all devices, sorted by name.
    pub(crate) fn all(system: &System) -> Result<Vec<Self>> {
        let names = match system.root.names(CLASS) {
            Ok(names) => names,
            // Without a driver of an RDMA device there is no such class.
            Err(Gap::Missing) => Vec::new(),
            Err(gap) => return Err(Error::unknown("unreadable", format!("{CLASS}: {gap:?}"))),
        };
        let rows = system.rows("devices");
        let devices = names.into_iter().map(|name| {
            let row = rows
                .iter()
                .find(|row| row.text("device") == Some(&name))
                .cloned();
            Self::read(system, name, row)
        });
        Ok(devices.collect())
    }

    /// Reads what the kernel shows of one device.
    fn read(system: &System, name: String, row: Option<Row>) -> Self {
        let folder = format!("{CLASS}/{name}");
        let ports = system
            .root
            .names(&format!("{folder}/ports"))
            .unwrap_or_default();
        let ports = ports
            .into_iter()
            .map(|number| Port::read(system, &folder, number));
        Self {
            ports: ports.collect(),
            driver: system.root.link(&format!("{folder}/device/driver")),
            firmware: system
                .root
                .line(&format!("{folder}/fw_ver"))
                .filter(|text| !text.is_empty()),
            name,
            row,
        }
    }

    /// Returns true if a port is active.
    pub(crate) fn is_active(&self) -> bool {
        self.ports.iter().any(Port::is_active)
    }

    /// Returns true for hardware, and false for soft RoCE and soft iWARP.
    pub(crate) fn is_adapter(&self, system: &System) -> bool {
        system.root.exists(&format!("{CLASS}/{}/device", self.name))
    }

    /// Returns true if the device speaks iWARP.
    pub(crate) fn is_iwarp(&self, system: &System) -> bool {
        // "4: RNIC"
        let kind = system
            .root
            .line(&format!("{CLASS}/{}/node_type", self.name));
        kind.is_some_and(|kind| kind.starts_with('4'))
    }

    /// Returns true for siw.
    pub(crate) fn is_soft_iwarp(&self, system: &System) -> bool {
        self.is_iwarp(system) && !self.is_adapter(system)
    }

    /// Returns true if the ports are those of Ethernet: RoCE and iWARP.
    pub(crate) fn is_ethernet(&self) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| port.link.as_deref() == Some("Ethernet"))
    }

    /// Returns the network interface of its first port that has one.
    pub(crate) fn interface(&self) -> Option<&str> {
        let mut ports = self.ports.iter();
        ports.find_map(|port| port.interface.as_deref())
    }

    /// Returns a number of the table `devices`.
    pub(crate) fn number(&self, title: &str) -> Option<u64> {
        self.row.as_ref()?.number(title)
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> Value {
        let ports: Vec<Value> = self.ports.iter().map(Port::json).collect();
        json!({
            "device": self.name,
            "driver": self.driver,
            "firmware": self.firmware,
            "ports": ports,
            "columns": self.row.as_ref().map(Row::json),
        })
    }
}

impl Port {
    /// Reads what the kernel shows of a port.
    fn read(system: &System, device: &str, number: String) -> Self {
        let folder = format!("{device}/ports/{number}");
        let line = |name: &str| system.root.line(&format!("{folder}/{name}"));
        // "4: ACTIVE"
        let state = line("state").map(|text| match text.split_once(": ") {
            Some((_, state)) => state.to_owned(),
            None => text,
        });
        Self {
            state,
            link: line("link_layer"),
            rate: line("rate"),
            interface: line("gid_attrs/ndevs/0"),
            number,
        }
    }

    /// Returns true if the port carries traffic.
    pub(crate) fn is_active(&self) -> bool {
        self.state.as_deref() == Some("ACTIVE")
    }

    /// Returns the JSON object.
    fn json(&self) -> Value {
        json!({
            "port": self.number,
            "state": self.state,
            "link_layer": self.link,
            "rate": self.rate,
            "interface": self.interface,
        })
    }
}

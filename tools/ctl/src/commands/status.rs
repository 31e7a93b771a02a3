// SPDX-License-Identifier: GPL-2.0

//! `status`: which server serves, and how it is.

use crate::{
    answer::Answer,
    checks,
    counter::Values,
    device::Device,
    finding::Finding,
    human::{
        self,
        or_dash,
        plural, //
    },
    io_mode::IoModes,
    listener::Listener,
    system::{
        Server,
        System, //
    },
};
use serde_json::{
    json,
    Value, //
};

/// KiB of a page and of a Receive buffer.
const PAGE_KIB: u64 = 4;
/// Kinds of memory: name, column of the table `devices`, the setting that bounds it.
const MEMORY: [(&str, &str, &str); 3] = [
    ("Receive buffers", "receives", "receive_buffers_per_device"),
    ("read pages", "pages", "read_pages_per_device"),
    ("Reply pages", "reply_pages", "reply_pages_per_device"),
];

/// Shows the state of the host. What cannot be read is shown as `-`, with a finding that says why.
pub(crate) fn run(system: &System) -> Answer {
    let now = Now::look(system);
    Answer::new(now.text(), now.json())
}

/// The state of the host.
struct Now {
    server: Server,
    version: Option<String>,
    kernel: String,
    threads: Option<u64>,
    rpcs: Option<u64>,
    io_modes: IoModes,
    listeners: Vec<Listener>,
    devices: Vec<Device>,
    values: Option<Values>,
    findings: Vec<Finding>,
}

impl Now {
    /// Looks at the host.
    fn look(system: &System) -> Self {
        Self {
            server: system.server(),
            version: system.version(),
            kernel: system.kernel(),
            threads: system.threads(),
            rpcs: system.rpcs(),
            io_modes: IoModes::look(&system.root),
            listeners: Listener::all(system).unwrap_or_else(|_| Listener::listed(system)),
            devices: Device::all(system).unwrap_or_default(),
            values: system.values().ok(),
            findings: checks::all(system),
        }
    }

    /// Returns a counter or a setting.
    fn value(&self, name: &str) -> Option<u64> {
        self.values.as_ref()?.get(name)
    }

    /// Returns the sum of a column over all devices, or nothing if the table cannot be read.
    fn sum(&self, title: &str) -> Option<u64> {
        let numbers = self
            .devices
            .iter()
            .filter_map(|device| device.number(title));
        numbers.reduce(u64::saturating_add)
    }

    /// Returns the text for people.
    fn text(&self) -> String {
        let mut lines = vec![
            ("server", self.server_line()),
            ("nfsd", self.nfsd_line()),
            ("file I/O", self.io_modes.line()),
            ("listeners", self.listeners_line()),
            ("devices", self.devices_line()),
        ];
        if self.server == Server::Ours {
            lines.push(("connections", self.connections_line()));
            lines.push(("memory", self.memory_line()));
        }
        let lines = lines
            .iter()
            .map(|(name, line)| format!("{name:<12} {line}\n"));
        let findings = self.findings.iter().map(|finding| finding.line() + "\n");
        lines.chain(findings).collect()
    }

    fn server_line(&self) -> String {
        let version = or_dash(self.version.clone(), |version| version);
        let server = match self.server {
            Server::Ours => format!("svcrdma {version}"),
            Server::Kernels => "rpcrdma, the kernel's own".to_owned(),
            Server::Nobody => "none".to_owned(),
        };
        format!("{server}, kernel {}", self.kernel)
    }

    fn nfsd_line(&self) -> String {
        format!(
            "{} threads, {} RPCs over all transports",
            or_dash(self.threads, |threads| threads.to_string()),
            or_dash(self.rpcs, human::count)
        )
    }

    fn listeners_line(&self) -> String {
        let listeners = self.listeners.iter().map(|listener| match &listener.state {
            Some(state) => format!("{} {state}", listener.name()),
            None => listener.name(),
        });
        joined(listeners)
    }

    fn devices_line(&self) -> String {
        joined(self.devices.iter().map(|device| {
            let state = if device.is_active() {
                "active"
            } else {
                "not active"
            };
            let used = device
                .row
                .as_ref()
                .is_some_and(|row| row.text("state") == Some("used"));
            let connections = device.number("connections").filter(|_| used);
            let served = connections.map(|connections| {
                let lanes = or_dash(device.number("lanes"), |lanes| plural(lanes, "lane"));
                format!(" with {} on {lanes}", plural(connections, "connection"))
            });
            format!("{} {state}{}", device.name, served.unwrap_or_default())
        }))
    }

    fn connections_line(&self) -> String {
        let number = |name| or_dash(self.value(name), |number| number.to_string());
        let host = self
            .value("host_connections")
            .filter(|host| Some(*host) != self.value("connections"));
        let elsewhere = host.map_or_else(String::new, |host| {
            format!(" ({host} of all network namespaces)")
        });
        format!(
            "{}{elsewhere}, {} accepted, {} rejected, {} closed abnormally",
            number("connections"),
            number("accepted"),
            number("rejected"),
            number("closed_abnormally")
        )
    }

    fn memory_line(&self) -> String {
        joined(MEMORY.iter().map(|(name, column, setting)| {
            let held = self.sum(column).map(|held| held * PAGE_KIB);
            let limit = self
                .value(setting)
                .map(|limit| limit * PAGE_KIB * self.used_devices());
            format!(
                "{name} {} of {}",
                or_dash(held, human::kib),
                or_dash(limit, human::kib)
            )
        }))
    }

    /// Returns the number of devices that have had connections, 1 at least: each has its own limits.
    fn used_devices(&self) -> u64 {
        let states = self
            .devices
            .iter()
            .filter_map(|device| device.row.as_ref()?.text("state"));
        (states.filter(|state| *state == "used").count() as u64).max(1)
    }

    /// Returns the JSON object.
    fn json(&self) -> Value {
        let memory = MEMORY.map(|(_, column, setting)| {
            json!({
                "kind": column,
                "kib": self.sum(column).map(|held| held * PAGE_KIB),
                "limit_kib_per_device": self.value(setting).map(|limit| limit * PAGE_KIB),
            })
        });
        let counters = self.values.as_ref().map(|values| {
            let counters = values
                .counters()
                .map(|(name, value)| (name.to_owned(), value.into()));
            Value::Object(counters.collect())
        });
        json!({
            "server": self.server.module(),
            "version": self.version,
            "kernel": self.kernel,
            "nfsd": {"threads": self.threads, "rpcs": self.rpcs, "io": self.io_modes.json()},
            "listeners": self.listeners.iter().map(Listener::json).collect::<Vec<_>>(),
            "devices": self.devices.iter().map(Device::json).collect::<Vec<_>>(),
            "lanes": self.sum("lanes"),
            "memory": memory,
            "counters": counters,
            "findings": self.findings.iter().map(Finding::json).collect::<Vec<_>>(),
        })
    }
}

/// Returns texts separated by commas, or `none`.
fn joined(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.collect();
    match texts.as_slice() {
        [] => "none".to_owned(),
        texts => texts.join(", "),
    }
}

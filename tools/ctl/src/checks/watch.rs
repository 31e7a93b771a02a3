// SPDX-License-Identifier: GPL-2.0

//! Two looks: what devices, ports and interfaces have counted between them.
//!
//! Each kind of count is one finding for each port, with the connections of the device, and with what
//! has closed meanwhile because a peer did not answer or was late.

use super::{
    fabric::{
        link_down,
        link_errors, //
    },
    named,
    warning, //
};
use crate::{
    close_reason,
    fabric::{
        listed,
        Port, //
    },
    fabric_counter::Meaning,
    finding::Finding,
    human::plural,
    system::System,
    table::Row, //
};

/// Seconds after which a peer that completes no work is silent. A lost packet is repeated after less.
const SILENT: u64 = 5;
const PAGE: &str = "see the page \"Fabric or server?\"";

/// Returns the findings about the ports of `grown`, whose counters have grown within `seconds`.
pub(crate) fn findings(system: &System, grown: &[Port], seconds: f64) -> Vec<Finding> {
    let interval = Interval {
        seconds,
        connections: system.rows("connections"),
        closes: system.rows("closes"),
    };
    let found = grown.iter().flat_map(|port| interval.findings(port));
    found.collect()
}

/// The time between two looks, and what svcrdma shows at its end.
struct Interval {
    seconds: f64,
    connections: Vec<Row>,
    closes: Vec<Row>,
}

impl Interval {
    /// Returns the findings of a port.
    fn findings(&self, port: &Port) -> Vec<Finding> {
        let damaged = port.with(Meaning::Damaged);
        let downs = port.with(Meaning::LinkDown);
        let when = self.when();
        let found = [
            self.loss(port),
            (!damaged.is_empty()).then(|| link_errors(port, &when, &damaged)),
            (!downs.is_empty()).then(|| link_down(port, &when, &downs)),
            self.congestion(port),
            self.overrun(port),
            self.not_ready(port),
        ];
        found.into_iter().flatten().collect()
    }

    /// Returns `within 30 s`.
    fn when(&self) -> String {
        format!("within {} s", self.seconds)
    }

    /// Looks for lost packets, and for peers that do not answer. If a peer answers late, packets were
    /// lost: the repetition came through.
    fn loss(&self, port: &Port) -> Option<Finding> {
        let coming = port.with(Meaning::LostComing);
        let going = port.with(Meaning::LostGoing);
        let late = port.with(Meaning::Late);
        let gave_up = port.with(Meaning::GaveUp);
        let way = match (coming.is_empty(), going.is_empty()) {
            (false, true) => "from clients to",
            (true, false) => "to clients from",
            _ => "to and from",
        };
        let lost = [coming, going, port.with(Meaning::Repeated)].concat();
        let counters = [lost.clone(), late.clone(), gave_up.clone()].concat();
        if counters.is_empty() {
            return None;
        }
        let silent = self.silent(port);
        let is_silent = !gave_up.is_empty() || !late.is_empty() && !silent.is_empty();
        if lost.is_empty() && is_silent {
            return Some(self.silence(port, &counters, &silent));
        }
        let (name, when, counters) = (port.name(), self.when(), listed(&counters));
        let text = format!(
            "packets {way} {name} were lost or came out of order {when} ({counters}){}",
            self.concerned(port)
        );
        let action = format!("look for drops on the ports of the switches and of the clients, and at one MTU for all of them; {PAGE}");
        Some(warning("fabric-loss", text, action))
    }

    /// Creates the finding of peers that do not answer.
    fn silence(&self, port: &Port, counters: &[(&str, u64)], silent: &[&Row]) -> Finding {
        let silent = match silent {
            [] => String::new(),
            rows => format!("; silent for {SILENT} s or more: {}", named(rows)),
        };
        let (name, when, counters) = (port.name(), self.when(), listed(counters));
        let text = format!(
            "peers of {name} did not answer {when} ({counters}){silent}{}",
            self.closed(port)
        );
        let action = format!("look if the clients run and if the path to them is up; if small messages pass and large ones do not, a switch has a smaller MTU; {PAGE}");
        warning("fabric-timeouts", text, action)
    }

    /// Returns the connections of the device whose peers have not completed work for long.
    fn silent(&self, port: &Port) -> Vec<&Row> {
        let rows = self.of(port).into_iter();
        rows.filter(|row| {
            row.number("oldest_seconds")
                .is_some_and(|oldest| oldest >= SILENT)
        })
        .collect()
    }

    /// Returns the connections of the device.
    fn of(&self, port: &Port) -> Vec<&Row> {
        let rows = self.connections.iter();
        rows.filter(|row| row.text("device") == Some(&port.device))
            .collect()
    }

    /// Looks for congestion that a switch has signalled.
    fn congestion(&self, port: &Port) -> Option<Finding> {
        let counters = port.with(Meaning::Congested);
        (!counters.is_empty()).then(|| {
            let (name, when, counters) = (port.name(), self.when(), listed(&counters));
            let text = format!("the network held up {name} {when} ({counters}){}", self.connections(port));
            let action = format!("nothing was lost; find what else uses the links and switches, or whether many hosts send to one; {PAGE}");
            warning("fabric-congestion", text, action)
        })
    }

    /// Looks for packets that this host could not take.
    fn overrun(&self, port: &Port) -> Option<Finding> {
        let counters = port.with(Meaning::Overrun);
        (!counters.is_empty()).then(|| {
            let (name, when, counters) = (port.name(), self.when(), listed(&counters));
            let text = format!("packets came to {name} faster than this host took them {when} ({counters}){}", self.connections(port));
            let action = "look at the PCIe link and the NUMA node of the adapter, at its receive buffers, and on a soft device at the CPUs";
            warning("host-overrun", text, action)
        })
    }

    /// Looks for messages that met no Receive: neither network nor adapter is at fault.
    fn not_ready(&self, port: &Port) -> Option<Finding> {
        let here = port.with(Meaning::NotReadyHere);
        let there = port.with(Meaning::NotReadyThere);
        if here.is_empty() && there.is_empty() {
            return None;
        }
        let counters = listed(&[here.clone(), there].concat());
        let (name, when, concerned) = (port.name(), self.when(), self.concerned(port));
        let (who, action) = match here.is_empty() {
            true => ("clients", "look at the clients: the network is not the cause"),
            false => (
                "this server",
                "find the client that sends more Calls than it has credits: svcrdmactl connections; the network is not the cause",
            ),
        };
        let text =
            format!("{who} had no Receive for messages on {name} {when} ({counters}){concerned}");
        Some(warning("receiver-not-ready", text, action))
    }

    /// Returns the connections of the device and its closes, as the end of a text.
    fn concerned(&self, port: &Port) -> String {
        self.connections(port) + &self.closed(port)
    }

    /// Returns the connections of the device, as a part of a text.
    fn connections(&self, port: &Port) -> String {
        match self.of(port).as_slice() {
            [] => String::new(),
            rows => format!("; it serves {}", named(rows)),
        }
    }

    /// Returns the closes for retries or lateness in the interval, as a part of a text.
    fn closed(&self, port: &Port) -> String {
        let closes = self.closes.iter().filter(|row| {
            let ago = row.number("seconds_ago");
            let reason = row.text("reason").unwrap_or("");
            row.text("device") == Some(&port.device)
                && ago.is_some_and(|ago| ago as f64 <= self.seconds)
                && close_reason::is_of_fabric(reason)
        });
        let closes: Vec<&Row> = closes.collect();
        let Some(last) = closes.last() else {
            return String::new();
        };
        let reason = last.text("reason").unwrap_or("");
        let count = plural(closes.len() as u64, "connection");
        format!(
            "; {count} closed, the last one, {}, because {reason}",
            named(&[last])
        )
    }
}

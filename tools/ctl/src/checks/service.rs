// SPDX-License-Identifier: GPL-2.0

//! The service: nfsd, its listeners and the devices.

use super::{
    broken,
    warning, //
};
use crate::{
    device::Device,
    finding::{
        Finding,
        Level, //
    },
    listener::Listener,
    root::Gap,
    setting::RELEASE,
    system::{
        Server,
        System,
        LISTEN, //
    },
};

/// Returns the findings.
pub(crate) fn findings(system: &System) -> Vec<Finding> {
    let mut findings: Vec<Finding> = devices(system).into_iter().collect();
    let stopped = nfsd(system);
    let released = released(system);
    let has_listener_findings = stopped.is_none() && released.is_none();
    findings.extend(stopped);
    findings.extend(released);
    if has_listener_findings {
        findings.extend(no_listener(system));
        findings.extend(lost_listeners(system));
    }
    findings
}

/// Checks that a device can carry traffic. Ports without a cable are normal beside another one.
fn devices(system: &System) -> Option<Finding> {
    match Device::all(system) {
        Err(error) => Some(Finding::of_error(Level::Unknown, &error)),
        Ok(devices) if devices.is_empty() => Some(broken(
            "no-device",
            "this host has no RDMA device",
            "load the driver of the adapter, or rdma link add rxe0 type rxe netdev INTERFACE for a trial",
        )),
        Ok(devices) if !devices.iter().any(Device::is_active) => {
            let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
            let text = format!("no port of {} is active", names.join(", "));
            Some(broken("device-down", text, "look at rdma link, the cable and, on InfiniBand, the subnet manager"))
        }
        Ok(_) => None,
    }
}

/// Checks that nfsd runs.
fn nfsd(system: &System) -> Option<Finding> {
    match system.portlist() {
        Err(Gap::Missing) => Some(broken(
            "no-nfsd",
            "nfsd does not run",
            "systemctl start nfs-server",
        )),
        Err(_) => Some(Finding::new(
            Level::Unknown,
            "no-rights",
            "nfsd's listeners cannot be read",
            "run this as root",
        )),
        Ok(_) if system.threads() == Some(0) => Some(broken(
            "no-nfsd",
            "nfsd has no threads",
            "systemctl start nfs-server",
        )),
        Ok(_) => None,
    }
}

/// Checks that new listeners are allowed.
fn released(system: &System) -> Option<Finding> {
    let release = system.values().ok()?.get(RELEASE)?;
    (release != 0).then(|| {
        let action = format!("svcrdmactl settings set release 0, then {LISTEN}");
        broken(
            "released",
            "release is 1, so nfsd gets no RDMA listener",
            action,
        )
    })
}

/// Checks that nfsd listens on RDMA.
fn no_listener(system: &System) -> Option<Finding> {
    system
        .rdma_ports()
        .is_empty()
        .then(|| broken("no-listener", "nfsd has no RDMA listener", LISTEN))
}

/// Checks that the listeners have devices.
fn lost_listeners(system: &System) -> Vec<Finding> {
    if system.server() != Server::Ours {
        return Vec::new();
    }
    // Without debugfs another check has a finding.
    let listeners = Listener::all(system).unwrap_or_default();
    let all_lost = listeners.iter().all(Listener::is_lost);
    let lost = listeners.iter().filter(|listener| listener.is_lost());
    let findings = lost.map(|listener| {
        let text = format!(
            "listener {} is lost: no device has its address",
            listener.name()
        );
        let action = "bring the device or the address back; the listener returns by itself";
        if all_lost {
            broken("listener-lost", text, action)
        } else {
            warning("listener-lost", text, action)
        }
    });
    findings.collect()
}

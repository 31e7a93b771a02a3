// SPDX-License-Identifier: GPL-2.0

//! `load`: loads svcrdma, so that nfsd listens with it. The guard runs this before nfsd starts.
//!
//! The module that is loaded first serves. rdma-core loads rpcrdma as soon as a host has a device,
//! which may be before svcrdma is installed. An rpcrdma that nothing uses is unloaded: mounts load it
//! again when they need it, as the second module.

use super::check;
use crate::{
    answer::Answer,
    checks::{
        broken,
        module::{
            loaded_first,
            obstacle, //
        },
        rights, //
    },
    finding::Finding,
    modules,
    system::{
        Server,
        System, //
    },
};
use std::{
    thread,
    time::Duration, //
};

/// The number of attempts to unload rpcrdma, and the time between two. Listeners and connections
/// that nfsd has closed release the module a moment later.
const ATTEMPTS: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);

/// Loads the module.
pub(crate) fn run(system: &System) -> Answer {
    let findings: Vec<Finding> = failure(system).into_iter().collect();
    check::answer(&findings, "svcrdma is loaded")
}

/// Loads the module, or returns why that fails.
fn failure(system: &System) -> Option<Finding> {
    let is_loaded = |name| system.modules().is_loaded(name);
    if is_loaded("svcrdma") {
        return None;
    }
    let forbidden = rights("only root can load a module").or_else(|| obstacle(system));
    if forbidden.is_some() {
        return forbidden;
    }
    let had_rpcrdma = is_loaded("rpcrdma");
    unload_rpcrdma(system);
    let result = modules::run("modprobe", "svcrdma");
    // Success does not show that svcrdma is loaded: if it is not installed, modprobe loads rpcrdma by its
    // alias svcrdma.
    if is_loaded("svcrdma") {
        return None;
    }
    if is_loaded("rpcrdma") {
        return Some(loaded_first(system));
    }
    if had_rpcrdma {
        // The finding below is what matters.
        let _ = modules::run("modprobe", "rpcrdma");
    }
    Some(cannot_load(system, &result.err().unwrap_or_default()))
}

/// Unloads rpcrdma if nothing uses it.
fn unload_rpcrdma(system: &System) {
    let is_held = system.server() == Server::Kernels || !system.rdma_mounts().is_empty();
    for _ in 0..ATTEMPTS {
        let is_loaded = system.modules().is_loaded("rpcrdma");
        if !is_loaded || modules::run("rmmod", "rpcrdma").is_ok() || is_held {
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// Returns the finding for a module that the kernel refuses. `said` is from modprobe.
fn cannot_load(system: &System, said: &str) -> Finding {
    let file = system.modules().file("svcrdma").unwrap_or_default();
    let reason = said.rsplit(": ").next().unwrap_or(said);
    let text = format!("{file} cannot be loaded ({reason})");
    broken("cannot-load", text, "look for the reason in the kernel log")
}

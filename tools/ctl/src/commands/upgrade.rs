// SPDX-License-Identifier: GPL-2.0

//! `upgrade`: checks that the module can be replaced, and starts the program that does it.

use super::check;
use crate::{
    answer::Answer,
    checks::{
        broken,
        module::{
            is_current,
            signature, //
        },
        rights, //
    },
    cli,
    error::{
        Error,
        Result, //
    },
    finding::{
        Finding,
        Level, //
    },
    listener::Listener,
    modules, peer, program,
    setting::RELEASE,
    system::{
        Server,
        System,
        LISTEN, //
    },
};
use serde_json::json;
use std::{
    net::IpAddr,
    path::Path, //
};

/// The program that replaces the module: scripts/upgrade as the package installs it.
const PROGRAM: &str = "/usr/libexec/svcrdma/upgrade";
/// The file that a running replacement has, and one that was cut off leaves.
const CUT_OFF: &str = "/run/svcrdma/upgrade/ports";
const RESTART: &str = "stop nfs-server, rmmod svcrdma (for some seconds it is in use), load the new module, start nfs-server";

/// Replaces the module, unless a check says that this is not possible. Without a path, the installed
/// module is left alone if it is loaded already: all clients would pause for nothing.
pub(crate) fn run(args: &cli::Upgrade, system: &System, json: bool) -> Result<Answer> {
    let failed = |error| Error::failed("no-program", format!("{PROGRAM}: {error}"));
    if !args.check && system.root.exists(CUT_OFF) {
        // A status other than 0 shows in the findings.
        program::command(system.root.path(PROGRAM))
            .arg("--recover")
            .status()
            .map_err(failed)?;
    }
    let findings = findings(args, system);
    if args.check || !findings.is_empty() {
        let good = "the module can be replaced while nfsd runs";
        return Ok(check::answer(&findings, good));
    }
    if args.module.is_none() && is_current(system, &system.modules()) {
        let version = system.version();
        let said =
            "the installed module is loaded already: give its path to replace it nevertheless";
        let json = json!({"replaced": false, "said": said, "version": version});
        return Ok(Answer::new(format!("{said}\n"), json));
    }
    let mut command = program::command(system.root.path(PROGRAM));
    command.arg("--checked").args(&args.module);
    let (status, said) = if json {
        let output = command.output().map_err(failed)?;
        let said = [output.stdout, output.stderr].concat();
        (
            output.status,
            String::from_utf8_lossy(&said).trim().to_owned(),
        )
    } else {
        (command.status().map_err(failed)?, String::new())
    };
    // The program has said why it failed.
    let json = json!({"replaced": status.success(), "said": said, "version": system.version()});
    Ok(Answer::with_status(
        String::new(),
        json,
        if status.success() { 0 } else { 1 },
    ))
}

/// Returns why the module cannot be replaced.
fn findings(args: &cli::Upgrade, system: &System) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(rights("only root can replace the module"));
    findings.extend(program(system));
    match system.server() {
        Server::Ours => {
            findings.extend(release(system));
            findings.extend(nfsd(system));
            findings.extend(listeners(system));
        }
        _ => findings.push(broken(
            "no-module",
            "svcrdma is not loaded, so there is nothing to replace",
            "svcrdmactl load",
        )),
    }
    findings.extend(module(args, system));
    findings
}

/// Checks that the program is installed.
fn program(system: &System) -> Option<Finding> {
    let missing = !system.root.exists(PROGRAM);
    missing.then(|| {
        broken(
            "no-program",
            format!("{PROGRAM} is missing"),
            "install svcrdma-tools",
        )
    })
}

/// Checks that the loaded module can be released from here.
fn release(system: &System) -> Option<Finding> {
    let values = match system.values() {
        Ok(values) => values,
        Err(error) => return Some(Finding::of_error(Level::Unknown, &error)),
    };
    let (here, all) = (values.get("listeners"), values.get("host_listeners"));
    match values.get(RELEASE) {
        None => Some(broken(
            "old-module",
            "the loaded svcrdma has no setting release",
            RESTART,
        )),
        Some(0) if all.is_none() => Some(broken(
            "namespace",
            "this is not the host's network namespace",
            "run this on the host",
        )),
        Some(0) if here != all => Some(broken(
            "namespace",
            "nfsd has RDMA listeners in other network namespaces",
            RESTART,
        )),
        Some(0) => None,
        Some(_) => Some(broken(
            "released",
            "release is 1: another upgrade runs, or was broken off",
            format!("svcrdmactl settings set release 0, then {LISTEN}"),
        )),
    }
}

/// Checks that nfsd runs and can close its RDMA listeners.
fn nfsd(system: &System) -> Option<Finding> {
    let list = system.portlist().unwrap_or_default();
    let is_rdma = |(transport, _): &(String, u64)| transport == "rdma";
    if list.is_empty() || system.threads() == Some(0) {
        let action = "rmmod svcrdma, then load the new module";
        return Some(broken("no-nfsd", "nfsd does not run", action));
    }
    if !list.iter().any(is_rdma) {
        let action = "rmmod svcrdma, then load the new module";
        return Some(broken("no-listener", "nfsd has no RDMA listener", action));
    }
    list.iter().all(is_rdma).then(|| {
        let text = "nfsd needs a listener while it runs, and has only RDMA listeners";
        broken("only-rdma", text, "echo tcp 2049 >/proc/fs/nfsd/portlist")
    })
}

/// Checks that nfsd can create the listeners again while it runs. Without debugfs the program finds
/// out.
fn listeners(system: &System) -> Vec<Finding> {
    let listeners = Listener::all(system).unwrap_or_default();
    let found = listeners.iter().filter_map(|listener| {
        let name = listener.name();
        let address = listener.address.as_deref().and_then(peer::address);
        if listener.is_lost() {
            let text = format!("listener {name} has no device");
            return Some(broken(
                "listener-lost",
                text,
                "try again when the device is back",
            ));
        }
        address
            .filter(|address| !IpAddr::is_unspecified(address))
            .map(|_| {
                let text =
                    format!("nfsd cannot take the listener of one address {name} while it runs");
                broken("single-address", text, RESTART)
            })
    });
    found.collect()
}

/// Checks that the kernel will load the new module.
fn module(args: &cli::Upgrade, system: &System) -> Option<Finding> {
    let kernel = system.kernel();
    let installed = || Some(system.root.path(&system.modules().file("svcrdma")?));
    let Some(file) = args.module.clone().or_else(installed) else {
        let text = format!("no svcrdma is installed for kernel {kernel}");
        return Some(broken(
            "no-module-file",
            text,
            "install svcrdma-modules or svcrdma-dkms, or give a path",
        ));
    };
    let name = file.display();
    if !is_named_svcrdma(&file) {
        return Some(broken(
            "no-module-file",
            format!("{name} is not named svcrdma.ko"),
            "give another path",
        ));
    }
    let Some(fits) = modules::field_of(&file, "vermagic") else {
        return Some(broken(
            "no-module-file",
            format!("{name} is not a kernel module"),
            "give another path",
        ));
    };
    if fits.split(' ').next() != Some(kernel.as_str()) {
        let text = format!("{name} is for another kernel ({fits}), and {kernel} is running");
        return Some(broken(
            "other-kernel",
            text,
            "install the module for this kernel",
        ));
    }
    signature(system, &file)
}

/// Returns true if a file has the name of the module, compressed or not.
fn is_named_svcrdma(file: &Path) -> bool {
    let name = file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    name.is_some_and(|name| name == "svcrdma.ko" || name.starts_with("svcrdma.ko."))
}

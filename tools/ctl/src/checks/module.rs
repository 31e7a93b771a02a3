// SPDX-License-Identifier: GPL-2.0

//! The module: which one serves, and what keeps svcrdma from being loaded.

use super::{
    broken,
    warning, //
};
use crate::{
    finding::{
        Finding,
        Level, //
    },
    modules::{
        self,
        Modules, //
    },
    system::{
        Server,
        System, //
    },
};
use std::path::Path;

/// The families of kernels for which the module is built and tested.
const FAMILIES: [&str; 2] = ["7.3", "7.2"];

/// Returns the findings.
pub(crate) fn findings(system: &System) -> Vec<Finding> {
    let modules = system.modules();
    let found = [
        serving(system, &modules),
        family(system),
        replaced(&modules),
        installed_signature(system, &modules),
        other_build(system, &modules),
    ];
    found.into_iter().flatten().collect()
}

/// Returns the first reason why svcrdma must not or cannot be loaded. A loaded rpcrdma is no such
/// reason, because it can be unloaded.
pub(crate) fn obstacle(system: &System) -> Option<Finding> {
    let modules = system.modules();
    missing(system, &modules)
        .or_else(|| replaced(&modules))
        // If the signature cannot be read, the kernel decides.
        .or_else(|| installed_signature(system, &modules).filter(is_broken))
}

/// Returns the finding that rpcrdma was loaded before svcrdma, and what uses it.
pub(crate) fn loaded_first(system: &System) -> Finding {
    let (id, text) = not_serving(system);
    let mounts = system.rdma_mounts();
    let mut text = format!("{text}, because rpcrdma was loaded first");
    let mut unmount = String::new();
    if !mounts.is_empty() {
        let mounts = mounts.join(" ");
        text += &format!(" and is used by what is mounted over RDMA at {mounts}");
        unmount = format!("umount {mounts}, ");
    } else if system.server() == Server::Nobody && system.modules().references("rpcrdma") != 0 {
        text += " and is used by a mount or an nfsd in a container";
        unmount = "stop that container, ".to_owned();
    }
    let action = format!("stop nfs-server, {unmount}modprobe -r rpcrdma, start nfs-server");
    broken(id, text, action)
}

/// Returns the identifier and the text for a host on which svcrdma does not serve.
fn not_serving(system: &System) -> (&'static str, &'static str) {
    match system.server() {
        Server::Kernels => (
            "rpcrdma-serves",
            "the kernel's own server (rpcrdma) serves RDMA instead of svcrdma",
        ),
        _ => ("no-module", "svcrdma is not loaded"),
    }
}

/// Checks that svcrdma serves.
fn serving(system: &System, modules: &Modules<'_>) -> Option<Finding> {
    if system.server() == Server::Ours {
        return not_installed(system, modules);
    }
    let (id, text) = not_serving(system);
    match obstacle(system) {
        Some(finding) if finding.id == id => Some(finding),
        // The obstacle is a finding of its own.
        Some(_) => Some(broken(id, text, "")),
        None if modules.is_loaded("rpcrdma") => Some(loaded_first(system)),
        None => Some(broken(id, text, "modprobe svcrdma")),
    }
}

/// Checks that a module is installed for the running kernel.
fn missing(system: &System, modules: &Modules<'_>) -> Option<Finding> {
    if modules.file("svcrdma").is_some() {
        return None;
    }
    let (id, text) = not_serving(system);
    let kernel = system.kernel();
    let text = format!("{text}, and kernel {kernel} has no svcrdma module");
    let action = format!("install svcrdma-modules-{kernel} or svcrdma-dkms");
    Some(broken(id, text, action))
}

/// Checks that a module is installed for the running kernel, so that svcrdma serves after the next
/// boot, too.
fn not_installed(system: &System, modules: &Modules<'_>) -> Option<Finding> {
    if modules.file("svcrdma").is_some() || family(system).is_some() {
        return None;
    }
    let kernel = system.kernel();
    let text = format!("svcrdma serves, but no module is installed for kernel {kernel}, so that rpcrdma serves after the next boot");
    let action = format!("install svcrdma-modules-{kernel} or svcrdma-dkms");
    Some(warning("not-installed", text, action))
}

/// Checks that the kernel is one of those that are supported.
fn family(system: &System) -> Option<Finding> {
    let kernel = system.kernel();
    let mut parts = kernel.split(['.', '-', '+']);
    let family = format!("{}.{}", parts.next()?, parts.next()?);
    if FAMILIES.contains(&family.as_str()) {
        return None;
    }
    let level = match system.server() {
        Server::Ours => Level::Warning,
        _ => Level::Broken,
    };
    let text = format!("kernel {kernel} is not of a supported family");
    let action = format!("boot a kernel of {}", FAMILIES.join(" or "));
    Some(Finding::new(level, "unsupported-kernel", text, action))
}

/// Checks that no package replaces the modules of the kernel that svcrdma is built against.
fn replaced(modules: &Modules<'_>) -> Option<Finding> {
    let file = modules.foreign()?;
    Some(broken(
        "replaced-module",
        format!("{file} replaces a module of the kernel (DOCA or OFED), and svcrdma was not built for it"),
        "remove that package",
    ))
}

/// Checks that the kernel accepts the signature of the installed module.
fn installed_signature(system: &System, modules: &Modules<'_>) -> Option<Finding> {
    signature(system, &system.root.path(&modules.file("svcrdma")?))
}

/// Checks that the kernel accepts the signature of the module file `path`, if it loads signed modules
/// only.
pub(crate) fn signature(system: &System, path: &Path) -> Option<Finding> {
    let why = system.needs_signatures()?;
    let file = path.display();
    if modules::field_of(path, "vermagic").is_none() {
        let text = format!("the signature of {file} cannot be read");
        let action = "install kmod, and look at the file";
        return Some(Finding::new(
            Level::Unknown,
            "unsigned-module",
            text,
            action,
        ));
    }
    let Some(signer) = modules::field_of(path, "signer") else {
        let text = format!("{file} has no signature, and {why} allows signed modules only");
        let action = "sign it with an enrolled key";
        return Some(broken("unsigned-module", text, action));
    };
    (!system.knows_key(&signer)?).then(|| {
        let text = format!(
            "{file} is signed by {signer:?}, the kernel has no key of that name, and {why} requires one"
        );
        broken("unknown-key", text, "mokutil --import its key, and reboot")
    })
}

/// Returns true for a finding of something that stops the service.
fn is_broken(finding: &Finding) -> bool {
    finding.level == Level::Broken
}

/// Returns the versions of the loaded and of the installed module.
fn versions(system: &System, modules: &Modules<'_>) -> Option<(String, String)> {
    let installed = modules.field(&modules.file("svcrdma")?, "version")?;
    Some((system.version()?, installed))
}

/// Returns true if the loaded module is known to be the installed one.
pub(crate) fn is_current(system: &System, modules: &Modules<'_>) -> bool {
    versions(system, modules).is_some_and(|(loaded, installed)| loaded == installed)
}

/// Checks that the loaded module is the installed one.
fn other_build(system: &System, modules: &Modules<'_>) -> Option<Finding> {
    let (loaded, installed) = versions(system, modules)?;
    if loaded == installed {
        return None;
    }
    let text = format!("svcrdma {loaded} is loaded, and {installed} is installed");
    Some(warning("other-build", text, "svcrdmactl upgrade"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_those_of_the_build() {
        let script = include_str!("../../../../scripts/lib.sh");
        let line = format!("\nsupported=({})\n", FAMILIES.join(" "));
        assert!(script.contains(&line), "scripts/lib.sh has no line {line}");
    }
}

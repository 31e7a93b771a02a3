// SPDX-License-Identifier: GPL-2.0

//! Kernel modules: those that are loaded, and their files on disk.

use crate::{
    program,
    root::Root, //
};
use std::path::Path;

/// Modules that svcrdma is built against, and the one that it replaces.
const STACK: [&str; 3] = ["ib_core", "rdma_cm", "rpcrdma"];
/// Folders of packages that replace modules of the kernel.
const FOREIGN: [&str; 2] = ["updates/", "extra/"];

/// The modules of one kernel.
#[derive(Debug)]
pub(crate) struct Modules<'a> {
    root: &'a Root,
    folder: String,
    /// `modules.dep`: each line begins with the path of a module and a colon.
    index: String,
}

impl<'a> Modules<'a> {
    /// Reads the list of the modules of `kernel`.
    pub(crate) fn new(root: &'a Root, kernel: String) -> Self {
        let folder = format!("/lib/modules/{kernel}");
        let index = root.read(&format!("{folder}/modules.dep"));
        Self {
            root,
            index: index.unwrap_or_default(),
            folder,
        }
    }

    /// Returns true if a module is loaded.
    pub(crate) fn is_loaded(&self, name: &str) -> bool {
        self.root.exists(&format!("/sys/module/{name}/refcnt"))
            || self.root.exists(&format!("/sys/module/{name}/initstate"))
    }

    /// Returns the number of users of a loaded module.
    pub(crate) fn references(&self, name: &str) -> u64 {
        let count = self.root.line(&format!("/sys/module/{name}/refcnt"));
        count.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Returns the path of the module that modprobe loads, below the folder of the kernel.
    fn relative(&self, name: &str) -> Option<&str> {
        let paths = self
            .index
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0));
        let mut named = paths.filter(|path| module_name(path) == name);
        named.next()
    }

    /// Returns the absolute path of the module that modprobe loads.
    pub(crate) fn file(&self, name: &str) -> Option<String> {
        let path = self.relative(name)?;
        Some(format!("{}/{path}", self.folder))
    }

    /// Returns a file or the name of a loaded module that does not come with the kernel, among
    /// those that svcrdma is built against: DOCA or OFED is installed.
    pub(crate) fn foreign(&self) -> Option<String> {
        let is_foreign = |path: &str| FOREIGN.iter().any(|folder| path.starts_with(folder));
        let installed = STACK
            .iter()
            .find(|name| self.relative(name).is_some_and(is_foreign))
            .and_then(|name| self.file(name));
        installed.or_else(|| {
            let mut stack = STACK.iter();
            let name = stack.find(|name| self.taints(name).contains('O'))?;
            Some(format!("the loaded {name}"))
        })
    }

    /// Returns the letters by which a loaded module taints the kernel; O is for modules from
    /// elsewhere.
    fn taints(&self, name: &str) -> String {
        let taints = self.root.line(&format!("/sys/module/{name}/taint"));
        taints.unwrap_or_default()
    }

    /// Returns a field of a module file, such as `vermagic`, or nothing if it is empty or the file
    /// is not a module. modinfo(8) also reads compressed files.
    pub(crate) fn field(&self, file: &str, field: &str) -> Option<String> {
        field_of(&self.root.path(file), field)
    }
}

/// Returns a field of the module file `path`, as [`Modules::field`] does.
pub(crate) fn field_of(path: &Path, field: &str) -> Option<String> {
    let output = program::command("modinfo")
        .args(["-F", field])
        .arg(path)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Runs a program that loads or unloads a module, or returns what it printed.
pub(crate) fn run(program: &str, module: &str) -> Result<(), String> {
    let output = crate::program::command(program)
        .arg(module)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Returns the name under which the file `path` is loaded.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.split_once(".ko").map_or(file, |(stem, _)| stem);
    stem.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        assert_eq!(module_name("updates/dkms/svcrdma.ko.xz"), "svcrdma");
        assert_eq!(module_name("kernel/net/x/rdma-cm.ko"), "rdma_cm");
    }
}

// SPDX-License-Identifier: GPL-2.0

//! `report`: one archive with what a fault report needs.
//!
//! The archive has no names of exports, files or users. It names addresses of peers and hosts unless
//! they are masked. Each of its files is bounded.

use super::{
    check,
    status, //
};
use crate::{
    answer::Answer,
    atomic, cli,
    error::{
        Error,
        Result, //
    },
    human::plural,
    kernel_log::KernelLog,
    mask::Mask,
    root::Gap,
    system::{
        System,
        DEBUGFS,
        SYSCTL, //
    },
};
use flate2::{
    write::GzEncoder,
    Compression, //
};
use serde_json::json;
use std::{
    io,
    path::PathBuf,
    time::{
        SystemTime,
        UNIX_EPOCH, //
    },
};

/// The folder in the archive.
const FOLDER: &str = "svcrdma-report";
/// Files that are copied.
const FILES: &[&str] = &[
    "/proc/version",
    "/proc/meminfo",
    "/proc/sys/kernel/tainted",
    "/proc/net/rpc/nfsd",
    "/proc/fs/nfsd/portlist",
    "/proc/fs/nfsd/threads",
    "/proc/fs/nfsd/versions",
    "/proc/fs/nfsd/max_block_size",
    "/proc/fs/nfsd/pool_stats",
    "/sys/kernel/security/lockdown",
    "/sys/module/module/parameters/sig_enforce",
    "/sys/module/svcrdma/version",
    "/sys/module/svcrdma/srcversion",
    "/sys/module/svcrdma/taint",
    "/sys/module/svcrdma/refcnt",
    "/etc/sysctl.d/90-svcrdma.conf",
    "/etc/default/svcrdma",
];
/// Folders whose files are copied.
const FOLDERS: &[&str] = &[
    SYSCTL,
    DEBUGFS,
    "/sys/module/svcrdma/parameters",
    "/proc/sys/sunrpc/svc_rdma",
];
/// The folder of the RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";
/// Files of each RDMA device and of each of its ports.
const DEVICE: &[&str] = &["node_type", "fw_ver", "hca_type", "board_id", "hw_rev"];
const PORT: &[&str] = &["state", "phys_state", "link_layer", "rate"];
/// Folders of counters of each port.
const PORT_COUNTERS: &[&str] = &["hw_counters", "counters"];
/// The most bytes of a file of the archive. The table of 10,000 connections has fewer.
const FILE: usize = 4 << 20;
/// The most names of a folder whose files are copied, and the most devices.
const NAMES: usize = 256;

/// Writes the archive.
pub(crate) fn run(args: &cli::Report, system: &System) -> Result<Answer> {
    let mut report = Report {
        system,
        mask: args.mask.then(|| Mask::new(&system.root)),
        files: Vec::new(),
        gaps: Vec::new(),
        cuts: Vec::new(),
    };
    report.collect();
    let path = args.output.clone().unwrap_or_else(default_path);
    let written = report
        .archive()
        .and_then(|archive| atomic::write(&path, &archive, 0o600));
    written.map_err(|error| Error::not_written(&path, &error))?;
    Ok(report.answer(&path))
}

/// Returns the name of an archive in the current folder.
fn default_path() -> PathBuf {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    PathBuf::from(format!("svcrdma-report-{}.tar.gz", now.as_secs()))
}

/// The content of the archive.
struct Report<'a> {
    system: &'a System,
    mask: Option<Mask>,
    /// Names and contents.
    files: Vec<(String, String)>,
    /// Files that may not be read.
    gaps: Vec<String>,
    /// Files and folders that are longer than their parts in the archive.
    cuts: Vec<String>,
}

impl Report<'_> {
    /// Keeps the mask from versions of firmware, which may look like addresses.
    fn keep_versions(&mut self) {
        let Some(mask) = &mut self.mask else {
            return;
        };
        for device in self.system.root.names(DEVICES).unwrap_or_default() {
            let version = self.system.root.line(&format!("{DEVICES}/{device}/fw_ver"));
            mask.keep(&version.unwrap_or_default());
        }
    }

    /// Collects all files. The kernel log comes first, as the mask learns names from it.
    fn collect(&mut self) {
        self.keep_versions();
        self.add_log();
        self.add(
            "status.json",
            &format!("{}\n", status::run(self.system).object("status")),
        );
        self.add("check", &check::run(self.system).text);
        FILES.iter().for_each(|path| self.copy(path));
        FOLDERS.iter().for_each(|folder| self.copy_folder(folder));
        self.copy_devices();
        self.add_modules();
        let names: Vec<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        let text = format!(
            "State of the NFS/RDMA server of one host.\n\nFiles:\n  {}\n\nNot readable:\n  {}\n\nCut:\n  {}\n",
            names.join("\n  "),
            self.gaps.join("\n  "),
            self.cuts.join("\n  ")
        );
        self.add("README", &text);
    }

    /// Adds a file, with addresses and names masked if that is wanted.
    fn add(&mut self, name: &str, text: &str) {
        let kept = beginning(text);
        let mut content = match &mut self.mask {
            Some(mask) => mask.apply(kept),
            None => kept.to_owned(),
        };
        if kept.len() < text.len() {
            content += "[the rest is left out]\n";
            self.cuts.push(name.to_owned());
        }
        self.files.push((name.to_owned(), content));
    }

    /// Adds a file of the host, unless it does not exist.
    fn copy(&mut self, path: &str) {
        // One more byte tells that the file is longer.
        match self.system.root.read_at_most(path, FILE + 1) {
            Ok(text) => self.add(path.trim_start_matches('/'), &text),
            Err(Gap::Missing) => {}
            Err(_) => self.gaps.push(path.to_owned()),
        }
    }

    /// Returns the names in a folder of the host, if it exists.
    fn names(&mut self, folder: &str) -> Vec<String> {
        let mut names = match self.system.root.names(folder) {
            Ok(names) => names,
            Err(Gap::Missing) => Vec::new(),
            Err(_) => {
                self.gaps.push(folder.to_owned());
                Vec::new()
            }
        };
        if names.len() > NAMES {
            names.truncate(NAMES);
            self.cuts.push(folder.to_owned());
        }
        names
    }

    /// Adds the files of a folder.
    fn copy_folder(&mut self, folder: &str) {
        let names = self.names(folder);
        names
            .iter()
            .for_each(|name| self.copy(&format!("{folder}/{name}")));
    }

    /// Adds what the kernel shows of the RDMA devices. Their GUIDs and GIDs are left out.
    fn copy_devices(&mut self) {
        for device in self.names(DEVICES) {
            let folder = format!("{DEVICES}/{device}");
            DEVICE
                .iter()
                .for_each(|name| self.copy(&format!("{folder}/{name}")));
            for port in self.names(&format!("{folder}/ports")) {
                let port = format!("{folder}/ports/{port}");
                PORT.iter()
                    .for_each(|name| self.copy(&format!("{port}/{name}")));
                PORT_COUNTERS
                    .iter()
                    .for_each(|name| self.copy_folder(&format!("{port}/{name}")));
            }
        }
    }

    /// Adds the loaded modules without their addresses, and the files of those that matter.
    fn add_modules(&mut self) {
        let loaded = self.system.root.read("/proc/modules").unwrap_or_default();
        let fields = |line: &str| line.split(' ').take(4).collect::<Vec<_>>().join(" ") + "\n";
        let mut text: String = loaded.lines().map(fields).collect();
        let modules = self.system.modules();
        for name in ["svcrdma", "rpcrdma", "ib_core", "rdma_cm", "nfsd", "sunrpc"] {
            let file = modules.file(name).unwrap_or_else(|| "no file".to_owned());
            text += &format!("{name}: {file}\n");
        }
        self.add("modules", &text);
    }

    /// Adds the lines of the kernel log that matter.
    fn add_log(&mut self) {
        let Some(log) = KernelLog::read() else {
            self.gaps.push("kernel log".to_owned());
            return;
        };
        let text = log.text();
        if let Some(mask) = &mut self.mask {
            mask.learn(&text);
        }
        if log.is_cut() {
            self.cuts.push("kernel-log".to_owned());
        }
        self.add("kernel-log", &text);
    }

    /// Returns the archive.
    fn archive(&self) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        for (name, text) in &self.files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(now.as_secs());
            archive.append_data(&mut header, format!("{FOLDER}/{name}"), text.as_bytes())?;
        }
        archive.into_inner()?.finish()
    }

    /// Returns the answer: exit status 3 if parts could not be read.
    fn answer(&self, path: &PathBuf) -> Answer {
        let mut text = format!(
            "{}: {}\n",
            path.display(),
            plural(self.files.len() as u64, "file")
        );
        if !self.gaps.is_empty() {
            text += &format!("not readable, run this as root: {}\n", self.gaps.join(", "));
        }
        if !self.cuts.is_empty() {
            text += &format!("cut, because there is too much: {}\n", self.cuts.join(", "));
        }
        let names: Vec<&String> = self.files.iter().map(|(name, _)| name).collect();
        let json = json!({"file": path, "files": names, "unreadable": self.gaps, "cut": self.cuts});
        Answer::with_status(text, json, if self.gaps.is_empty() { 0 } else { 3 })
    }
}

/// Returns the first lines of a text that a file of the archive may have.
fn beginning(text: &str) -> &str {
    if text.len() <= FILE {
        return text;
    }
    let lines = text.as_bytes()[..FILE]
        .iter()
        .rposition(|byte| *byte == b'\n');
    lines.map_or("", |end| &text[..=end])
}

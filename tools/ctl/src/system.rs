// SPDX-License-Identifier: GPL-2.0

//! The host: which module serves RDMA, nfsd, and what the module shows of itself.

use crate::{
    counter::Values,
    error::{
        Error,
        Result, //
    },
    modules::Modules,
    root::{
        Gap,
        Root, //
    },
    table::{
        Row,
        Table, //
    },
};
use std::path::Path;

/// Counters and settings of the transport.
pub(crate) const SYSCTL: &str = "/proc/sys/sunrpc/svcrdma";
/// Tables of the transport.
pub(crate) const DEBUGFS: &str = "/sys/kernel/debug/svcrdma";
/// The command that adds listeners.
pub(crate) const LISTEN: &str = "svcrdmactl listen add rdma";

/// The action where the loaded module lacks something.
const NEWER: &str = "load a newer version";

/// The module that serves RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// svcrdma.
    Ours,
    /// rpcrdma, the kernel's own.
    Kernels,
    /// None: neither is loaded, or rpcrdma is loaded as a client and nfsd has no RDMA listener.
    Nobody,
}

impl Server {
    /// Returns the name of the module.
    pub(crate) fn module(self) -> Option<&'static str> {
        match self {
            Server::Ours => Some("svcrdma"),
            Server::Kernels => Some("rpcrdma"),
            Server::Nobody => None,
        }
    }
}

/// The host, seen through the files below a root.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) root: Root,
}

impl System {
    /// Creates the host below `root`. Reads nothing yet.
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: Root::new(root),
        }
    }

    /// Returns the version of the running kernel, or `unknown`.
    pub(crate) fn kernel(&self) -> String {
        let release = self.root.line("/proc/sys/kernel/osrelease");
        release.unwrap_or_else(|| "unknown".to_owned())
    }

    /// Returns the modules of the host.
    pub(crate) fn modules(&self) -> Modules<'_> {
        Modules::new(&self.root, self.kernel())
    }

    /// Returns the module that serves RDMA. Whichever of both is loaded first registers the
    /// transport class, and svcrdma cannot be loaded second.
    pub(crate) fn server(&self) -> Server {
        if self.modules().is_loaded("svcrdma") {
            Server::Ours
        } else if self.modules().is_loaded("rpcrdma") && !self.rdma_ports().is_empty() {
            Server::Kernels
        } else {
            Server::Nobody
        }
    }

    /// Returns the version of the loaded svcrdma.
    pub(crate) fn version(&self) -> Option<String> {
        self.root.line("/sys/module/svcrdma/version")
    }

    /// Returns the lines of nfsd's list of listeners: transport and port.
    pub(crate) fn portlist(&self) -> Result<Vec<(String, u64)>, Gap> {
        let text = self.root.read("/proc/fs/nfsd/portlist")?;
        let ports = text.lines().filter_map(|line| {
            let (transport, port) = line.trim().split_once(' ')?;
            Some((transport.to_owned(), port.parse().ok()?))
        });
        Ok(ports.collect())
    }

    /// Returns the ports of nfsd's RDMA listeners in this network namespace, without repeats.
    pub(crate) fn rdma_ports(&self) -> Vec<u64> {
        let list = self.portlist().unwrap_or_default();
        let rdma = list.into_iter().filter(|(name, _)| name == "rdma");
        let mut ports: Vec<u64> = rdma.map(|(_, port)| port).collect();
        ports.dedup();
        ports
    }

    /// Returns the folders that are mounted over NFS/RDMA, as far as this process sees them.
    pub(crate) fn rdma_mounts(&self) -> Vec<String> {
        let text = self.root.read("/proc/mounts").unwrap_or_default();
        let mounts = text.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (folder, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let is_rdma = options
                .split(',')
                .any(|option| matches!(option, "proto=rdma" | "proto=rdma6"));
            (kind.starts_with("nfs") && is_rdma).then(|| folder.to_owned())
        });
        mounts.collect()
    }

    /// Returns the number of nfsd threads, or nothing if nfsd's files cannot be read.
    pub(crate) fn threads(&self) -> Option<u64> {
        self.root.line("/proc/fs/nfsd/threads")?.parse().ok()
    }

    /// Returns the number of RPCs that nfsd has received over all transports.
    pub(crate) fn rpcs(&self) -> Option<u64> {
        let text = self.root.read("/proc/net/rpc/nfsd").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("rpc "))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Returns the counters and settings of the module.
    pub(crate) fn values(&self) -> Result<Values> {
        Values::read(&self.root).map_err(|gap| self.explain(gap, SYSCTL))
    }

    /// Reads a table of the module.
    pub(crate) fn table(&self, name: &str) -> Result<Table> {
        let path = format!("{DEBUGFS}/{name}");
        let text = self.root.read(&path);
        let text = text.map_err(|gap| self.explain(gap, &path))?;
        Ok(Table::parse(&text))
    }

    /// Returns the rows of a table of the module, and none if it cannot be read.
    pub(crate) fn rows(&self, name: &str) -> Vec<Row> {
        self.table(name)
            .map_or_else(|_| Vec::new(), |table| table.rows)
    }

    /// Reads a table that must have some columns.
    pub(crate) fn table_with(&self, name: &str, columns: &[&str]) -> Result<Table> {
        let table = self.table(name)?;
        match columns.iter().find(|title| !table.has(title)) {
            Some(title) => Err(self.no_column(name, title)),
            None => Ok(table),
        }
    }

    /// Returns the error for a column that a module of another version does not have.
    pub(crate) fn no_column(&self, table: &str, title: &str) -> Error {
        let version = self.version().unwrap_or_else(|| "unknown".to_owned());
        Error::unknown(
            "no-column",
            format!("svcrdma {version} does not show {title} in its table {table}"),
        )
        .with_action(NEWER)
    }

    /// Returns the mode of the kernel's lockdown, unless it is off: `integrity` or
    /// `confidentiality`.
    pub(crate) fn lockdown(&self) -> Option<String> {
        let text = self.root.line("/sys/kernel/security/lockdown")?;
        let (_, rest) = text.split_once('[')?;
        let (mode, _) = rest.split_once(']')?;
        (mode != "none").then(|| mode.to_owned())
    }

    /// Returns what makes the kernel load signed modules only, or nothing if it loads others as well.
    pub(crate) fn needs_signatures(&self) -> Option<String> {
        let enforced = self.root.line("/sys/module/module/parameters/sig_enforce");
        match self.lockdown() {
            Some(mode) => Some(format!("lockdown ({mode})")),
            None => (enforced.as_deref() == Some("Y")).then(|| "module.sig_enforce".to_owned()),
        }
    }

    /// Returns true if the kernel has a key of `signer`, the name of its certificate. Returns nothing if
    /// its keys cannot be seen.
    pub(crate) fn knows_key(&self, signer: &str) -> Option<bool> {
        let text = self.root.read("/proc/keys").ok()?;
        let mut keys = text
            .lines()
            .filter_map(|line| Some(line.split_once(" asymmetri ")?.1))
            .peekable();
        keys.peek()?;
        // The description is the name, perhaps after that of an organisation, and the identifier:
        // x509_key_preparse() of crypto/asymmetric_keys/x509_public_key.c.
        let name = format!(" {signer}: ");
        Some(keys.any(|key| format!(" {key}").contains(&name)))
    }

    /// Returns why a file of svcrdma cannot be read, and what to do.
    fn explain(&self, gap: Gap, path: &str) -> Error {
        match gap {
            Gap::Missing => self.explain_missing(path),
            Gap::Denied => match self.lockdown() {
                Some(mode) if path.starts_with(DEBUGFS) => Error::unknown(
                    "no-debugfs",
                    format!(
                        "the kernel's lockdown ({mode}) or missing rights forbid to read {path}"
                    ),
                ),
                _ => no_rights(path),
            },
            Gap::Other(error) => Error::unknown("unreadable", format!("{path}: {error}")),
        }
    }

    /// Returns why a file of svcrdma does not exist, and what to do.
    fn explain_missing(&self, path: &str) -> Error {
        match self.server() {
            Server::Kernels => Error::unknown(
                "rpcrdma-serves",
                "the kernel's own server (rpcrdma) serves RDMA",
            )
            .with_action("svcrdmactl check says what to do"),
            Server::Nobody => no_module(),
            Server::Ours if !path.starts_with(DEBUGFS) => old_module(path),
            Server::Ours => self.explain_debugfs(path),
        }
    }

    /// Returns why a file in debugfs does not exist although svcrdma is loaded.
    fn explain_debugfs(&self, path: &str) -> Error {
        match self.root.names("/sys/kernel/debug") {
            Err(Gap::Denied) => no_rights(path),
            Ok(names) if !names.is_empty() => old_module(path),
            _ => Error::unknown("no-debugfs", "debugfs is not mounted")
                .with_action("mount -t debugfs debugfs /sys/kernel/debug"),
        }
    }
}

/// Returns the error for a host on which no module serves RDMA.
pub(crate) fn no_module() -> Error {
    Error::unknown("no-module", "svcrdma is not loaded").with_action("svcrdmactl load")
}

/// Returns the error for a part that the loaded module lacks.
pub(crate) fn old_module(part: &str) -> Error {
    Error::unknown("old-module", format!("the loaded svcrdma has no {part}")).with_action(NEWER)
}

/// Returns the error for a file that other users may not read.
fn no_rights(path: &str) -> Error {
    Error::unknown("no-rights", format!("{path} cannot be read")).with_action("run this as root")
}

// SPDX-License-Identifier: GPL-2.0

//! The command line: a struct for each command.

use crate::{
    connection::Sort,
    latency::Kind,
    peer::Filter, //
};
use clap::{
    Args,
    Parser,
    Subcommand,
    ValueEnum, //
};
use clap_complete::Shell;
use std::path::{
    Path,
    PathBuf, //
};

/// The version of the packages, or that of the crate for builds by hand.
const VERSION: &str = match option_env!("SVCRDMA_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

const STATUSES: &str = "\
Exit status: 0 done, or all is good; 1 failed or refused, or check has a warning; 2 check, load or \
upgrade has found something broken, or the command line is wrong; 3 could not be found out (no \
module, no rights, no \
debugfs, an older module).";

/// Shows, checks and tunes svcrdma, the NFS/RDMA server of this host
#[derive(Debug, Parser)]
#[command(name = "svcrdmactl", version = VERSION, after_help = STATUSES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Print one line of JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Directory below which all files are read and written
    #[cfg(feature = "test-root")]
    #[arg(
        long,
        global = true,
        hide = true,
        value_name = "DIR",
        default_value = "/"
    )]
    root: PathBuf,
    /// Directory that stands for --root at the second of two looks
    #[cfg(feature = "test-root")]
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    next: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Returns the directory below which all files are read and written.
    pub(crate) fn root(&self) -> &Path {
        #[cfg(feature = "test-root")]
        return &self.root;
        #[cfg(not(feature = "test-root"))]
        Path::new("/")
    }

    /// Returns the directory for the second of two looks.
    pub(crate) fn next(&self) -> &Path {
        #[cfg(feature = "test-root")]
        return self.next.as_deref().unwrap_or(&self.root);
        #[cfg(not(feature = "test-root"))]
        self.root()
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show which module serves RDMA, its listeners, devices, connections, memory and warnings
    ///
    /// A value that cannot be read is shown as `-`.
    Status,
    /// List the connections
    ///
    /// PHASE is `established` once the client is accepted. MEMORY is 4 KiB for each Receive buffer, and the
    /// memory of Calls and Replies. CALLS/S, IN/S (bytes that clients write by RDMA) and OUT/S (bytes that
    /// they read) are rates. INLINE is the part of all bytes that went in messages and not by RDMA.
    /// UNANSWERED counts Calls, and CREDITS is the most that the next Reply grants. BEHIND is the time for
    /// which the client has been behind, see stall_seconds. p50, p99 and p99.9 are upper bounds of the
    /// latency: 50, 99 and 99.9 % of the timed Calls took less. The bounds are powers of two, in
    /// microseconds. `>` marks a lower bound, where the time lies in the last bucket of the histogram. `-`
    /// means that no Call was timed, or that the module has no table `latency`.
    Connections(Connections),
    /// Show connections and rates live
    ///
    /// Keys: q quits; m, r, a and l sort by memory, rate, age and latency.
    Top(Top),
    /// List the RDMA devices
    ///
    /// SERVES is `used` from the first connection on, or `unused`. RECEIVES counts buffers. PAGES is the
    /// memory for Calls with Read chunks, FREE the part of it that no Call has, and WAITING the number of
    /// Calls that wait for it. Shows less where rpcrdma serves.
    Devices,
    /// List nfsd's RDMA listeners
    ///
    /// STATE is `listening`, or `lost` if no device has the address. NET is the inode number of the network
    /// namespace. Shows less where rpcrdma serves.
    Listeners,
    /// List, add and remove listeners of nfsd
    #[command(subcommand, name = "listen")]
    Listener(Listener),
    /// List the connections that closed last, with their reasons
    ///
    /// AGO is the time since the close. NO is the number of the reason. A line with advice follows for each
    /// abnormal reason.
    Closes(Closes),
    /// Print a line for each event as it happens
    ///
    /// Events are connections that open and close, shortages of pages for Calls, listeners that lose their
    /// device and listen again, and retired lanes. Times are in UTC. The command waits until it is
    /// interrupted, and for svcrdma if that is not loaded. It reads a private trace buffer, so that others
    /// who trace are not disturbed. Lines with `lost` or `unloaded` say where events are missing.
    Watch(Watch),
    /// Show, change, explain or keep settings
    #[command(subcommand)]
    Settings(Settings),
    /// Check the host: one line for each finding, with what to do
    Check(Check),
    /// Load svcrdma, and unload an rpcrdma that nothing uses before that
    ///
    /// The guard runs this before nfsd starts. rpcrdma is loaded again if svcrdma cannot be loaded. Each
    /// reason is one line, as of check; a missing or foreign module or a missing signature is found before
    /// anything changes.
    Load,
    /// Print metrics for Prometheus
    ///
    /// svcrdma_up is 0 where svcrdma is not loaded.
    Metrics(Metrics),
    /// Collect what a fault report needs into a tar.gz
    ///
    /// The archive has status, findings, counters, tables, devices, and the lines of the kernel log about
    /// RDMA, NFS and faults, but no contents or names of files and exports. Each file has at most 4 MiB, a
    /// folder at most 256 files, and the kernel log its first 2,000 and last 8,000 lines; the command names
    /// what it has cut.
    Report(Report),
    /// Replace the loaded module while nfsd runs
    ///
    /// Checks rights, module file, signature, release, nfsd and its listeners, and then runs
    /// /usr/libexec/svcrdma/upgrade. If a check fails, the command prints its findings and changes nothing.
    /// It first mends what a replacement has left that was killed.
    Upgrade(Upgrade),
    /// Print a completion script
    #[command(hide = true)]
    Completion(Completion),
    /// Print the man page, or write those of all commands
    #[command(hide = true)]
    Man(Man),
}

impl Command {
    /// Returns the name in JSON.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Command::Status => "status",
            Command::Connections(_) => "connections",
            Command::Top(_) => "top",
            Command::Devices => "devices",
            Command::Listeners => "listeners",
            Command::Listener(_) => "listen",
            Command::Closes(_) => "closes",
            Command::Watch(_) => "watch",
            Command::Settings(_) => "settings",
            Command::Check(_) => "check",
            Command::Load => "load",
            Command::Metrics(_) => "metrics",
            Command::Report(_) => "report",
            Command::Upgrade(_) => "upgrade",
            Command::Completion(_) => "completion",
            Command::Man(_) => "man",
        }
    }
}

/// How connections are selected and shown.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct View {
    /// Order, the largest first
    #[arg(long, value_enum, default_value = "memory")]
    pub(crate) sort: Sort,
    /// Only peers with this address or prefix, such as 10.0.0.7 or fd00::/8
    #[arg(long, value_name = "ADDRESS[/BITS]")]
    pub(crate) peer: Option<Filter>,
    /// Latency to show
    #[arg(long, value_enum, default_value = "server")]
    pub(crate) latency: Kind,
}

/// `connections`
#[derive(Args, Debug)]
pub(crate) struct Connections {
    #[command(flatten)]
    pub(crate) view: View,
    /// Measure rates over SECONDS; --sort rate measures over one second
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    pub(crate) interval: Option<f64>,
}

/// `top`
#[derive(Args, Debug)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) view: View,
    /// Seconds between two frames
    #[arg(long, value_name = "SECONDS", value_parser = interval, default_value = "2")]
    pub(crate) interval: f64,
    /// Print one frame and end, as without a terminal
    #[arg(long)]
    pub(crate) once: bool,
}

/// `closes`
#[derive(Args, Debug)]
pub(crate) struct Closes {
    /// Only abnormal ones
    #[arg(long)]
    pub(crate) abnormal: bool,
    /// Only peers with this address or prefix
    #[arg(long, value_name = "ADDRESS[/BITS]")]
    pub(crate) peer: Option<Filter>,
}

/// `listen`
#[derive(Debug, Subcommand)]
pub(crate) enum Listener {
    /// List nfsd's listeners of all transports in this network namespace
    List,
    /// Let nfsd listen on all addresses, now and each time it starts
    ///
    /// Needs neither a restart nor a stop of nfsd. /etc/nfs.conf.d/svcrdma.conf keeps the port, unless
    /// another file does; nfsd keeps one RDMA port.
    Add(ListenerChange),
    /// Remove a listener of the next start of nfsd
    ///
    /// A running nfsd removes no listener. The command then fails, and the listener is gone after a restart
    /// of nfsd.
    Remove(ListenerPort),
}

/// The listener to remove.
#[derive(Args, Debug)]
pub(crate) struct ListenerPort {
    /// The transport
    #[arg(value_parser = ["rdma"])]
    pub(crate) transport: String,
    /// The port
    #[arg(default_value = "20049", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
}

/// The listener to add.
#[derive(Args, Debug)]
pub(crate) struct ListenerChange {
    /// The transport
    #[arg(value_parser = ["rdma"])]
    pub(crate) transport: String,
    /// The port
    #[arg(default_value = "20049", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Change no file, so that the next start of nfsd undoes it
    #[arg(long)]
    pub(crate) runtime: bool,
}

/// `watch`
#[derive(Args, Debug)]
pub(crate) struct Watch {
    /// Only connections of peers with this address or prefix
    #[arg(long, value_name = "ADDRESS[/BITS]")]
    pub(crate) peer: Option<Filter>,
    /// Only these kinds of events
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND")]
    pub(crate) event: Vec<EventKind>,
}

/// A kind of event that `watch` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventKind {
    Opened,
    Closed,
    Shortage,
    Listener,
    Lane,
}

/// `settings`
#[derive(Debug, Subcommand)]
pub(crate) enum Settings {
    /// Show settings with their defaults and bounds
    Get {
        /// Names; all if none is given
        name: Vec<String>,
    },
    /// Change a setting until the module is unloaded, or nfs-server starts with another value in
    /// /etc/sysctl.d
    Set {
        /// Name of the setting
        name: String,
        /// New value: a number; of accept_from any number of prefixes, or any
        #[arg(required = true)]
        value: Vec<String>,
    },
    /// Explain settings
    Explain {
        /// Names; all if none is given
        name: Vec<String>,
    },
    /// Write the values that differ from the defaults to /etc/sysctl.d/90-svcrdma.conf
    ///
    /// The file is applied each time the module is loaded. Its other lines stay; a file that cannot be read
    /// is an error. Names files that are applied later and set something else, and values that the module
    /// refuses.
    Persist {
        /// Write these settings, whatever their values, and leave the other lines alone
        name: Vec<String>,
    },
}

/// `check`
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// Look twice, SECONDS apart, and judge what devices and interfaces have counted meanwhile
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    pub(crate) watch: Option<f64>,
}

/// `metrics`
#[derive(Args, Debug)]
pub(crate) struct Metrics {
    /// Replace FILE as a whole, for the textfile collector of the node exporter
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `report`
#[derive(Args, Debug)]
pub(crate) struct Report {
    /// File to write; svcrdma-report-TIME.tar.gz here if not given
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the addresses of peers by peer1 and so on, and the names of hosts by host1 and so on
    ///
    /// Names are that of this host, those in /etc/hosts, those in messages of the kernel's lock manager and
    /// RPC client, and all with a domain. Device and interface names stay. Search the archive for names that
    /// you want to keep secret before you send it.
    #[arg(long)]
    pub(crate) mask: bool,
}

/// `upgrade`
#[derive(Args, Debug)]
pub(crate) struct Upgrade {
    /// Only check whether it can be done
    #[arg(long)]
    pub(crate) check: bool,
    /// The new module; the installed one if not given
    #[arg(value_name = "PATH/svcrdma.ko")]
    pub(crate) module: Option<PathBuf>,
}

/// `completion`
#[derive(Args, Debug)]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// `man`
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Write the pages of all commands to DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

/// Parses a number of seconds.
fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.1 to 3600".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

// SPDX-License-Identifier: GPL-2.0

//! `listen`: adds, removes and lists nfsd's listeners.
//!
//! A listener is added through nfsd's file `portlist`, which leaves all others alone and works while
//! nfsd has threads. The netlink command that replaces all listeners is refused then. It is used to
//! remove one, for which nfsd has no other way.

use crate::{
    answer::Answer,
    cli::{
        self,
        ListenerChange, //
    },
    columns::Columns,
    error::{
        Error,
        Result, //
    },
    human::or_dash,
    nfs_conf::{
        self,
        Kept, //
    },
    nfsd,
    system::{
        self,
        Server,
        System, //
    },
};
use serde_json::{
    json,
    Value, //
};
use std::{
    fs::OpenOptions,
    io::{
        self,
        ErrorKind,
        Write, //
    },
};

const PORTLIST: &str = "/proc/fs/nfsd/portlist";
/// The transport that can be added and removed.
const RDMA: &str = "rdma";
/// Numbers of errors: EBUSY, EPROTONOSUPPORT.
const BUSY: i32 = 16;
const NO_PROTOCOL: i32 = 93;

/// Runs a subcommand.
pub(crate) fn run(args: &cli::Listener, system: &System) -> Result<Answer> {
    match args {
        cli::Listener::List => list(system),
        cli::Listener::Add(change) => add(change, system),
        cli::Listener::Remove(change) => remove(change, system),
    }
}

/// Lists the listeners of all transports.
fn list(system: &System) -> Result<Answer> {
    let mut columns = Columns::new(&["TRANSPORT", "ADDRESS", ">PORT"]);
    let mut list = Vec::new();
    for socket in nfsd::listeners(system)? {
        let ip = socket.address().map(|address| address.ip().to_string());
        let port = socket.address().map(|address| address.port());
        columns.push(vec![
            socket.transport.clone(),
            or_dash(ip.clone(), |ip| ip),
            or_dash(port, |port| port.to_string()),
        ]);
        list.push(json!({"transport": socket.transport, "address": ip, "port": port}));
    }
    Ok(Answer::new(columns.text(), json!({"listeners": list})))
}

/// Adds listeners of all addresses.
fn add(change: &ListenerChange, system: &System) -> Result<Answer> {
    match system.server() {
        Server::Ours => {}
        // Adding one would load rpcrdma.
        Server::Nobody => return Err(system::no_module()),
        Server::Kernels => return Err(system.values().err().unwrap_or_else(system::no_module)),
    }
    let port = change.port;
    let has_it = nfsd::listeners(system)?.iter().any(|socket| {
        let is_of_all = |address: std::net::SocketAddr| address.ip().is_unspecified();
        socket.is(RDMA, port) && socket.address().is_some_and(is_of_all)
    });
    // Before the listener is added, as it may be refused.
    let kept = match change.runtime {
        true => Kept::default(),
        false => nfs_conf::keep(system, port)?,
    };
    if !has_it {
        write_port(system, port).map_err(|error| explain(port, &error))?;
    }
    let text = match has_it {
        true => format!("nfsd listens on RDMA port {port} already\n"),
        false => format!("nfsd listens on RDMA port {port}\n"),
    };
    Ok(answer(port, !has_it, &kept, text))
}

/// Adds listeners of IPv4 and IPv6.
fn write_port(system: &System, port: u16) -> io::Result<()> {
    let path = system.root.path(PORTLIST);
    // One write, as the kernel takes each for a request.
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(format!("{RDMA} {port}\n").as_bytes())
}

/// Returns why nfsd does not listen.
fn explain(port: u16, error: &io::Error) -> Error {
    let refused = |why: &str| Error::failed("refused", format!("RDMA port {port}: {why}"));
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::PermissionDenied, _) => {
            Error::unknown("no-rights", format!("{PORTLIST} cannot be written"))
                .with_action("run this as root")
        }
        (ErrorKind::NotFound, _) => Error::failed("no-nfsd", "nfsd's files are not mounted")
            .with_action("mount -t nfsd nfsd /proc/fs/nfsd"),
        (ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable, _) => refused(
            "another listener has it, of one address or of another network namespace or program",
        )
        .with_action("svcrdmactl listen list, or give another port"),
        (_, Some(BUSY)) => refused("svcrdma refuses listeners while release is 1")
            .with_action("svcrdmactl settings set release 0"),
        (_, Some(NO_PROTOCOL)) => {
            refused("the kernel has no RDMA transport").with_action("svcrdmactl load")
        }
        _ => refused(&error.to_string()).with_action("look at the kernel log"),
    }
}

/// Removes the listeners of a port.
fn remove(change: &ListenerChange, system: &System) -> Result<Answer> {
    let port = change.port;
    let all = nfsd::listeners(system)?;
    let (gone, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|socket| socket.is(RDMA, port));
    let has_threads = system.threads().is_some_and(|threads| threads > 0);
    if !gone.is_empty() && has_threads && change.runtime {
        return Err(keeps(port).with_action(
            "systemctl stop nfs-server, or without --runtime it is removed at the next start",
        ));
    }
    let kept = match change.runtime {
        true => Kept::default(),
        false => nfs_conf::forget(system, port)?,
    };
    match (gone.is_empty(), has_threads) {
        (true, _) => {
            let text = format!("nfsd does not listen on RDMA port {port}\n");
            Ok(answer(port, false, &kept, text))
        }
        (false, true) => Err(keeps(port).with_action(match kept.overruled.first() {
            None => "systemctl restart nfs-server, after which it is gone".to_owned(),
            Some(file) => format!("change {file}, which adds it, and systemctl restart nfs-server"),
        })),
        (false, false) => {
            nfsd::keep_listeners(system, &rest)?;
            let text = format!("nfsd listens no longer on RDMA port {port}\n");
            Ok(answer(port, true, &kept, text))
        }
    }
}

/// Returns the error for a listener that nfsd cannot remove now.
fn keeps(port: u16) -> Error {
    let text = format!("nfsd keeps the listener of RDMA port {port} while it has threads");
    Error::failed("busy", text)
}

/// Returns the answer after a change. `text` says what the listeners are now.
fn answer(port: u16, is_changed: bool, kept: &Kept, mut text: String) -> Answer {
    if kept.is_changed {
        text += &format!("{} has that for the next start of nfsd\n", nfs_conf::FILE);
    }
    for file in &kept.overruled {
        text += &format!("{file} says something else, and nfsd reads it later: change it\n");
    }
    let overruled: Vec<Value> = kept
        .overruled
        .iter()
        .map(|file| json!({"file": file, "name": RDMA}))
        .collect();
    let json = json!({
        "transport": RDMA,
        "port": port,
        "changed": is_changed,
        "file": kept.is_changed.then_some(nfs_conf::FILE),
        "overruled": overruled,
    });
    Answer::new(text, json)
}

// SPDX-License-Identifier: GPL-2.0

//! `listen`: adds, removes and lists nfsd's listeners.
//!
//! A listener is added through nfsd's file `portlist`, which leaves all others alone. An nfsd without
//! threads gets none: a listener would keep it from making its others when it starts. nfsd has no way
//! to remove one listener, so that it is gone after a restart.

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
        cli::Listener::Remove(listener) => remove(listener.port, system),
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
    if system.threads() == Some(0) {
        return add_later(change, system);
    }
    let has_it = nfsd::listeners(system)?.iter().any(|socket| {
        let is_of_all = |address: std::net::SocketAddr| address.ip().is_unspecified();
        socket.is(RDMA, port) && socket.address().is_some_and(is_of_all)
    });
    // Before the listener is added, as it may be refused.
    let kept = match change.runtime {
        true => Kept::default(),
        false => nfs_conf::keep(system, port)?,
    };
    if let Some(error) = (!has_it).then(|| write_port(system, port).err()).flatten() {
        if kept.is_changed {
            nfs_conf::forget(system, port)?;
        }
        return Err(explain(port, &error));
    }
    let text = match has_it {
        true => format!("nfsd listens on RDMA port {port} already\n"),
        false => format!("nfsd listens on RDMA port {port}\n"),
    };
    Ok(answer(port, !has_it, &kept, text))
}

/// Lets an nfsd without threads listen when it starts.
fn add_later(change: &ListenerChange, system: &System) -> Result<Answer> {
    if change.runtime {
        return Err(Error::failed("no-nfsd", "nfsd does not run")
            .with_action("systemctl start nfs-server, and repeat this"));
    }
    let port = change.port;
    let kept = nfs_conf::keep(system, port)?;
    let text = format!("nfsd listens on RDMA port {port} when it starts\n");
    Ok(answer(port, false, &kept, text))
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

/// Lets nfsd not listen on a port when it starts.
fn remove(port: u16, system: &System) -> Result<Answer> {
    let kept = nfs_conf::forget(system, port)?;
    let mut listeners = nfsd::listeners_if_loaded(system)?.into_iter();
    if !listeners.any(|socket| socket.is(RDMA, port)) {
        let text = format!("nfsd does not listen on RDMA port {port}\n");
        return Ok(answer(port, false, &kept, text));
    }
    let text = format!("nfsd keeps the listener of RDMA port {port} until it starts again");
    Err(
        Error::failed("busy", text).with_action(match kept.overruled.first() {
            None => "systemctl restart nfs-server".to_owned(),
            Some(file) => format!("change {file}, which adds it, and systemctl restart nfs-server"),
        }),
    )
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

// SPDX-License-Identifier: GPL-2.0

//! nfs.conf(5): the RDMA port on which nfsd listens when it starts.
//!
//! nfsd has one such port. svcrdmactl writes one file, and never changes others.

use crate::{
    atomic,
    error::{
        Error,
        Result, //
    },
    program,
    system::System, //
};
use std::{
    fs,
    io, //
};

/// The file that is written.
pub(crate) const FILE: &str = "/etc/nfs.conf.d/svcrdma.conf";
const FOLDER: &str = "/etc/nfs.conf.d";
/// The file that the guard writes. nfsd reads it last.
const GUARD: &str = "/run/svcrdma/nfs.conf";
/// The first line of the file.
const WRITTEN: &str = "# Written by svcrdmactl listen.";
/// The port without rdma-port.
const DEFAULT: u16 = 20049;

/// The result of a change.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// True if the file was written or removed.
    pub(crate) is_changed: bool,
    /// Files that nfsd reads after this one and that say something else.
    pub(crate) overruled: Vec<String>,
}

/// Returns the RDMA port of nfsd's next start, if it has one, as nfsconf(8) reads all files.
pub(crate) fn port() -> Option<u16> {
    let value = |name| {
        let said = program::said("nfsconf", &["--get", "nfsd", name])?;
        Some(said.trim().trim_matches('"').to_lowercase())
    };
    let is_on = matches!(
        value("rdma")?.as_str(),
        "1" | "t" | "true" | "y" | "yes" | "on"
    );
    let port = value("rdma-port").map_or(Some(DEFAULT), |port| match port.as_str() {
        "nfsrdma" => Some(DEFAULT),
        port => port.parse().ok(),
    });
    port.filter(|_| is_on)
}

/// Makes nfsd listen on `port` when it starts.
///
/// # Errors
///
/// Nothing is changed if nfsd listens on another port then, or if someone else has written the file.
pub(crate) fn keep(system: &System, wanted: u16) -> Result<Kept> {
    match port() {
        Some(port) if port == wanted => return Ok(Kept::default()),
        Some(other) => {
            let text = format!("nfsd keeps one RDMA port, and that is {other}");
            return Err(Error::failed("not-kept", text).with_action(format!(
                "give --runtime, or svcrdmactl listen remove rdma {other} first"
            )));
        }
        None => {}
    }
    check_ours(system)?;
    write(system, &listening(wanted))?;
    Ok(result(system, Some(wanted)))
}

/// Makes nfsd not listen on `port` when it starts.
///
/// # Errors
///
/// Nothing is changed if someone else has written the file.
pub(crate) fn forget(system: &System, unwanted: u16) -> Result<Kept> {
    // Also without nfsconf(8).
    let ours = system.root.read(FILE).unwrap_or_default();
    if port() != Some(unwanted) && ours != content(&listening(unwanted)) {
        return Ok(Kept::default());
    }
    check_ours(system)?;
    remove(system)?;
    if port() == Some(unwanted) {
        // An earlier file says that nfsd listens.
        write(system, "rdma=n\n")?;
    }
    Ok(result(system, None))
}

/// Returns the result of a change after which nfsd should listen on the port `wanted`.
fn result(system: &System, wanted: Option<u16>) -> Kept {
    let overruled = match port() == wanted {
        true => Vec::new(),
        false => later(system),
    };
    Kept {
        is_changed: true,
        overruled,
    }
}

/// Returns the files that nfsd reads after ours and that have a line about RDMA.
fn later(system: &System) -> Vec<String> {
    let names = system.root.names(FOLDER).unwrap_or_default();
    let files = names.into_iter().map(|name| format!("{FOLDER}/{name}"));
    let later = files.filter(|file| file.ends_with(".conf") && file.as_str() > FILE);
    let has_line = |file: &String| {
        let text = system.root.read(file).unwrap_or_default();
        text.lines()
            .any(|line| line.trim_start().starts_with("rdma"))
    };
    later.chain([GUARD.to_owned()]).filter(has_line).collect()
}

/// Returns an error if the file exists and someone else has written it.
fn check_ours(system: &System) -> Result {
    match fs::read(system.root.path(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(&error)),
        Ok(text) if text.starts_with(WRITTEN.as_bytes()) => Ok(()),
        Ok(_) => Err(
            Error::failed("not-kept", format!("{FILE} was not written by svcrdmactl"))
                .with_action("change or rename it, or give --runtime"),
        ),
    }
}

/// Returns the lines with which nfsd listens on `port`.
fn listening(port: u16) -> String {
    format!("rdma=y\nrdma-port={port}\n")
}

/// Returns the content of the file with these lines.
fn content(lines: &str) -> String {
    format!("{WRITTEN}\n[nfsd]\n{lines}")
}

/// Writes the file.
fn write(system: &System, lines: &str) -> Result {
    let path = system.root.path(FILE);
    fs::create_dir_all(system.root.path(FOLDER))
        .and_then(|()| atomic::write(&path, content(lines).as_bytes(), 0o644))
        .map_err(|error| failed(&error))
}

/// Removes the file, if it exists.
fn remove(system: &System) -> Result {
    match fs::remove_file(system.root.path(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&error)),
        _ => Ok(()),
    }
}

/// Returns the error for a file that cannot be read or written.
fn failed(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Error::unknown("no-rights", format!("{FILE} cannot be written"))
                .with_action("run this as root")
        }
        _ => Error::failed("not-written", format!("{FILE}: {error}")),
    }
}

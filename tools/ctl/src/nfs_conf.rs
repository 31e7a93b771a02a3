// SPDX-License-Identifier: GPL-2.0

//! nfs.conf(5): the RDMA port on which nfsd listens when it starts.
//!
//! nfsd has one such port. svcrdmactl writes one file, and never changes others. It keeps the lines that
//! someone else has added to its file, comments included, and removes the file when no line is left.

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
/// The first lines of those that svcrdmactl writes: its comment, and the section.
const WRITTEN: &str = "# Written by svcrdmactl listen.\n";
const SECTION: &str = "[nfsd]\n";
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
/// Nothing is changed if nfsd listens on another port then, or if someone else has written
/// lines about RDMA to the file.
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
    let others = others(system)?;
    write(system, &listening(wanted), &others)?;
    Ok(result(system, Some(wanted)))
}

/// Makes nfsd not listen on `port` when it starts.
///
/// # Errors
///
/// Nothing is changed if someone else has written lines about RDMA to the file.
pub(crate) fn forget(system: &System, unwanted: u16) -> Result<Kept> {
    // Also without nfsconf(8).
    let text = system.root.read(FILE).unwrap_or_default();
    if port() != Some(unwanted) && split(&text).0 != listening(unwanted) {
        return Ok(Kept::default());
    }
    let others = others(system)?;
    write(system, "", &others)?;
    if port() == Some(unwanted) {
        // An earlier file says that nfsd listens.
        write(system, "rdma=n\n", &others)?;
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

/// Returns the lines of the file that others have written.
///
/// # Errors
///
/// Some of them are about RDMA.
fn others(system: &System) -> Result<String> {
    let text = match fs::read_to_string(system.root.path(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text.map_err(|error| failed(&error))?,
    };
    let (_, others) = split(&text);
    let is_about_rdma = |line: &str| line.trim_start().starts_with("rdma");
    if others.lines().any(is_about_rdma) {
        let text = format!("{FILE} has lines about RDMA that svcrdmactl has not written");
        return Err(Error::failed("not-kept", text)
            .with_action("change them or rename the file, or give --runtime"));
    }
    Ok(others)
}

/// Splits the text of the file into the lines about RDMA that svcrdmactl has written, and all others.
/// The comment is in neither, nor is the head of the section below it if no other line needs that.
fn split(text: &str) -> (String, String) {
    let Some((before, rest)) = text.split_once(WRITTEN) else {
        return (String::new(), text.to_owned());
    };
    let Some(rest) = rest.strip_prefix(SECTION) else {
        return (String::new(), format!("{before}{rest}"));
    };
    let end = match rest.starts_with('[') {
        true => 0,
        false => rest.find("\n[").map_or(rest.len(), |at| at + 1),
    };
    let (section, after) = rest.split_at(end);
    let (ours, others): (Vec<&str>, Vec<&str>) = section
        .split_inclusive('\n')
        .partition(|line| is_ours(line));
    let needs_head = |line: &&str| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with(['#', ';'])
    };
    let head = match others.iter().any(needs_head) {
        true => SECTION,
        false => "",
    };
    let others = others.concat();
    (ours.concat(), format!("{before}{head}{others}{after}"))
}

/// Returns true if svcrdmactl writes such a line.
fn is_ours(line: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let line = line.trim_end();
    matches!(line, "rdma=y" | "rdma=n") || line.strip_prefix("rdma-port=").is_some_and(is_port)
}

/// Returns the lines with which nfsd listens on `port`.
fn listening(port: u16) -> String {
    format!("rdma=y\nrdma-port={port}\n")
}

/// Writes the file with `lines` of svcrdmactl and the lines of others, or removes it if it has none.
fn write(system: &System, lines: &str, others: &str) -> Result {
    let text = match lines {
        "" => others.to_owned(),
        lines => format!("{WRITTEN}{SECTION}{lines}{others}"),
    };
    if text.trim().is_empty() {
        return remove(system);
    }
    let path = system.root.path(FILE);
    fs::create_dir_all(system.root.path(FOLDER))
        .and_then(|()| atomic::write(&path, text.as_bytes(), 0o644))
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

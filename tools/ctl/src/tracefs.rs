// SPDX-License-Identifier: GPL-2.0

//! An instance of tracefs: a private trace buffer, which disturbs no other reader of traces.
//!
//! The open trace_pipe keeps an instance from being removed. So an instance that can be removed is
//! one whose program was killed, and the next program removes it.

use crate::{
    error::{
        Error,
        Result, //
    },
    root::Root,
    system::System, //
};
use std::{
    fs::{
        self,
        File,
        OpenOptions, //
    },
    io::{
        self,
        ErrorKind,
        Read, //
    },
    os::{
        fd::{
            AsFd,
            BorrowedFd, //
        },
        unix::fs::OpenOptionsExt, //
    },
    path::{
        Path,
        PathBuf, //
    },
    process, //
};

const TRACING: &str = "/sys/kernel/tracing";
const INSTANCES: &str = "/sys/kernel/tracing/instances";
/// The beginning of the names of instances. The number of the process follows.
const PREFIX: &str = "svcrdmactl-";
/// KiB of the buffer of each CPU, for some thousand events. The kernel's default is 1.4 MiB.
const BUFFER_KIB: &str = "256";
/// Options with which lines are as trace_event.rs parses them, and the oldest ones are lost in a full
/// buffer.
const OPTIONS: [(&str, &str); 8] = [
    ("overwrite", "1"),
    ("context-info", "1"),
    ("raw", "0"),
    ("hex", "0"),
    ("bin", "0"),
    ("fields", "0"),
    ("block", "0"),
    ("latency-format", "0"),
];
/// The most names that are tried.
const TRIALS: u32 = 8;

/// An instance. Dropping it removes the instance.
#[derive(Debug)]
pub(crate) struct Instance {
    folder: PathBuf,
    /// None only while the instance is being removed.
    pipe: Option<File>,
    /// The bytes of a line that is not complete.
    rest: Vec<u8>,
}

impl Instance {
    /// Creates an instance without events, whose times are of the clock `tai`. Removes those of
    /// programs that were killed.
    pub(crate) fn create(system: &System) -> Result<Self> {
        let root = &system.root;
        remove_stale(root);
        let failed = |error: io::Error| explain(system, &error);
        let (folder, pipe) = make(root).map_err(failed)?;
        let instance = Self {
            folder,
            pipe: Some(pipe),
            rest: Vec::new(),
        };
        instance
            .write("buffer_size_kb", BUFFER_KIB)
            .map_err(failed)?;
        instance.write("trace_clock", "tai").map_err(failed)?;
        // An instance begins with the options of the kernel's own trace.
        for (option, value) in OPTIONS {
            match instance.write(&format!("options/{option}"), value) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        Ok(instance)
    }

    /// Enables an event. Returns false if the kernel has no such event now.
    pub(crate) fn enable(&self, event: &str) -> Result<bool> {
        let file = format!("events/{event}/enable");
        match self.write(&file, "1") {
            Ok(()) => Ok(true),
            // The module is not loaded, or goes just now (ENODEV).
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) if error.raw_os_error() == Some(19) => Ok(false),
            Err(error) => Err(Error::failed("no-tracing", format!("{file}: {error}"))),
        }
    }

    /// Writes a file of the instance.
    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        // Without O_CREAT, which tracefs answers with other errors if there is no file.
        let mut file = OpenOptions::new()
            .write(true)
            .open(self.folder.join(file))?;
        io::Write::write_all(&mut file, text.as_bytes())
    }

    /// Returns the lines that were traced since the last call, or nothing at the end of the trace.
    pub(crate) fn read(&mut self) -> Result<Option<Vec<String>>> {
        let mut bytes = [0; 4096];
        loop {
            let Some(pipe) = &mut self.pipe else {
                return Ok(None);
            };
            match pipe.read(&mut bytes) {
                Ok(0) if self.rest.is_empty() => return Ok(None),
                Ok(0) => break,
                Ok(count) => self
                    .rest
                    .extend_from_slice(bytes.get(..count).unwrap_or(&[])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    let text = format!("trace_pipe: {error}");
                    return Err(Error::failed("no-tracing", text));
                }
            }
        }
        let end = self.rest.iter().rposition(|byte| *byte == b'\n');
        let lines: Vec<u8> = self.rest.drain(..end.map_or(0, |end| end + 1)).collect();
        let lines = String::from_utf8_lossy(&lines);
        Ok(Some(lines.lines().map(str::to_owned).collect()))
    }

    /// Returns the file that becomes readable when something is traced.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.pipe = None;
        // If another program has a file of the instance open, the next one removes it.
        let _ = remove(&self.folder);
    }
}

/// Creates the folder of an instance, and opens its trace_pipe.
fn make(root: &Root) -> io::Result<(PathBuf, File)> {
    let mut trial = 0;
    loop {
        let name = format!("{INSTANCES}/{PREFIX}{}-{trial}", process::id());
        let folder = root.path(&name);
        trial += 1;
        match create_folder(&folder).and_then(|()| open(&folder)) {
            // Programs in other namespaces of process numbers may have the same one. A program that
            // starts removes an instance that is not open yet.
            Err(error)
                if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound)
                    && trial < TRIALS => {}
            opened => return Ok((folder, opened?)),
        }
    }
}

/// Opens trace_pipe, which keeps the instance from being removed.
fn open(folder: &Path) -> io::Result<File> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(nonblocking).unwrap_or(0))
        .open(folder.join("trace_pipe"))
}

/// Removes the instances that no program uses.
fn remove_stale(root: &Root) {
    for name in root.names(INSTANCES).unwrap_or_default() {
        if name.starts_with(PREFIX) {
            // An instance in use stays, with EBUSY.
            let _ = remove(&root.path(&format!("{INSTANCES}/{name}")));
        }
    }
}

/// Creates the folder of an instance, which the kernel fills.
#[cfg(not(feature = "test-root"))]
fn create_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)
}

/// Creates the folder of an instance. The folder `new-instance` beside `instances` has its files.
#[cfg(feature = "test-root")]
fn create_folder(folder: &Path) -> io::Result<()> {
    fn link(from: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let to = to.join(entry.file_name());
            match entry.file_type()?.is_dir() {
                true => link(&entry.path(), &to)?,
                false => fs::hard_link(entry.path(), to)?,
            }
        }
        Ok(())
    }
    link(&folder.join("../../new-instance"), folder)
}

/// Removes an instance, with all its files.
#[cfg(not(feature = "test-root"))]
fn remove(folder: &Path) -> io::Result<()> {
    fs::remove_dir(folder)
}

/// Removes the folder of an instance.
#[cfg(feature = "test-root")]
fn remove(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder)
}

/// Returns the error where tracefs is not mounted.
fn not_mounted() -> Error {
    Error::unknown("no-tracefs", format!("tracefs is not mounted at {TRACING}"))
        .with_action(format!("mount -t tracefs tracefs {TRACING}"))
}

/// Returns why no instance can be created, and what to do.
fn explain(system: &System, error: &io::Error) -> Error {
    match (error.kind(), system.lockdown()) {
        (ErrorKind::PermissionDenied, Some(mode)) => Error::unknown(
            "no-tracefs",
            format!("the kernel's lockdown ({mode}) or missing rights forbid to trace"),
        ),
        (ErrorKind::PermissionDenied, None) => {
            Error::unknown("no-rights", format!("{INSTANCES} cannot be written"))
                .with_action("run this as root")
        }
        (ErrorKind::NotFound, _) => not_mounted(),
        _ => Error::failed("no-tracing", format!("{INSTANCES}: {error}")),
    }
}

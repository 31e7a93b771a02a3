// SPDX-License-Identifier: GPL-2.0

//! Programs of the host that svcrdmactl starts, mostly as root.

use std::{
    ffi::OsStr,
    process::Command, //
};

/// The search path of these programs. The caller's may have folders that other users can write.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the command that starts a program.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", search_path());
    command
}

/// Runs a program, and returns what it has printed, or nothing if it fails or is not installed.
pub(crate) fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = command(program).args(args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// Returns the search path.
#[cfg(not(feature = "test-root"))]
fn search_path() -> &'static str {
    PATH
}

/// Returns the search path, behind a folder of programs that stand for those of a host.
#[cfg(feature = "test-root")]
fn search_path() -> String {
    let programs = std::env::var("SVCRDMACTL_PROGRAMS").unwrap_or_default();
    format!("{programs}:{PATH}")
}

// SPDX-License-Identifier: GPL-2.0

//! Readers that close the pipe.

use crate::host::Host;
use std::{
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::Stdio, //
};

/// Returns the exit status of `check` whose reader has gone.
fn status(host: &Host, args: &[&str]) -> Option<i32> {
    let (reader, writer) = UnixStream::pair().expect("a pair of sockets");
    drop(reader);
    let writer = Stdio::from(OwnedFd::from(writer));
    let mut command = host.command(args);
    let child = command.stdout(writer).stderr(Stdio::null()).status();
    child.expect("the program runs").code()
}

#[test]
fn the_exit_status_does_not_depend_on_the_reader() {
    assert_eq!(status(&Host::serving(), &["check"]), Some(0));
    let broken = Host::without_server();
    assert_eq!(status(&broken, &["check"]), Some(2));
    assert_eq!(status(&broken, &["check", "--json"]), Some(2));
}

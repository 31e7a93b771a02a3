// SPDX-License-Identifier: GPL-2.0

//! `idle`: opens connections, makes a NULL Call and a GETATTR on each, and holds them until its
//! standard input ends.

use crate::{
    args::Args,
    error::{Error, Result},
    ffi,
    peer::{Manners, Peer},
};
use std::io;

/// Its options.
pub(crate) const OPTIONS: &[&str] = &["count"];

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let count: u32 = args.value("count", 1)?;
    let target = args.target()?;
    ffi::raise_file_limit()?;
    let mut peers = Vec::new();
    for _ in 0..count {
        let mut peer = Peer::connect(&target, Manners::default())?;
        peer.null()?;
        peer.getattr()?;
        peers.push(peer);
    }
    println!("holding {count}");
    wait_for_end()?;
    peers.iter().try_for_each(Peer::disconnect)
}

/// Returns when the standard input has ended.
pub(crate) fn wait_for_end() -> Result<()> {
    io::copy(&mut io::stdin(), &mut io::sink())
        .map(drop)
        .map_err(|error| Error::os("standard input", error))
}

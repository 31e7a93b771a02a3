// SPDX-License-Identifier: GPL-2.0

//! `idle`: opens connections, makes a NULL Call and a GETATTR on each, and holds them until its
//! standard input ends.

use crate::{
    args::Args,
    error::{Error, Result},
    ffi, grant,
    peer::{Manners, Peer},
};
use std::io;

/// Its options.
pub(crate) const OPTIONS: &[&str] = &["count", "calls"];

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let count: u32 = args.value("count", 1)?;
    let calls: u32 = args.value("calls", 0)?;
    let target = args.target()?;
    ffi::raise_file_limit()?;
    let mut peers = Vec::new();
    for _ in 0..count {
        let mut peer = Peer::connect(&target, manners(calls))?;
        peer.null()?;
        peer.getattr()?;
        if calls > 0 {
            grant::raise(&mut peer, calls)?;
        }
        peers.push(peer);
    }
    println!("holding {count}");
    wait_for_end()?;
    peers.iter().try_for_each(Peer::disconnect)
}

/// Those of a connection that makes so many Calls at once first.
fn manners(calls: u32) -> Manners {
    let receives = Manners::default().receives;
    Manners {
        receives: receives.max(calls.min(grant::MOST)),
        ..Manners::default()
    }
}

/// Returns when the standard input has ended.
pub(crate) fn wait_for_end() -> Result<()> {
    io::copy(&mut io::stdin(), &mut io::sink())
        .map(drop)
        .map_err(|error| Error::os("standard input", error))
}

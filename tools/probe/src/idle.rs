// SPDX-License-Identifier: GPL-2.0

//! `idle`: opens connections, makes a NULL Call and a GETATTR on each, and holds them until
//! standard input ends.

use crate::{
    args::Args,
    error::{Error, Result},
    ffi, grant,
    peer::{Params, Peer},
};
use std::io;

/// Options of the command.
pub(crate) const OPTIONS: &[&str] = &["count", "calls"];

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let count: u32 = args.value("count", 1)?;
    let calls: u32 = args.value("calls", 0)?;
    let target = args.target()?;
    ffi::raise_file_limit()?;
    let mut peers = Vec::new();
    for _ in 0..count {
        let mut peer = Peer::connect(&target, params(calls))?;
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

/// Returns the parameters of a connection that makes up to `calls` Calls at a time.
fn params(calls: u32) -> Params {
    let receives = Params::default().receives;
    Params {
        receives: receives.max(calls.min(grant::MOST)),
        ..Params::default()
    }
}

/// Waits until standard input ends.
pub(crate) fn wait_for_end() -> Result<()> {
    io::copy(&mut io::stdin(), &mut io::sink())
        .map(drop)
        .map_err(|error| Error::os("standard input", error))
}

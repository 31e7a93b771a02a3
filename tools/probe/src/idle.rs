// SPDX-License-Identifier: GPL-2.0

//! `idle`: opens connections, makes a NULL Call and a GETATTR on each, and holds them until
//! standard input ends.

use crate::{
    error::{Error, Result},
    grant,
    host,
    output::{Format, Output},
    peer::{Params, Peer},
    run::Run,
    target::Server, //
};
use clap::value_parser;
use std::io;

/// Open connections and hold them until standard input ends
///
/// Makes a NULL Call and a GETATTR on each connection first.
#[derive(Debug, clap::Args)]
pub(crate) struct Idle {
    #[command(flatten)]
    server: Server,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    count: u32,
    /// Further NULL Calls on each connection, as many at a time as the server grants; 0: none
    #[arg(long, value_name = "N", default_value_t = 0)]
    calls: u32,
}

impl Run for Idle {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        let target = self.server.target()?;
        host::raise_file_limit()?;
        let mut peers = Vec::new();
        for _ in 0..self.count {
            let mut peer = Peer::connect(&target, params(self.calls))?;
            peer.null()?;
            peer.getattr()?;
            if self.calls > 0 {
                grant::raise(&mut peer, self.calls)?;
            }
            peers.push(peer);
        }
        holding(output, peers.len());
        wait_for_end()?;
        peers.iter().try_for_each(Peer::disconnect)
    }
}

/// Tells that this process holds `count` connections now.
pub(crate) fn holding(output: &mut Output, count: usize) {
    output.line(format_args!("holding {count}"));
    output.set("holding", count);
    output.complete();
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

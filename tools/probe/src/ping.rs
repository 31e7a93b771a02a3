// SPDX-License-Identifier: GPL-2.0

//! `ping`: connects, makes NULL Calls, and prints the connection parameters and the response times.

use crate::{
    args::Args,
    error::{Error, Result},
    peer::{Params, Peer},
    times::Times,
};
use std::time::Instant;
use svcrdma_proto::cm;

/// Options of the command.
pub(crate) const OPTIONS: &[&str] = &["count", "reads"];

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let count: u32 = args.value("count", 5)?;
    if count == 0 {
        return Err(Error::new("--count: at least 1"));
    }
    let begin = Instant::now();
    let params = Params {
        reads: args.value("reads", Params::default().reads)?,
        ..Params::default()
    };
    let mut peer = Peer::connect(&args.target()?, params)?;
    println!("connected to {} in {:?}", args.host(), begin.elapsed());
    print_agreement(peer.private_data());
    let (times, credits) = measure(&mut peer, count)?;
    println!("credits granted: {credits}");
    println!("NULL: {times}");
    peer.disconnect()
}

/// Prints the server's private data and the inline thresholds that follow from it.
fn print_agreement(private_data: &[u8]) {
    let server = cm::Peer::parse(private_data);
    let sent = private_data.starts_with(&cm::Peer::default().private_data()[..4]);
    println!(
        "server's private data: {}, sends {}, receives {} bytes",
        if sent { "present" } else { "absent" },
        server.send,
        server.receive
    );
    println!(
        "thresholds: Calls {}, Replies {} bytes",
        server.receive.min(4096),
        server.send.min(4096)
    );
}

/// Makes `count` NULL Calls. Returns their response times and the last grant of credits.
fn measure(peer: &mut Peer, count: u32) -> Result<(Times, u32)> {
    let mut times = Vec::new();
    let mut credits = 0;
    for _ in 0..count {
        let begin = Instant::now();
        credits = peer.null()?;
        times.push(begin.elapsed());
    }
    Ok((times.into_iter().collect(), credits))
}

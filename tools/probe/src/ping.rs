// SPDX-License-Identifier: GPL-2.0

//! `ping`: connects, makes NULL Calls, and prints the connection parameters and the response times.

use crate::{
    error::Result,
    output::{Format, Output},
    peer::{Params, Peer},
    run::Run,
    target::Server,
    times::Times, //
};
use clap::value_parser;
use serde_json::json;
use std::time::Instant;
use svcrdma_proto::cm;

/// Connect, make NULL Calls, and print the connection parameters and the response times
#[derive(Debug, clap::Args)]
pub(crate) struct Ping {
    #[command(flatten)]
    server: Server,
    /// NULL Calls, one at a time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..))]
    count: u32,
    /// RDMA Reads that the server may have in flight
    #[arg(long, value_name = "N", default_value_t = 16)]
    reads: u8,
}

impl Run for Ping {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        let params = Params {
            reads: self.reads,
            ..Params::default()
        };
        let target = self.server.target()?;
        let begin = Instant::now();
        let mut peer = Peer::connect(&target, params)?;
        let took = begin.elapsed();
        output.line(format_args!(
            "connected to {} in {took:?}",
            self.server.host()
        ));
        output.set("address", target.addresses.to.to_string());
        output.set("connect_ns", took.as_nanos() as u64);
        agreement(output, peer.private_data());
        let (times, credits) = measure(&mut peer, self.count)?;
        output.line(format_args!("credits granted: {credits}"));
        output.line(format_args!("NULL: {times}"));
        output.set("credits", credits);
        output.set("times", times.json());
        peer.disconnect()
    }
}

impl Ping {
    /// Returns the number of Calls.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

/// Prints the server's private data and the inline thresholds that follow from it.
fn agreement(output: &mut Output, private_data: &[u8]) {
    let server = cm::Peer::parse(private_data);
    let sent = private_data.starts_with(&cm::Peer::default().private_data()[..4]);
    output.line(format_args!(
        "server's private data: {}, sends {}, receives {} bytes",
        if sent { "present" } else { "absent" },
        server.send,
        server.receive
    ));
    let (calls, replies) = (server.receive.min(4096), server.send.min(4096));
    output.line(format_args!(
        "thresholds: Calls {calls}, Replies {replies} bytes"
    ));
    output.set(
        "private_data",
        json!({"present": sent, "sends": server.send, "receives": server.receive}),
    );
    output.set("thresholds", json!({"calls": calls, "replies": replies}));
}

/// Makes `count` NULL Calls. Returns their response times and the last grant of credits.
fn measure(peer: &mut Peer, count: u32) -> Result<(Times, u32)> {
    let mut times = Times::new()?;
    let mut credits = 0;
    for _ in 0..count {
        let begin = Instant::now();
        credits = peer.null()?;
        times.add(begin.elapsed());
    }
    Ok((times, credits))
}

// SPDX-License-Identifier: GPL-2.0

//! `echo`: sends messages to the example ULP `rdma_echo`, and checks that it sends them back.

use crate::{
    error::{Error, Result},
    expose,
    idle::{holding, wait_for_end},
    message::{Answer, Message},
    output::{Format, Output},
    peer::{Incoming, Params, Peer, PATIENCE},
    run::Run,
    target::Server, //
};
use clap::value_parser;
use std::collections::VecDeque;

/// The largest message of the ULP.
const LARGEST: usize = 4096;

/// The bytes of a transport header without chunks.
const HEADER: usize = 28;

/// Send messages to the module rdma_echo and check that they come back
#[derive(Debug, clap::Args)]
pub(crate) struct Echo {
    #[command(flatten)]
    server: Server,
    /// Messages
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..))]
    count: u32,
    /// Messages on the way at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u32).range(1..=16))]
    depth: u32,
    /// Keep the connection until standard input ends
    #[arg(long)]
    hold: bool,
    /// Use the memory that the module exposes, instead of sending messages
    #[arg(long, conflicts_with_all = ["count", "depth"])]
    expose: bool,
}

impl Run for Echo {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        let target = self.server.target()?;
        if self.expose {
            return expose::run(&target, self.hold, output);
        }
        let mut peer = Peer::connect(&target, Params::default())?;
        let mut sent = VecDeque::new();
        for number in 0..self.count {
            let message = message(number);
            peer.send(&message)?;
            sent.push_back(Answer::decode(&message.encode()));
            if sent.len() >= self.depth as usize {
                comes_back(&mut peer, &mut sent)?;
            }
        }
        while !sent.is_empty() {
            comes_back(&mut peer, &mut sent)?;
        }
        output.set("messages", self.count);
        if self.hold {
            holding(output, 1);
            wait_for_end()?;
        } else {
            output.line(format_args!("{} messages came back", self.count));
        }
        peer.disconnect()
    }
}

/// Returns message `number`. Its length depends on the number.
fn message(number: u32) -> Message {
    let len = number as usize * 148 % (LARGEST - HEADER + 4);
    let body = (0..len).map(|at| (at as u32 ^ number) as u8).collect();
    Message::inline(number, body)
}

/// Waits for the oldest of the messages that were `sent`.
fn comes_back(peer: &mut Peer, sent: &mut VecDeque<Answer>) -> Result<()> {
    let incoming = peer.receive(PATIENCE)?;
    match sent.pop_front() {
        Some(first) if incoming == Incoming::Answer(first.clone()) => Ok(()),
        first => Err(Error::new(format!("{first:?} came back as {incoming:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_all_lengths_and_differ() {
        let lens: Vec<_> = (0..1000)
            .map(|number| message(number).encode().len())
            .collect();
        assert_eq!(lens.iter().min(), Some(&HEADER));
        assert_eq!(lens.iter().max(), Some(&LARGEST));
        assert_ne!(message(1).encode(), message(2).encode());
    }
}

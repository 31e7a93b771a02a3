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
    target::{Server, Target}, //
};
use clap::value_parser;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The largest message of the ULP.
const LARGEST: usize = 4096;

/// The time within which the module ends the connection of a peer that takes nothing.
const DEAF_PATIENCE: Duration = Duration::from_secs(300);

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
    /// Send one message, take none, and wait until the module ends the connection
    #[arg(long, conflicts_with_all = ["count", "depth", "hold", "expose"])]
    deaf: bool,
    /// Use the memory that the module exposes, instead of sending messages
    #[arg(long, conflicts_with_all = ["count", "depth"])]
    expose: bool,
    /// With --expose: the server's driver lets a peer read what it may write (siw)
    #[arg(long, requires = "expose")]
    lax_reads: bool,
    /// Pause after each connect, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pause: u64,
}

impl Run for Echo {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        let mut target = self.server.target()?;
        target.pause = Duration::from_millis(self.pause);
        if self.expose {
            return expose::run(&target, self.lax_reads, self.hold, output);
        }
        if self.deaf {
            return take_nothing(&target, output);
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

/// Sends one message without a Receive for what comes back, and waits for the end of the connection.
fn take_nothing(target: &Target, output: &mut Output) -> Result {
    let params = Params {
        receives: 0,
        ..Params::default()
    };
    let mut peer = Peer::connect(target, params)?;
    peer.send(&message(0))?;
    let start = Instant::now();
    match peer.receive(DEAF_PATIENCE)? {
        Incoming::Closed => {
            let seconds = start.elapsed().as_secs();
            output.line(format_args!("ended after {seconds} s"));
            Ok(())
        }
        other => Err(Error::new(format!("not ended, but {other:?}"))),
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

// SPDX-License-Identifier: GPL-2.0

//! `hoard`: peers that always have as many WRITEs under way as they are granted, or a multiple of
//! that, and connect again when their connection ends.
//!
//! The data of each WRITE goes by Read chunk. Where the network keeps the server's RDMA Reads from
//! the peers, each WRITE holds what the server has for it until the connection ends.

use crate::{
    args::Args,
    error::{Error, Result},
    ffi,
    grant::{self, Window},
    peer::{Incoming, Manners, Peer},
    stage::{whole, write_call},
};
use std::{
    fmt,
    net::SocketAddr,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    thread,
    time::Duration, //
};

/// Its options.
pub(crate) const OPTIONS: &[&str] = &[
    "count", "depth", "size", "seconds", "over", "calls", "valid",
];

/// The time before a peer that could not connect tries again.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest time that a peer waits for anything before it waits again.
const TURN: Duration = Duration::from_secs(1);

/// What a peer does.
struct Hoard {
    target: SocketAddr,
    /// The most Calls of a connection that are under way.
    depth: u32,
    /// Bytes of a WRITE.
    size: usize,
    /// The multiple of the grant that is used.
    over: u32,
    /// NULL Calls at first, so that the grant grows.
    calls: u32,
    /// A GETATTR at first, which makes nfsd keep the connection.
    is_valid: bool,
    tally: Tally,
}

/// How things went, over all peers.
#[derive(Default)]
struct Tally {
    connections: AtomicU64,
    /// Connections that ended.
    closed: AtomicU64,
    /// Attempts to connect that failed.
    refused: AtomicU64,
    /// WRITEs sent.
    calls: AtomicU64,
    /// Answers to them.
    answers: AtomicU64,
}

impl Tally {
    /// Adds one to `counter`.
    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        write!(
            f,
            "{} connections, {} closed, {} refused, {} Calls, {} answers",
            of(&self.connections),
            of(&self.closed),
            of(&self.refused),
            of(&self.calls),
            of(&self.answers)
        )
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let count: u32 = args.value("count", 1)?;
    let seconds = args.value("seconds", 60)?;
    ffi::raise_file_limit()?;
    let hoard = Arc::new(Hoard {
        target: args.target()?,
        depth: args.value("depth", grant::MOST)?,
        size: args.value("size", 64 << 10)?,
        over: args.value("over", 1)?,
        calls: args.value("calls", 0)?,
        is_valid: args.text("valid").is_some(),
        tally: Tally::default(),
    });
    for _ in 0..count {
        let hoard = Arc::clone(&hoard);
        thread::Builder::new()
            .spawn(move || hoard.persist())
            .map_err(|error| Error::os("thread", error))?;
    }
    thread::sleep(Duration::from_secs(seconds));
    println!("{}", hoard.tally);
    // The peers end with the process, wherever they are.
    Ok(())
}

impl Hoard {
    /// Makes one connection after the other.
    fn persist(&self) {
        loop {
            match self.connect() {
                Ok(peer) => {
                    Tally::count(&self.tally.connections);
                    // An error is the end of a connection, too: only its moment is another.
                    let _ = self.hold(peer);
                    Tally::count(&self.tally.closed);
                }
                Err(_) => {
                    Tally::count(&self.tally.refused);
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Connects with room for all Calls and their answers.
    fn connect(&self) -> Result<Peer> {
        let most = self.depth.max(grant::MOST);
        let manners = Manners {
            receives: most,
            sends: most,
            ..Manners::default()
        };
        Peer::connect(&self.target, manners)
    }

    /// Keeps WRITEs under way until the connection ends.
    fn hold(&self, mut peer: Peer) -> Result<()> {
        if self.is_valid {
            peer.getattr()?;
        }
        let granted = grant::raise(&mut peer, self.calls)?;
        let mut window = Window::new(granted, self.depth, self.over);
        // One piece of memory for all: what is written does not matter.
        let memory = peer.region(self.size)?;
        loop {
            while window.take() {
                let mut message = write_call(&mut peer, whole(&memory));
                message.credits = grant::MOST;
                peer.send(&message)?;
                Tally::count(&self.tally.calls);
            }
            match peer.receive(TURN)? {
                Incoming::Answer(answer) => {
                    window.answered(answer.credits());
                    Tally::count(&self.tally.answers);
                }
                Incoming::Silence => (),
                Incoming::Closed => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_says_how_many() {
        let tally = Tally::default();
        Tally::count(&tally.connections);
        Tally::count(&tally.connections);
        Tally::count(&tally.calls);
        assert_eq!(
            tally.to_string(),
            "2 connections, 0 closed, 0 refused, 1 Calls, 0 answers"
        );
    }
}

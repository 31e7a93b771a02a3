// SPDX-License-Identifier: GPL-2.0

//! `hoard`: peers that keep as many WRITEs in flight as the server grants, or a multiple of that,
//! and reconnect when their connection ends.
//!
//! The data of each WRITE is in a Read chunk. If the network drops the server's RDMA Reads, each
//! WRITE holds its resources at the server until the connection ends.

use crate::{
    args::Args,
    error::{Error, Result},
    ffi,
    grant::{self, Window},
    peer::{Incoming, Params, Peer},
    scenario::{whole, write_call},
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

/// Options of the command.
pub(crate) const OPTIONS: &[&str] = &[
    "count", "depth", "size", "seconds", "over", "calls", "valid",
];

/// The pause before a peer retries a failed connection attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// The timeout of a single wait; peers then wait again.
const TURN: Duration = Duration::from_secs(1);

/// The behaviour that all peers share.
struct Hoard {
    target: SocketAddr,
    /// The maximum of Calls in flight per connection.
    depth: u32,
    /// Bytes of a WRITE.
    size: usize,
    /// The factor by which the grant is exceeded.
    over: u32,
    /// NULL Calls at the start of each connection, which make the grant grow.
    calls: u32,
    /// Makes a GETATTR at the start of each connection, so that nfsd keeps it.
    is_valid: bool,
    tally: Tally,
}

/// Event counts over all peers.
#[derive(Default)]
struct Tally {
    connections: AtomicU64,
    /// Connections that ended.
    closed: AtomicU64,
    /// Attempts to connect that failed.
    refused: AtomicU64,
    /// WRITEs sent.
    calls: AtomicU64,
    /// Answers to WRITEs.
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
    // The peers end with the process, in whatever state they are.
    Ok(())
}

impl Hoard {
    /// Opens one connection after another.
    fn persist(&self) {
        loop {
            match self.connect() {
                Ok(peer) => {
                    Tally::count(&self.tally.connections);
                    // An error ends the connection just as the server does.
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

    /// Connects, with enough Receives and send-queue slots for all Calls.
    fn connect(&self) -> Result<Peer> {
        let most = self.depth.max(grant::MOST);
        let params = Params {
            receives: most,
            sends: most,
            ..Params::default()
        };
        Peer::connect(&self.target, params)
    }

    /// Keeps WRITEs in flight until the connection ends.
    fn hold(&self, mut peer: Peer) -> Result<()> {
        if self.is_valid {
            peer.getattr()?;
        }
        let granted = grant::raise(&mut peer, self.calls)?;
        let mut window = Window::new(granted, self.depth, self.over);
        // All WRITEs share one piece of memory, as the data does not matter.
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

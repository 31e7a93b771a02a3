// SPDX-License-Identifier: GPL-2.0

//! `hoard`: peers that keep as many WRITEs in flight as the server grants, or a multiple of that,
//! and reconnect when their connection ends.
//!
//! The data of each WRITE is in a Read chunk. If the network drops the server's RDMA Reads, each
//! WRITE holds its resources at the server until the connection ends.

use crate::{
    error::{Error, Result},
    grant::{self, Window},
    host,
    output::{Format, Output},
    peer::{Incoming, Params, Peer},
    run::Run,
    scenario::{whole, write_call},
    target::{Server, Target}, //
};
use clap::value_parser;
use std::{
    fmt,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Mutex,
    },
    thread,
    time::Duration, //
};

/// Keep as many WRITEs in flight as the server grants, and reconnect when a connection ends
///
/// Each WRITE has a Read chunk and an unknown file handle. At the end, the command prints the number
/// of connections and Calls.
#[derive(Debug, clap::Args)]
pub(crate) struct Hoard {
    #[command(flatten)]
    server: Server,
    /// Peers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    count: u32,
    /// Limit of WRITEs in flight per peer
    #[arg(
        long,
        value_name = "N",
        default_value_t = grant::MOST,
        value_parser = value_parser!(u32).range(1..)
    )]
    depth: u32,
    /// Bytes of a WRITE
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 10, value_parser = value_parser!(u32).range(1..))]
    size: u32,
    /// Seconds until the end
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u64).range(1..))]
    seconds: u64,
    /// Use N times the granted credits
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    over: u32,
    /// NULL Calls at the start of each connection, as many at a time as the server grants; 0: none
    /// beyond the first
    #[arg(long, value_name = "N", default_value_t = 0)]
    calls: u32,
    /// Make a GETATTR at the start of each connection, so that nfsd takes the peer for valid
    #[arg(long)]
    valid: bool,
}

/// The pause before a peer retries a failed connection attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// The timeout of a single wait; peers then wait again.
const TURN: Duration = Duration::from_secs(1);

/// The behaviour that all peers share.
struct Behaviour {
    target: Target,
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
    /// The failure that says most about the server: the first one of the server, or else the first one
    /// of this side.
    failure: Mutex<Option<Error>>,
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

    /// Prints the counts.
    fn print(&self, output: &mut Output) {
        output.line(self);
        for (name, counter) in [
            ("connections", &self.connections),
            ("closed", &self.closed),
            ("refused", &self.refused),
            ("calls", &self.calls),
            ("answers", &self.answers),
        ] {
            output.set(name, counter.load(Ordering::Relaxed));
        }
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

impl Run for Hoard {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        host::raise_file_limit()?;
        let behaviour = Arc::new(self.behaviour()?);
        for _ in 0..self.count {
            let behaviour = Arc::clone(&behaviour);
            thread::Builder::new()
                .spawn(move || behaviour.persist())
                .map_err(|error| Error::os("thread", error))?;
        }
        thread::sleep(Duration::from_secs(self.seconds));
        behaviour.tally.print(output);
        // The peers end with the process, in whatever state they are.
        behaviour.result()
    }
}

impl Hoard {
    fn behaviour(&self) -> Result<Behaviour> {
        Ok(Behaviour {
            target: self.server.target()?,
            depth: self.depth,
            size: self.size as usize,
            over: self.over,
            calls: self.calls,
            is_valid: self.valid,
            tally: Tally::default(),
            failure: Mutex::new(None),
        })
    }
}

impl Behaviour {
    /// Returns an error if there was no WRITE at all.
    fn result(&self) -> Result {
        if self.tally.calls.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let failure = self.failure.lock().ok().and_then(|mut first| first.take());
        Err(failure.unwrap_or_else(|| Error::new("no WRITE was sent in time")))
    }

    /// Notes a failure.
    fn note(&self, error: Error) {
        // A panic of another thread is reported by that.
        let Ok(mut noted) = self.failure.lock() else {
            return;
        };
        let says_more = |noted: &Error| error.is_finding() && !noted.is_finding();
        if noted.as_ref().is_none_or(says_more) {
            *noted = Some(error);
        }
    }

    /// Opens one connection after another.
    fn persist(&self) {
        loop {
            match self.connect() {
                Ok(peer) => {
                    Tally::count(&self.tally.connections);
                    // An error ends the connection just as the server does.
                    if let Err(error) = self.hold(peer) {
                        self.note(error);
                    }
                    Tally::count(&self.tally.closed);
                }
                Err(error) => {
                    Tally::count(&self.tally.refused);
                    self.note(error);
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
    use crate::{error::Outcome, ffi::Fake};

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

    #[test]
    fn without_a_write_the_failure_of_the_server_counts_most() {
        let behaviour = |errors: Vec<Error>| {
            let behaviour = Behaviour {
                target: Target::new(Fake::addresses().to, None),
                depth: 1,
                size: 1,
                over: 1,
                calls: 0,
                is_valid: false,
                tally: Tally::default(),
                failure: Mutex::new(None),
            };
            errors.into_iter().for_each(|error| behaviour.note(error));
            behaviour
        };
        let local = || Error::unavailable("no memory");
        let of = |errors| Outcome::of(&behaviour(errors).result());
        assert_eq!(of(vec![local()]), Outcome::Untested);
        let rejected = || Error::new("cannot connect");
        assert_eq!(of(vec![local(), rejected(), local()]), Outcome::Finding);
        assert_eq!(of(vec![]), Outcome::Finding);
        let busy = behaviour(vec![rejected()]);
        Tally::count(&busy.tally.calls);
        assert_eq!(Outcome::of(&busy.result()), Outcome::Good);
    }
}

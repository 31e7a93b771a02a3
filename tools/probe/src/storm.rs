// SPDX-License-Identifier: GPL-2.0

//! `storm`: opens many connections at once and closes all of them at once.
//!
//! Each connection makes GETATTRs as soon as it is established, and is held until all others have
//! been answered. Failed attempts are retried a few times, as clients do. With `--calls 0` the
//! storm is a flood of connections, optionally from another address than other clients of this
//! host.

use crate::{
    args::Args,
    error::{Error, Result},
    ffi::{self, Event},
    message::{Answer, Message},
    peer::{Incoming, Params, Peer},
    rpc,
};
use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{
        mpsc::{self, Sender},
        RwLock, RwLockWriteGuard,
    },
    thread,
    time::{Duration, Instant}, //
};

/// Options of the command.
pub(crate) const OPTIONS: &[&str] = &["count", "parallel", "how", "calls", "from"];

/// The default number of GETATTRs per connection. When many peers connect, nfsd closes the oldest
/// connections for which it has not yet looked up a file (svc_check_conn_limits in
/// net/sunrpc/svc_xprt.c). That may hit a connection whose first answer is in flight; a second
/// answer proves that it did not.
const CALLS: u32 = 2;

/// The number of retries per connection.
const RETRIES: u32 = 10;

/// The pause before the first retry; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause before a retry.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The reason for which an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Failure {
    /// The server rejected the connection request.
    Rejected,
    /// The connection manager gave up.
    Unreachable,
    /// The connection was closed before all Calls were answered.
    Closed,
    /// A Call was not answered in time.
    Unanswered,
    /// A Call failed.
    Refused,
    /// An error on this side.
    Local,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rejected => "rejected",
            Self::Unreachable => "unreachable",
            Self::Closed => "closed before the answers",
            Self::Unanswered => "not answered",
            Self::Refused => "answered with an error",
            Self::Local => "failed on this side",
        })
    }
}

/// The way in which all connections are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The peers disconnect.
    Disconnect,
    /// The queue pairs are destroyed; the connection managers are told only afterwards.
    Silent,
}

/// Counts of connections and failures.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Connections whose Calls were all answered.
    answered: usize,
    /// Connections that failed after the last retry.
    given_up: usize,
    /// Connections that ended after their last answer, before this side closed them.
    lost: usize,
    /// Failed attempts.
    failures: BTreeMap<Failure, usize>,
}

impl Tally {
    /// Returns the sum of `self` and `other`.
    fn add(mut self, other: Self) -> Self {
        self.answered += other.answered;
        self.given_up += other.given_up;
        self.lost += other.lost;
        for (failure, count) in other.failures {
            *self.failures.entry(failure).or_default() += count;
        }
        self
    }

    /// Returns the number of retries.
    fn retries(&self) -> usize {
        let failed: usize = self.failures.values().sum();
        failed.saturating_sub(self.given_up)
    }

    /// Describes the failed attempts.
    fn failed(&self) -> String {
        let kinds: Vec<String> = self
            .failures
            .iter()
            .map(|(failure, count)| format!("{count} {failure}"))
            .collect();
        match kinds.is_empty() {
            true => "none".to_owned(),
            false => kinds.join(", "),
        }
    }
}

/// A barrier that threads pass once it is open.
#[derive(Default)]
struct Gate(RwLock<()>);

impl Gate {
    /// Closes the gate until the result is dropped.
    fn close(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        self.0
            .write()
            .map_err(|_| Error::new("a thread has panicked"))
    }

    /// Waits until the gate is open.
    fn pass(&self) {
        drop(self.0.read());
    }
}

/// The state that all threads share.
struct Storm {
    target: SocketAddr,
    /// The local address to connect from.
    from: Option<IpAddr>,
    /// The number of GETATTRs per connection.
    calls: u32,
    end: End,
    /// Opens when all threads are running.
    begins: Gate,
    /// Opens when all threads have made their connections.
    ends: Gate,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let count: usize = args.value("count", 1)?;
    let parallel: usize = args.value("parallel", 32)?;
    let end = match args.text("how") {
        None | Some("disconnect") => End::Disconnect,
        Some("silent") => End::Silent,
        Some(other) => return Err(Error::new(format!("--how: unknown value \"{other}\""))),
    };
    ffi::raise_file_limit()?;
    let storm = Storm {
        target: args.target()?,
        from: match args.text("from") {
            None => None,
            Some(text) => Some(
                text.parse()
                    .map_err(|_| Error::new("--from: not an IP address"))?,
            ),
        },
        calls: args.value("calls", CALLS)?,
        end,
        begins: Gate::default(),
        ends: Gate::default(),
    };
    let tally = storm.run(&shares(count, parallel))?;
    if (tally.answered, tally.lost) == (count, 0) {
        return Ok(());
    }
    Err(Error::new(format!(
        "{} of {count} connections were answered, {} of them were lost",
        tally.answered, tally.lost
    )))
}

/// Divides `count` connections among `parallel` threads.
fn shares(count: usize, parallel: usize) -> Vec<usize> {
    let parallel = parallel.clamp(1, count.max(1));
    (0..parallel)
        .map(|thread| (count + thread) / parallel)
        .collect()
}

/// Returns the pause before a retry, after `failures` earlier failures.
fn pause(failures: u32) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.min(16));
    doubled.min(LONGEST_PAUSE)
}

impl Storm {
    /// Starts a thread for each of `shares`, which makes that number of connections. Prints and
    /// returns the result.
    fn run(&self, shares: &[usize]) -> Result<Tally> {
        let (tally, end) = thread::scope(|scope| {
            let (reports, results) = mpsc::channel();
            let begins = self.begins.close()?;
            let ends = self.ends.close()?;
            for &share in shares {
                let reports = reports.clone();
                thread::Builder::new()
                    .spawn_scoped(scope, move || self.work(share, &reports))
                    .map_err(|error| Error::os("thread", error))?;
            }
            drop(reports);
            let begin = Instant::now();
            drop(begins);
            let connected = results.iter().take(shares.len());
            let connected = connected.fold(Tally::default(), Tally::add);
            print_connected(&connected, begin.elapsed());
            let end = Instant::now();
            drop(ends);
            Ok((results.iter().fold(connected, Tally::add), end))
        })?;
        println!("all were gone after {:.2} s", end.elapsed().as_secs_f64());
        Ok(tally)
    }

    /// Makes `share` connections, reports them, and closes them together with all others.
    fn work(&self, share: usize, reports: &Sender<Tally>) {
        self.begins.pass();
        let mut tally = Tally::default();
        let peers: Vec<Peer> = (0..share)
            .filter_map(|_| self.persist(&mut tally))
            .collect();
        // The receiver is gone if the command has failed.
        let _ = reports.send(tally);
        self.ends.pass();
        let _ = reports.send(self.leave(peers));
    }

    /// Makes a connection, with retries.
    fn persist(&self, tally: &mut Tally) -> Option<Peer> {
        for failures in 0..=RETRIES {
            match self.attempt() {
                Ok(peer) => {
                    tally.answered += 1;
                    return Some(peer);
                }
                Err(failure) => *tally.failures.entry(failure).or_default() += 1,
            }
            if failures < RETRIES {
                thread::sleep(pause(failures));
            }
        }
        tally.given_up += 1;
        None
    }

    /// Tries once to make a connection and its Calls.
    fn attempt(&self) -> std::result::Result<Peer, Failure> {
        let local = |error: Error| {
            eprintln!("rpcrdma-probe storm: {error}");
            Failure::Local
        };
        let params = Params {
            from: self.from,
            ..Params::default()
        };
        let mut peer = Peer::request(&self.target, params).map_err(local)?;
        match peer.event().map_err(local)? {
            Event::Established(_) => (),
            Event::Rejected(_) => return Err(Failure::Rejected),
            _ => return Err(Failure::Unreachable),
        }
        for _ in 0..self.calls {
            let xid = peer.xid();
            let message = Message::inline(xid, rpc::getattr(xid));
            match peer.exchange(&message).map_err(local)? {
                Incoming::Answer(answer) if is_success(xid, &answer) => (),
                Incoming::Answer(_) => return Err(Failure::Refused),
                Incoming::Closed => return Err(Failure::Closed),
                Incoming::Silence => return Err(Failure::Unanswered),
            }
        }
        Ok(peer)
    }

    /// Closes all of `peers`. Their resources are released when this returns.
    fn leave(&self, mut peers: Vec<Peer>) -> Tally {
        let is_lost =
            |peer: &mut Peer| peer.receive(Duration::ZERO).ok() != Some(Incoming::Silence);
        let lost = peers.iter_mut().map(is_lost).filter(|&lost| lost).count();
        match self.end {
            // An error or a missing event means that the connection is already gone.
            End::Disconnect => {
                peers.iter().for_each(|peer| drop(peer.disconnect()));
                peers.iter_mut().for_each(|peer| drop(peer.event()));
            }
            End::Silent => peers.iter_mut().for_each(Peer::destroy_qp),
        }
        Tally {
            lost,
            ..Tally::default()
        }
    }
}

/// Returns true if `answer` is the successful reply to the GETATTR `xid`.
fn is_success(xid: u32, answer: &Answer) -> bool {
    match answer {
        Answer::Reply(reply) => rpc::outcome(xid, &reply.body) == rpc::Outcome::Success(Some(0)),
        _ => false,
    }
}

/// Prints how the connections were established.
fn print_connected(tally: &Tally, took: Duration) {
    let seconds = took.as_secs_f64();
    println!(
        "{} connections had their answers after {seconds:.2} s: {:.1} connections per second",
        tally.answered,
        tally.answered as f64 / seconds.max(0.001)
    );
    println!(
        "{} retries, {} given up; failed attempts: {}",
        tally.retries(),
        tally.given_up,
        tally.failed()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_make_the_whole() {
        for (count, parallel) in [(500, 32), (500, 500), (3, 32), (0, 32), (7, 0)] {
            let shares = shares(count, parallel);
            assert_eq!(shares.iter().sum::<usize>(), count);
            assert!(shares.len() <= parallel.max(1));
            let (least, most) = (shares.iter().min(), shares.iter().max());
            assert!(most
                .zip(least)
                .is_some_and(|(most, least)| most - least <= 1));
        }
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        assert_eq!(pause(0), FIRST_PAUSE);
        assert_eq!(pause(1), FIRST_PAUSE * 2);
        assert!((0..RETRIES).all(|n| pause(n) <= pause(n + 1)));
        assert_eq!(pause(RETRIES), LONGEST_PAUSE);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }

    #[test]
    fn tallies_are_summed_up() {
        let one = |failure, given_up| Tally {
            answered: 2,
            given_up,
            lost: 1,
            failures: BTreeMap::from([(failure, 3)]),
        };
        let sum = one(Failure::Rejected, 0)
            .add(one(Failure::Closed, 1))
            .add(one(Failure::Rejected, 0));
        assert_eq!((sum.answered, sum.given_up, sum.lost), (6, 1, 3));
        assert_eq!(sum.retries(), 8);
        assert_eq!(sum.failed(), "6 rejected, 3 closed before the answers");
        assert_eq!(Tally::default().failed(), "none");
    }

    #[test]
    fn a_gate_opens_when_it_is_let_go() {
        let gate = Gate::default();
        let closed = gate.close().unwrap();
        thread::scope(|scope| {
            let passing = scope.spawn(|| gate.pass());
            thread::sleep(Duration::from_millis(10));
            assert!(!passing.is_finished());
            drop(closed);
        });
    }
}

// SPDX-License-Identifier: GPL-2.0

//! `storm`: opens many connections at once and closes all of them at once.
//!
//! Each connection makes GETATTRs as soon as it is established, and is held until all others have
//! been answered. Failed attempts are retried a few times, as clients do. With `--calls 0` the
//! storm is a flood of connections, optionally from another address than other clients of this
//! host.

use crate::{
    compound,
    error::{Error, Result},
    ffi::Event,
    host,
    message::{Answer, Message},
    output::{Format, Output},
    peer::{Incoming, Params, Peer},
    rpc,
    run::Run,
    target::{Server, Target}, //
};
use clap::value_parser;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        mpsc::{self, Sender},
        RwLock, RwLockWriteGuard,
    },
    thread,
    time::{Duration, Instant}, //
};

/// Open connections at once, retry failed ones, then close all at once
#[derive(Debug, clap::Args)]
pub(crate) struct Storm {
    #[command(flatten)]
    server: Server,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    count: u32,
    /// GETATTRs per connection; 0: none
    #[arg(long, value_name = "N", default_value_t = CALLS)]
    calls: u32,
    /// Threads, each of which makes one connection at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = value_parser!(u32).range(1..))]
    parallel: u32,
    /// Way in which the connections end
    #[arg(long, value_enum, default_value_t = End::Disconnect)]
    how: End,
}

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

impl Failure {
    /// Returns the failure of an attempt that has ended with `error`.
    fn of(error: &Error) -> Self {
        match error.is_finding() {
            true if error.is_not_connected() => Self::Closed,
            true => Self::Unanswered,
            false => Self::Local,
        }
    }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum End {
    /// The peers disconnect
    Disconnect,
    /// The queue pairs are destroyed before the server is told
    Silent,
}

/// Counts of connections and failures.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Connections whose Calls were all answered.
    answered: usize,
    /// Connections that failed after the last retry.
    given_up: usize,
    /// Those of `given_up` whose last attempt failed on this side.
    failed_here: usize,
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
        self.failed_here += other.failed_here;
        self.lost += other.lost;
        for (failure, count) in other.failures {
            *self.failures.entry(failure).or_default() += count;
        }
        self
    }

    /// Adds a failed attempt, the last one of its connection or not.
    fn note(&mut self, failure: Failure, is_last: bool) {
        *self.failures.entry(failure).or_default() += 1;
        self.given_up += usize::from(is_last);
        self.failed_here += usize::from(is_last && failure == Failure::Local);
    }

    /// Returns an error unless `count` connections were answered and kept.
    fn result(&self, count: usize) -> Result {
        if (self.answered, self.lost) == (count, 0) {
            return Ok(());
        }
        let text = format!(
            "{} of {count} connections were answered, {} of them were lost",
            self.answered, self.lost
        );
        // The last attempt of a connection decides.
        Err(match (self.lost, self.given_up - self.failed_here) {
            (0, 0) => Error::unavailable(text),
            _ => Error::new(text),
        })
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
        if kinds.is_empty() {
            "none".to_owned()
        } else {
            kinds.join(", ")
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
            .map_err(|_| Error::unavailable("a thread has panicked"))
    }

    /// Waits until the gate is open.
    fn pass(&self) {
        drop(self.0.read());
    }
}

/// The state that all threads share.
struct Crowd {
    target: Target,
    /// The number of GETATTRs per connection.
    calls: u32,
    end: End,
    /// Opens when all threads are running.
    begins: Gate,
    /// Opens when all threads have made their connections.
    ends: Gate,
}

impl Run for Storm {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        host::raise_file_limit()?;
        let crowd = Crowd {
            target: self.server.target()?,
            calls: self.calls,
            end: self.how,
            begins: Gate::default(),
            ends: Gate::default(),
        };
        let count = self.count as usize;
        crowd
            .run(output, &shares(count, self.parallel as usize))?
            .result(count)
    }
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

impl Crowd {
    /// Starts a thread for each of `shares`, which makes that number of connections. Prints and
    /// returns the result.
    fn run(&self, output: &mut Output, shares: &[usize]) -> Result<Tally> {
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
            print_connected(output, &connected, begin.elapsed());
            let end = Instant::now();
            drop(ends);
            Ok((results.iter().fold(connected, Tally::add), end))
        })?;
        let took = end.elapsed();
        output.line(format_args!(
            "all were gone after {:.2} s",
            took.as_secs_f64()
        ));
        output.set("gone_ns", took.as_nanos() as u64);
        output.set("lost", tally.lost);
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
            let failure = match self.attempt() {
                Ok(peer) => {
                    tally.answered += 1;
                    return Some(peer);
                }
                Err(failure) => failure,
            };
            let is_last = failures == RETRIES;
            tally.note(failure, is_last);
            if !is_last {
                thread::sleep(pause(failures));
            }
        }
        None
    }

    /// Tries once to make a connection and its Calls.
    fn attempt(&self) -> std::result::Result<Peer, Failure> {
        let failed = |error: Error| {
            eprintln!("rpcrdma-probe storm: {error}");
            Failure::of(&error)
        };
        let mut peer = Peer::request(&self.target, Params::default()).map_err(failed)?;
        match peer.event().map_err(failed)? {
            Event::Established(_) => (),
            Event::Rejected(_) => return Err(Failure::Rejected),
            _ => return Err(Failure::Unreachable),
        }
        for _ in 0..self.calls {
            let xid = peer.xid();
            let message = Message::inline(xid, compound::getattr(xid));
            match peer.exchange(&message).map_err(failed)? {
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
        let is_lost = |peer: &mut Peer| match peer.receive(Duration::ZERO) {
            Ok(incoming) => incoming != Incoming::Silence,
            Err(error) => error.is_finding(),
        };
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
fn print_connected(output: &mut Output, tally: &Tally, took: Duration) {
    let seconds = took.as_secs_f64();
    let rate = tally.answered as f64 / seconds.max(0.001);
    output.line(format_args!(
        "{} connections had their answers after {seconds:.2} s: {rate:.1} connections per second",
        tally.answered
    ));
    output.line(format_args!(
        "{} retries, {} given up; failed attempts: {}",
        tally.retries(),
        tally.given_up,
        tally.failed()
    ));
    output.set("connected_ns", took.as_nanos() as u64);
    output.set("connections_per_second", rate);
    output.set("answered", tally.answered);
    output.set("retries", tally.retries());
    output.set("given_up", tally.given_up);
    let failures = tally.failures.iter();
    let failures = failures.map(|(failure, &count)| (failure.to_string(), count.into()));
    output.set("failures", Value::Object(failures.collect()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Outcome;
    use std::io::ErrorKind;

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
            failed_here: 0,
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

    /// Returns the outcome for two connections that were answered and one whose attempts failed so.
    fn outcome(failures: &[Failure], lost: usize) -> Outcome {
        let mut tally = Tally {
            answered: 2,
            lost,
            ..Tally::default()
        };
        for (nth, &failure) in failures.iter().enumerate() {
            tally.note(failure, nth == failures.len() - 1);
        }
        Outcome::of(&tally.result(3))
    }

    #[test]
    fn failures_of_this_side_say_nothing_about_the_server() {
        assert_eq!(outcome(&[Failure::Local], 0), Outcome::Untested);
        assert_eq!(outcome(&[Failure::Local], 1), Outcome::Finding);
        assert_eq!(outcome(&[Failure::Rejected], 0), Outcome::Finding);
        let last_local = [Failure::Rejected, Failure::Local];
        assert_eq!(outcome(&last_local, 0), Outcome::Untested);
        let last_rejected = [Failure::Local, Failure::Rejected];
        assert_eq!(outcome(&last_rejected, 0), Outcome::Finding);
        // A retry was successful.
        let mut tally = Tally {
            answered: 3,
            ..Tally::default()
        };
        tally.note(Failure::Rejected, false);
        assert_eq!(Outcome::of(&tally.result(3)), Outcome::Good);
    }

    #[test]
    fn a_server_that_never_answers_has_failed() {
        let silent = Error::new("the connection had no event in time");
        assert_eq!(Failure::of(&silent), Failure::Unanswered);
        let gone = Error::os("call", ErrorKind::NotConnected.into());
        assert_eq!(Failure::of(&gone), Failure::Closed);
        let local = Error::os("call", ErrorKind::OutOfMemory.into());
        assert_eq!(Failure::of(&local), Failure::Local);
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

// SPDX-License-Identifier: GPL-2.0

//! `storm`: many connections at once, and the end of all at once.
//!
//! Each connection makes GETATTRs as soon as it stands, and is then kept until all the others had
//! their answers too. One that fails is tried again a few times, as clients do. A flood is a storm
//! without Calls, possibly from another address than other clients of this host.

use crate::{
    args::Args,
    error::{Error, Result},
    ffi::{self, Event},
    message::{Answer, Message},
    peer::{Incoming, Manners, Peer},
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

/// Its options.
pub(crate) const OPTIONS: &[&str] = &["count", "parallel", "how", "calls", "from"];

/// GETATTRs of each connection, unless another number is given. While many connect, nfsd closes the oldest for which it has not looked
/// up a file yet, and that may be one whose answer is under way: only who has a second one is not among
/// those that were chosen (svc_check_conn_limits in net/sunrpc/svc_xprt.c).
const CALLS: u32 = 2;

/// How often a connection is tried again.
const RETRIES: u32 = 10;

/// The time before it is tried again for the first time; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest time before it is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What an attempt to connect and be answered failed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Failure {
    /// The server turned the connect request away.
    Rejected,
    /// The connection manager gave up.
    Unreachable,
    /// The connection was closed before all Calls were answered.
    Closed,
    /// A Call got no answer in time.
    Unanswered,
    /// A Call failed.
    Refused,
    /// Something on this side.
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

/// In which manner all connections end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// They disconnect.
    Disconnect,
    /// The queue pairs are destroyed, and the connection managers are told only afterwards.
    Silent,
}

/// How things went.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Connections that had their answers.
    answered: usize,
    /// Connections that were tried often enough.
    given_up: usize,
    /// Connections that ended after their answers, and before we ended them.
    lost: usize,
    /// Failed attempts.
    failures: BTreeMap<Failure, usize>,
}

impl Tally {
    /// Returns the sum of both.
    fn add(mut self, other: Self) -> Self {
        self.answered += other.answered;
        self.given_up += other.given_up;
        self.lost += other.lost;
        for (failure, count) in other.failures {
            *self.failures.entry(failure).or_default() += count;
        }
        self
    }

    /// Returns how often a connection was tried again.
    fn retries(&self) -> usize {
        let failed: usize = self.failures.values().sum();
        failed.saturating_sub(self.given_up)
    }

    /// Names the failures.
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

/// A place that threads pass when it is opened.
#[derive(Default)]
struct Gate(RwLock<()>);

impl Gate {
    /// Closes it until the result is dropped.
    fn close(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        self.0.write().map_err(|_| Error::new("a thread failed"))
    }

    /// Waits until it is open.
    fn pass(&self) {
        drop(self.0.read());
    }
}

/// What all threads know.
struct Storm {
    target: SocketAddr,
    /// The address to connect from.
    from: Option<IpAddr>,
    /// GETATTRs of each connection.
    calls: u32,
    end: End,
    /// Opens when all threads are there.
    begins: Gate,
    /// Opens when all connections had their answers.
    ends: Gate,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let count: usize = args.value("count", 1)?;
    let parallel: usize = args.value("parallel", 32)?;
    let end = match args.text("how") {
        None | Some("disconnect") => End::Disconnect,
        Some("silent") => End::Silent,
        Some(other) => return Err(Error::new(format!("--how: nothing is called \"{other}\""))),
    };
    ffi::raise_file_limit()?;
    let storm = Storm {
        target: args.target()?,
        from: match args.text("from") {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| Error::new("--from: no address"))?),
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

/// Returns the time to wait before a connection is tried again after `failures` of it.
fn pause(failures: u32) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.min(16));
    doubled.min(LONGEST_PAUSE)
}

impl Storm {
    /// Has a thread for each of `shares` make so many connections; prints how it went.
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
            let come = results.iter().take(shares.len());
            let come = come.fold(Tally::default(), Tally::add);
            print_come(&come, begin.elapsed());
            let end = Instant::now();
            drop(ends);
            Ok((results.iter().fold(come, Tally::add), end))
        })?;
        println!("all were gone after {:.2} s", end.elapsed().as_secs_f64());
        Ok(tally)
    }

    /// Makes `share` connections, reports, and ends them with all the others.
    fn work(&self, share: usize, reports: &Sender<Tally>) {
        self.begins.pass();
        let mut tally = Tally::default();
        let peers: Vec<Peer> = (0..share)
            .filter_map(|_| self.persist(&mut tally))
            .collect();
        // Nobody reads reports any more when the command has failed.
        let _ = reports.send(tally);
        self.ends.pass();
        let _ = reports.send(self.leave(peers));
    }

    /// Makes a connection, in several attempts if need be.
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

    /// Makes a connection and its Calls.
    fn attempt(&self) -> std::result::Result<Peer, Failure> {
        let local = |error: Error| {
            eprintln!("rpcrdma-probe storm: {error}");
            Failure::Local
        };
        let manners = Manners {
            from: self.from,
            ..Manners::default()
        };
        let mut peer = Peer::request(&self.target, manners).map_err(local)?;
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

    /// Ends all of `peers`; what remains of them is gone when this returns.
    fn leave(&self, mut peers: Vec<Peer>) -> Tally {
        let is_lost =
            |peer: &mut Peer| peer.receive(Duration::ZERO).ok() != Some(Incoming::Silence);
        let lost = peers.iter_mut().map(is_lost).filter(|&lost| lost).count();
        match self.end {
            // An error, or no event, is that of a connection that is gone already.
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

/// Whether `answer` is what a GETATTR should get.
fn is_success(xid: u32, answer: &Answer) -> bool {
    match answer {
        Answer::Reply(reply) => rpc::outcome(xid, &reply.body) == rpc::Outcome::Success(Some(0)),
        _ => false,
    }
}

/// Prints how the connections came to be.
fn print_come(tally: &Tally, took: Duration) {
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

// SPDX-License-Identifier: GPL-2.0

//! `share`: counts how many Calls two peers have answered at the same time whose demand is equal.
//!
//! The large peer keeps some Calls in flight on each of its connections, so it takes all that the
//! server gives it. The small peer has one connection. It makes one Call for each answer that the
//! large peer has had, so both want as many Calls. A server that lets the small peer wait longer
//! than the large one answers fewer of its Calls, because their number in flight is limited.

use crate::{
    args::Args,
    calls::{Calls, Course, Kind, Next},
    error::{Error, Result},
    grant::MOST,
    missing,
    peer::PATIENCE,
};
use std::{
    net::SocketAddr,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering}, //
    },
    thread,
    time::Duration, //
};

/// Options of the command.
pub(crate) const OPTIONS: &[&str] = &[
    "kind",
    "file",
    "connections",
    "depth",
    "size",
    "small-size",
    "count",
];

/// See [`Params`](crate::peer::Params): 9 s. Messages of a busy soft device wait for long, and rxe
/// may fail when it repeats RDMA Reads.
const ACK_TIMEOUT: u8 = 21;

/// The state that all connections share.
#[derive(Default)]
struct Share {
    /// The connections of both peers.
    connections: usize,
    /// Answers to the large peer at which all Calls end.
    count: usize,
    /// Connections that are ready to make Calls.
    ready: AtomicUsize,
    /// True if a connection has failed.
    failed: AtomicBool,
    /// Answers to the large peer, and to the small one.
    large: AtomicUsize,
    small: AtomicUsize,
}

/// The part of a connection.
struct Part<'a> {
    share: &'a Share,
    /// The answers to the peer of this connection.
    answers: &'a AtomicUsize,
    /// The number of Calls that the peer wants; without a bound if None.
    demand: Option<&'a AtomicUsize>,
    is_ready: bool,
}

impl Part<'_> {
    /// Returns true if no more Calls are to be made and counted.
    fn is_over(&self) -> bool {
        let share = self.share;
        share.failed.load(Ordering::Relaxed) || share.large.load(Ordering::Relaxed) >= share.count
    }

    /// Counts this connection as ready. Returns true if all are.
    fn all_are_ready(&mut self) -> bool {
        let ready = &self.share.ready;
        if !self.is_ready {
            self.is_ready = true;
            ready.fetch_add(1, Ordering::Relaxed);
        }
        ready.load(Ordering::Relaxed) == self.share.connections
    }
}

impl Course for Part<'_> {
    fn next(&mut self, calls: usize) -> Next {
        let wants = |demand: &AtomicUsize| calls < demand.load(Ordering::Relaxed);
        if self.is_over() {
            Next::End
        } else if self.all_are_ready() && self.demand.is_none_or(wants) {
            Next::Call
        } else {
            Next::Wait
        }
    }

    fn answered(&mut self, _time: Duration, _credits: u32) {
        if !self.is_over() {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let connections: usize = args.value("connections", 16)?;
    let kind = Kind::named(args.text("kind").ok_or_else(|| missing("kind"))?)?;
    let file = args.text("file").ok_or_else(|| missing("file"))?;
    let calls = |nth: usize, size, depth| Calls {
        kind,
        size,
        file: format!("{file}{nth}"),
        depth,
        patience: PATIENCE,
        is_valid: true,
        ack_timeout: Some(ACK_TIMEOUT),
    };
    let (size, depth) = (args.value("size", 1 << 20)?, args.value("depth", 1)?);
    let mut all: Vec<Calls> = (1..=connections)
        .map(|nth| calls(nth, size, depth))
        .collect();
    all.insert(0, calls(0, args.value("small-size", 4096)?, MOST));
    let share = Share {
        connections: all.len(),
        count: args.value("count", 300)?,
        ..Share::default()
    };
    share.run(&args.target()?, &all)?;
    let of = |answers: &AtomicUsize| answers.load(Ordering::Relaxed);
    println!("{} small, {} large", of(&share.small), of(&share.large));
    Ok(())
}

impl Share {
    /// Makes the Calls of all connections, the small peer's first. Connects one after the other,
    /// because a server may refuse an address that has many requests to connect at a time.
    fn run(&self, target: &SocketAddr, all: &[Calls]) -> Result<()> {
        thread::scope(|scope| {
            let start = |(nth, calls)| {
                let running = scope.spawn(move || self.make(target, nth, calls));
                while self.ready.load(Ordering::Relaxed) <= nth && !running.is_finished() {
                    thread::sleep(Duration::from_millis(1));
                }
                running
            };
            let running: Vec<_> = all.iter().enumerate().map(start).collect();
            // All threads are joined before the first error is returned.
            let done: Vec<Result> = running.into_iter().map(joined).collect();
            done.into_iter().collect()
        })
    }

    /// Makes the Calls of one connection; the first one is the small peer's.
    fn make(&self, target: &SocketAddr, nth: usize, calls: &Calls) -> Result {
        let done = calls.make(target, &mut self.part(nth == 0));
        if done.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        done.map(drop)
    }

    /// Returns the part of a connection of the small or the large peer.
    fn part(&self, is_small: bool) -> Part<'_> {
        let (answers, demand) = match is_small {
            true => (&self.small, Some(&self.large)),
            false => (&self.large, None),
        };
        Part {
            share: self,
            answers,
            demand,
            is_ready: false,
        }
    }
}

/// Waits for a thread and returns its result.
fn joined(thread: thread::ScopedJoinHandle<'_, Result>) -> Result {
    let panicked = |_| Err(Error::new("a thread has panicked"));
    thread.join().unwrap_or_else(panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_peer_wants_as_many_calls_as_the_large_one_has() {
        let share = Share {
            connections: 2,
            count: 2,
            ..Share::default()
        };
        let (mut small, mut large) = (share.part(true), share.part(false));
        // Not before all connections are ready.
        assert_eq!(large.next(0), Next::Wait);
        assert_eq!(small.next(0), Next::Wait);
        assert_eq!(large.next(0), Next::Call);
        large.answered(Duration::ZERO, 8);
        assert_eq!((small.next(0), small.next(1)), (Next::Call, Next::Wait));
        assert_eq!(large.next(100), Next::Call);
    }

    #[test]
    fn answers_after_the_end_do_not_count() {
        let share = Share {
            connections: 1,
            count: 1,
            ..Share::default()
        };
        let (mut small, mut large) = (share.part(true), share.part(false));
        assert_eq!(large.next(0), Next::Call);
        large.answered(Duration::ZERO, 8);
        assert_eq!((small.next(0), large.next(1)), (Next::End, Next::End));
        small.answered(Duration::ZERO, 8);
        assert_eq!(share.small.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn all_end_with_the_first_that_fails() {
        let share = Share {
            count: 1,
            ..Share::default()
        };
        share.failed.store(true, Ordering::Relaxed);
        assert_eq!(share.part(true).next(0), Next::End);
    }
}

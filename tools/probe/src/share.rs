// SPDX-License-Identifier: GPL-2.0

//! `share`: counts how many Calls two peers have answered at the same time whose demand is equal.
//!
//! The large peer keeps some Calls in flight on each of its connections, so it takes all that the
//! server gives it. The small peer has one connection. It makes one Call for each answer that the
//! large peer has had, so both want as many Calls. A server that lets the small peer wait longer
//! than the large one answers fewer of its Calls, because their number in flight is limited.

use crate::{
    calls::{Answered, Calls, Course, Next},
    crew::{Crew, Member},
    error::Result,
    grant::MOST,
    mix::{Kind, Mix},
    output::{Format, Output},
    peer::PATIENCE,
    run::Run,
    target::Server, //
};
use clap::value_parser;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Let two peers with equal demand compete, and print how many Calls of each were answered
///
/// The large peer keeps Calls in flight on several connections. The small one makes on one
/// connection a Call for each answer to the large one.
#[derive(Debug, clap::Args)]
pub(crate) struct Share {
    #[command(flatten)]
    server: Server,
    /// Kind of Calls
    #[arg(long, value_enum)]
    kind: Kind,
    /// Files below the root of NFS version 4: PATH0 of the small peer, PATH1 and so on of the
    /// connections of the large one, as for load
    #[arg(long, value_name = "PATH")]
    file: String,
    /// Connections of the large peer
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..))]
    connections: u32,
    /// Calls in flight on each of them, at most 128
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = value_parser!(u32).range(1..=i64::from(MOST))
    )]
    depth: u32,
    /// Bytes of a READ or WRITE of the large peer
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = value_parser!(u32).range(1..))]
    size: u32,
    /// Bytes of a READ or WRITE of the small peer
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = value_parser!(u32).range(1..))]
    small_size: u32,
    /// Answers to the large peer, after which all Calls end
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = value_parser!(u32).range(1..))]
    count: u32,
}

/// See [`Params`](crate::peer::Params): 9 s. Messages of a busy soft device wait for long, and rxe
/// may fail when it repeats RDMA Reads.
const ACK_TIMEOUT: u8 = 21;

/// The state that all connections share.
#[derive(Default)]
struct Race {
    /// The connections of both peers.
    crew: Crew,
    /// Answers to the large peer at which all Calls end.
    count: usize,
    /// Answers to the large peer, and to the small one.
    large: AtomicUsize,
    small: AtomicUsize,
}

/// The part of a connection.
struct Part<'a> {
    race: &'a Race,
    member: Member<'a>,
    /// The answers to the peer of this connection.
    answers: &'a AtomicUsize,
    /// The number of Calls that the peer wants; without a bound if None.
    demand: Option<&'a AtomicUsize>,
}

impl Part<'_> {
    /// Returns true if no more Calls are to be made and counted.
    fn is_over(&self) -> bool {
        let race = self.race;
        race.crew.has_failed() || race.large.load(Ordering::Relaxed) >= race.count
    }
}

impl Course for Part<'_> {
    fn next(&mut self, calls: usize) -> Next {
        let wants = |demand: &AtomicUsize| calls < demand.load(Ordering::Relaxed);
        if self.is_over() {
            Next::End
        } else if self.member.all_are_ready() && self.demand.is_none_or(wants) {
            Next::Call
        } else {
            Next::Wait
        }
    }

    fn answered(&mut self, _reply: Answered) {
        if !self.is_over() {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Run for Share {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        // The small peer's is the first.
        let mut all = vec![self.calls(0, self.small_size, MOST)];
        all.extend((1..=self.connections).map(|nth| self.calls(nth, self.size, self.depth)));
        let race = Race {
            crew: Crew::new(all.len()),
            count: self.count as usize,
            ..Race::default()
        };
        let target = self.server.target()?;
        let parts = (0..all.len()).map(|nth| race.part(nth == 0));
        race.crew.run(&target, &all, parts.collect())?;
        let of = |answers: &AtomicUsize| answers.load(Ordering::Relaxed);
        let (small, large) = (of(&race.small), of(&race.large));
        output.line(format_args!("{small} small, {large} large"));
        output.set("small", small);
        output.set("large", large);
        Ok(())
    }
}

impl Share {
    /// Returns the Calls of the nth connection.
    fn calls(&self, nth: u32, size: u32, depth: u32) -> Calls {
        Calls {
            mix: Mix::of(self.kind),
            size,
            segments: 1,
            file: format!("{}{nth}", self.file),
            depth,
            patience: PATIENCE,
            is_valid: true,
            ack_timeout: Some(ACK_TIMEOUT),
        }
    }
}

impl Race {
    /// Returns the part of a connection of the small or the large peer.
    fn part(&self, is_small: bool) -> Part<'_> {
        let (answers, demand) = if is_small {
            (&self.small, Some(&self.large))
        } else {
            (&self.large, None)
        };
        Part {
            race: self,
            member: self.crew.member(),
            answers,
            demand,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn race(connections: usize, count: usize) -> Race {
        Race {
            crew: Crew::new(connections),
            count,
            ..Race::default()
        }
    }

    fn reply() -> Answered {
        Answered {
            kind: Kind::Read,
            time: Duration::ZERO,
            at: Instant::now(),
        }
    }

    #[test]
    fn the_small_peer_wants_as_many_calls_as_the_large_one_has() {
        let race = race(2, 2);
        let (mut small, mut large) = (race.part(true), race.part(false));
        // Not before all connections are ready.
        assert_eq!(large.next(0), Next::Wait);
        assert_eq!(small.next(0), Next::Wait);
        assert_eq!(large.next(0), Next::Call);
        large.answered(reply());
        assert_eq!((small.next(0), small.next(1)), (Next::Call, Next::Wait));
        assert_eq!(large.next(100), Next::Call);
    }

    #[test]
    fn answers_after_the_end_do_not_count() {
        let race = race(1, 1);
        let (mut small, mut large) = (race.part(true), race.part(false));
        assert_eq!(large.next(0), Next::Call);
        large.answered(reply());
        assert_eq!((small.next(0), large.next(1)), (Next::End, Next::End));
        small.answered(reply());
        assert_eq!(race.small.load(Ordering::Relaxed), 0);
    }
}

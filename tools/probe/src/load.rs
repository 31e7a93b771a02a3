// SPDX-License-Identifier: GPL-2.0

//! `load`: makes Calls at a given depth on some connections and measures their response times.
//!
//! The clock runs from the first Call to the last reply. All connections are established before.

use crate::{
    calls::{Answered, Calls, Course, Granted, Next},
    crew::{Crew, Member},
    error::{Error, Result},
    grant::MOST,
    mix::{Kind, Mix},
    output::{progress, Format, Output},
    run::Run,
    target::Server,
    times::Times, //
};
use clap::value_parser;
use serde_json::{json, Value};
use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicU64, Ordering},
        OnceLock,
    },
    time::{Duration, Instant}, //
};

/// The interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(1);

/// The most Calls that a connection takes at a time, of those that all connections together make.
const SHARE: u64 = 64;

/// Make Calls at a given depth, and print their rate and response times
///
/// The clock runs from the first Call to the last reply; all connections are established before.
#[derive(Debug, clap::Args)]
pub(crate) struct Load {
    #[command(flatten)]
    server: Server,
    /// Kind of Calls: null, read or write, or shares of several kinds such as read=70,write=30;
    /// read and write need --file
    #[arg(long, value_name = "KIND[=SHARE],...", default_value = "null")]
    kind: Mix,
    /// Connections, each in its own thread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    connections: u32,
    /// Calls in flight on each connection, at most 128 and what the server grants
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = value_parser!(u32).range(1..=i64::from(MOST))
    )]
    depth: u32,
    /// Calls on all connections together
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u64).range(1..))]
    count: u64,
    /// Seconds for which Calls are made, instead of --count
    #[arg(
        long,
        value_name = "SECONDS",
        conflicts_with = "count",
        value_parser = value_parser!(u32).range(1..)
    )]
    duration: Option<u32>,
    /// Bytes of a READ or WRITE
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = value_parser!(u32).range(1..))]
    size: u32,
    /// Segments in which a READ or WRITE offers its memory, of equal length but for the last one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    segments: u32,
    /// File below the root of NFS version 4; write overwrites it, and read needs one of at least
    /// depth times size bytes
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Milliseconds to wait after connecting, before the first message
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pause: u64,
    /// Seconds without a reply after which the server has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u64).range(1..))]
    patience: u64,
    /// Make a GETATTR first, so that nfsd takes the peer for valid
    #[arg(long)]
    valid: bool,
}

/// The end of a measurement.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Calls(u64),
    Time(Duration),
}

/// The measurement of all connections.
///
/// Each connection measures by itself, so that connections do not wait for each other: they share
/// only numbers that rarely change.
struct Measurement {
    crew: Crew,
    mix: Mix,
    limit: Limit,
    /// Calls that no connection has taken yet.
    left: AtomicU64,
    /// The time of the first Call.
    begin: OnceLock<Instant>,
    answers: Vec<Answers>,
}

/// The replies that one connection has got, which progress messages read. Each has a cache line of
/// its own.
#[derive(Default)]
#[repr(align(128))]
struct Answers(AtomicU64);

/// The part of a connection.
struct Part<'a> {
    measurement: &'a Measurement,
    member: Member<'a>,
    /// Calls that this connection has taken and not made.
    taken: u64,
    answers: &'a Answers,
    /// The time of the last reply.
    end: Option<Instant>,
    times: BTreeMap<Kind, Times>,
}

/// The measurements of all connections, merged.
struct Results {
    /// From the first Call to the last reply.
    elapsed: Duration,
    all: Times,
    by_kind: BTreeMap<Kind, Times>,
}

impl Measurement {
    fn new(connections: usize, limit: Limit, mix: &Mix) -> Self {
        let left = match limit {
            Limit::Calls(count) => count,
            Limit::Time(_) => 0,
        };
        Self {
            crew: Crew::new(connections),
            mix: mix.clone(),
            limit,
            left: left.into(),
            begin: OnceLock::new(),
            answers: (0..connections).map(|_| Answers::default()).collect(),
        }
    }

    /// Returns the part of the nth connection.
    fn part(&self, nth: usize) -> Result<Part<'_>> {
        Ok(Part {
            measurement: self,
            member: self.crew.member(),
            taken: 0,
            answers: &self.answers[nth],
            end: None,
            times: empty(&self.mix)?,
        })
    }

    /// Takes Calls for a connection to make. Returns 0 if none are left.
    fn take(&self) -> u64 {
        let rest = |left| Some(left - self.share(left));
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        self.share(taken.unwrap_or_default())
    }

    /// Returns how many of the Calls that are left a connection takes at a time: the fewer the closer
    /// the end is, so that all connections end together.
    fn share(&self, left: u64) -> u64 {
        (left / (4 * self.answers.len() as u64))
            .clamp(1, SHARE)
            .min(left)
    }

    /// Returns true if the time is over.
    fn is_over(&self, most: Duration) -> bool {
        let begin = self.begin.get();
        begin.is_some_and(|begin| begin.elapsed() >= most)
    }

    /// Describes how far the measurement is.
    fn so_far(&self) -> String {
        let answers = self.answers.iter();
        let answers: u64 = answers.map(|one| one.0.load(Ordering::Relaxed)).sum();
        match self.limit {
            Limit::Calls(most) => format!("{answers} of {most} Calls"),
            Limit::Time(_) => format!("{answers} Calls"),
        }
    }

    /// Merges what the connections have measured.
    fn results(&self, parts: &[Part<'_>]) -> Result<Results> {
        let mut by_kind = empty(&self.mix)?;
        let mut all = Times::new()?;
        for (kind, times) in parts.iter().flat_map(|part| &part.times) {
            all.add_all(times)?;
            if let Some(of_kind) = by_kind.get_mut(kind) {
                of_kind.add_all(times)?;
            }
        }
        let end = parts.iter().filter_map(|part| part.end).max();
        let elapsed = end.zip(self.begin.get());
        Ok(Results {
            elapsed: elapsed.map_or(Duration::ZERO, |(end, begin)| end.duration_since(*begin)),
            all,
            by_kind,
        })
    }
}

/// Returns collections of times for each kind of Calls in `mix`.
fn empty(mix: &Mix) -> Result<BTreeMap<Kind, Times>> {
    mix.kinds().map(|kind| Ok((kind, Times::new()?))).collect()
}

impl Part<'_> {
    /// Returns true if this connection may make another Call, which it then takes.
    fn take(&mut self) -> bool {
        match self.measurement.limit {
            Limit::Time(most) => !self.measurement.is_over(most),
            Limit::Calls(_) => {
                if self.taken == 0 {
                    self.taken = self.measurement.take();
                }
                let has_one = self.taken > 0;
                self.taken = self.taken.saturating_sub(1);
                has_one
            }
        }
    }
}

impl Course for Part<'_> {
    fn next(&mut self, _calls: usize) -> Next {
        if self.measurement.crew.has_failed() {
            return Next::End;
        }
        if !self.member.all_are_ready() {
            return Next::Wait;
        }
        if !self.take() {
            return Next::End;
        }
        self.measurement.begin.get_or_init(Instant::now);
        Next::Call
    }

    fn answered(&mut self, reply: Answered) {
        self.end = Some(reply.at);
        if let Some(times) = self.times.get_mut(&reply.kind) {
            times.add(reply.time);
        }
        self.answers.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Results {
    /// Returns the Calls per second.
    fn rate(&self) -> f64 {
        self.all.count() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

impl Run for Load {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        let limit = match self.duration {
            Some(seconds) => Limit::Time(Duration::from_secs(u64::from(seconds))),
            None => Limit::Calls(self.count),
        };
        let all = self.calls()?;
        let measurement = Measurement::new(all.len(), limit, &self.kind);
        let mut target = self.server.target()?;
        target.pause = Duration::from_millis(self.pause);
        let parts = (0..all.len()).map(|nth| measurement.part(nth));
        let parts = parts.collect::<Result<Vec<Part<'_>>>>()?;
        let done = progress(
            PROGRESS,
            || measurement.so_far(),
            || measurement.crew.run(&target, &all, parts),
        );
        let (granted, parts): (Vec<Granted>, Vec<Part<'_>>) = done
            .map_err(|error| {
                let text = format!("{error}, after {} with replies", measurement.so_far());
                error.described(text)
            })?
            .into_iter()
            .unzip();
        print(output, &measurement.results(&parts)?, &granted);
        Ok(())
    }
}

impl Load {
    /// Returns the Calls of each connection.
    fn calls(&self) -> Result<Vec<Calls>> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None if self.kind.kinds().any(Kind::needs_file) => return Err(Error::missing("file")),
            None => String::new(),
        };
        let calls = |_| Calls {
            mix: self.kind.clone(),
            size: self.size,
            segments: self.segments,
            file: file.clone(),
            depth: self.depth,
            patience: Duration::from_secs(self.patience),
            is_valid: self.valid,
            ack_timeout: None,
        };
        Ok((0..self.connections).map(calls).collect())
    }
}

/// Prints the results.
fn print(output: &mut Output, results: &Results, granted: &[Granted]) {
    let rate = results.rate();
    output.line(format_args!("{rate:.0} Calls per second"));
    for granted in granted {
        output.line(format_args!("credits: {granted}"));
    }
    output.line(&results.all);
    if results.by_kind.len() > 1 {
        for (kind, times) in &results.by_kind {
            output.line(format_args!("{kind}: {times}"));
        }
    }
    for line in results.all.histogram() {
        output.line(line);
    }
    output.set("calls_per_second", rate);
    output.set("elapsed_ns", results.elapsed.as_nanos() as u64);
    output.set("times", results.all.json());
    let kinds = results.by_kind.iter();
    let kinds = kinds.map(|(kind, times)| (kind.to_string(), times.json()));
    output.set("kinds", Value::Object(kinds.collect()));
    let credits = granted.iter().map(|granted| {
        json!({
            "first": granted.first, "most": granted.most, "most_by_reply": granted.risen,
            "last": granted.last,
        })
    });
    output.set("credits", credits.collect::<Vec<Value>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(connections: usize, limit: Limit) -> Measurement {
        Measurement::new(connections, limit, &"read,write".parse().unwrap())
    }

    fn reply(kind: Kind) -> Answered {
        Answered {
            kind,
            time: Duration::from_micros(5),
            at: Instant::now(),
        }
    }

    #[test]
    fn all_connections_together_make_the_count() {
        for count in [1, 3, 1000, 100_000] {
            let measurement = measurement(2, Limit::Calls(count));
            let mut parts = [0, 1].map(|nth| measurement.part(nth).unwrap());
            assert_eq!(parts[0].next(0), Next::Wait);
            let mut made = [0, 0];
            let mut running = true;
            while running {
                running = false;
                for (part, made) in parts.iter_mut().zip(&mut made) {
                    if part.next(0) == Next::Call {
                        *made += 1;
                        running = true;
                    }
                }
            }
            assert_eq!(made.iter().sum::<u64>(), count);
            assert!(made[0].abs_diff(made[1]) <= SHARE, "{made:?} of {count}");
        }
    }

    #[test]
    fn the_clock_starts_with_the_first_call() {
        let measurement = measurement(1, Limit::Time(Duration::ZERO));
        let mut part = measurement.part(0).unwrap();
        assert!(measurement.begin.get().is_none());
        assert_eq!(part.next(0), Next::Call);
        assert_eq!(part.next(1), Next::End);
        part.answered(reply(Kind::Read));
        let results = measurement.results(&[part]).unwrap();
        assert!(results.elapsed > Duration::ZERO);
        let none = measurement.results(&[]).unwrap();
        assert_eq!(none.elapsed, Duration::ZERO);
    }

    #[test]
    fn measurements_are_merged_by_kind() {
        let measurement = measurement(2, Limit::Calls(9));
        let mut parts = [0, 1].map(|nth| measurement.part(nth).unwrap());
        for (nth, kind) in [(0, Kind::Read), (1, Kind::Read), (1, Kind::Write)] {
            parts[nth].answered(reply(kind));
        }
        assert_eq!(measurement.so_far(), "3 of 9 Calls");
        let results = measurement.results(&parts).unwrap();
        let of = |kind| results.by_kind.get(&kind).map(Times::count);
        assert_eq!((of(Kind::Read), of(Kind::Write)), (Some(2), Some(1)));
        assert_eq!(results.all.count(), 3);
    }
}

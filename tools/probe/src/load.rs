// SPDX-License-Identifier: GPL-2.0

//! `load`: makes Calls at a given depth on some connections and measures their response times.
//!
//! The clock runs from the first Call to the last reply. All connections are established before.

use crate::{
    calls::{Answered, Calls, Course, Granted, Next},
    cli::Run,
    crew::{Crew, Member},
    error::Result,
    grant::MOST,
    missing,
    mix::{Kind, Mix},
    output::{Format, Output, Progress},
    peer,
    target::Server,
    times::Times, //
};
use clap::value_parser;
use serde_json::{json, Value};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant}, //
};

/// The interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(1);

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
struct Measurement {
    crew: Crew,
    limit: Limit,
    tally: Mutex<Tally>,
}

/// The measurements so far.
struct Tally {
    /// Calls that were made.
    made: u64,
    /// The time of the first Call.
    begin: Option<Instant>,
    /// From the first Call to the last reply.
    elapsed: Duration,
    all: Times,
    by_kind: BTreeMap<Kind, Times>,
    progress: Progress,
}

/// The part of a connection.
struct Part<'a> {
    measurement: &'a Measurement,
    member: Member<'a>,
}

impl Measurement {
    fn new(connections: usize, limit: Limit, mix: &Mix) -> Result<Self> {
        let by_kind = mix.kinds().map(|kind| Ok((kind, Times::new()?)));
        Ok(Self {
            crew: Crew::new(connections),
            limit,
            tally: Mutex::new(Tally {
                made: 0,
                begin: None,
                elapsed: Duration::ZERO,
                all: Times::new()?,
                by_kind: by_kind.collect::<Result<_>>()?,
                progress: Progress::new(PROGRESS),
            }),
        })
    }

    /// Returns the part of a connection.
    fn part(&self) -> Part<'_> {
        Part {
            measurement: self,
            member: self.crew.member(),
        }
    }

    /// Locks what was measured. Poisoning is ignored, as the panic of another thread is reported.
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

impl Tally {
    /// Returns true if no more Calls are to be made.
    fn is_over(&self, limit: Limit) -> bool {
        match limit {
            Limit::Calls(most) => self.made >= most,
            Limit::Time(most) => self.begin.is_some_and(|begin| begin.elapsed() >= most),
        }
    }

    /// Returns the Calls per second.
    fn rate(&self) -> f64 {
        self.all.count() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Describes how far the measurement is.
    fn so_far(&self, limit: Limit) -> String {
        let answers = self.all.count();
        match limit {
            Limit::Calls(most) => format!("{answers} of {most} Calls"),
            Limit::Time(_) => format!("{answers} Calls"),
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
        let mut tally = self.measurement.tally();
        if tally.is_over(self.measurement.limit) {
            return Next::End;
        }
        tally.begin.get_or_insert_with(Instant::now);
        tally.made += 1;
        Next::Call
    }

    fn answered(&mut self, reply: Answered) {
        let mut tally = self.measurement.tally();
        let tally = &mut *tally;
        tally.elapsed = tally.begin.map_or(Duration::ZERO, |begin| begin.elapsed());
        tally.all.add(reply.time);
        if let Some(times) = tally.by_kind.get_mut(&reply.kind) {
            times.add(reply.time);
        }
        let so_far = tally.so_far(self.measurement.limit);
        tally
            .progress
            .tell(|| format!("{so_far}, {} credits", reply.credits));
    }
}

impl Run for Load {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        peer::set_pause(self.pause);
        let limit = match self.duration {
            Some(seconds) => Limit::Time(Duration::from_secs(u64::from(seconds))),
            None => Limit::Calls(self.count),
        };
        let all = self.calls()?;
        let measurement = Measurement::new(all.len(), limit, &self.kind)?;
        let target = self.server.target()?;
        let done = measurement.crew.run(&target, &all, |_| measurement.part());
        let tally = measurement.tally();
        let granted = done.map_err(|error| {
            let text = format!("{error}, after {} with replies", tally.so_far(limit));
            error.described(text)
        })?;
        print(output, &tally, &granted);
        Ok(())
    }
}

impl Load {
    /// Returns the Calls of each connection.
    fn calls(&self) -> Result<Vec<Calls>> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None if self.kind.kinds().any(Kind::needs_file) => return Err(missing("file")),
            None => String::new(),
        };
        let calls = |_| Calls {
            mix: self.kind.clone(),
            size: self.size,
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
fn print(output: &mut Output, tally: &Tally, granted: &[Granted]) {
    let rate = tally.rate();
    output.line(format_args!("{rate:.0} Calls per second"));
    for granted in granted {
        output.line(format_args!("credits: {granted}"));
    }
    output.line(&tally.all);
    if tally.by_kind.len() > 1 {
        for (kind, times) in &tally.by_kind {
            output.line(format_args!("{kind}: {times}"));
        }
    }
    for line in tally.all.histogram() {
        output.line(line);
    }
    output.set("calls_per_second", rate);
    output.set("elapsed_ns", tally.elapsed.as_nanos() as u64);
    output.set("times", tally.all.json());
    let kinds = tally.by_kind.iter();
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
        let mix = "read,write".parse().unwrap();
        Measurement::new(connections, limit, &mix).unwrap()
    }

    fn reply(kind: Kind) -> Answered {
        Answered {
            kind,
            time: Duration::from_micros(5),
            credits: 8,
        }
    }

    #[test]
    fn all_connections_together_make_the_count() {
        let measurement = measurement(2, Limit::Calls(3));
        let (mut one, mut other) = (measurement.part(), measurement.part());
        assert_eq!((one.next(0), other.next(0)), (Next::Wait, Next::Call));
        assert_eq!((one.next(0), one.next(1)), (Next::Call, Next::Call));
        assert_eq!((one.next(2), other.next(1)), (Next::End, Next::End));
    }

    #[test]
    fn the_clock_starts_with_the_first_call() {
        let measurement = measurement(1, Limit::Time(Duration::ZERO));
        let mut part = measurement.part();
        assert!(measurement.tally().begin.is_none());
        assert_eq!(part.next(0), Next::Call);
        assert_eq!(part.next(1), Next::End);
        part.answered(reply(Kind::Read));
        assert!(measurement.tally().elapsed > Duration::ZERO);
    }

    #[test]
    fn kinds_are_measured_apart() {
        let measurement = measurement(1, Limit::Calls(9));
        let mut part = measurement.part();
        assert_eq!(part.next(0), Next::Call);
        [Kind::Read, Kind::Read, Kind::Write]
            .into_iter()
            .for_each(|kind| part.answered(reply(kind)));
        let tally = measurement.tally();
        let of = |kind| tally.by_kind.get(&kind).map(Times::count);
        assert_eq!((of(Kind::Read), of(Kind::Write)), (Some(2), Some(1)));
        assert_eq!(tally.so_far(measurement.limit), "3 of 9 Calls");
    }
}

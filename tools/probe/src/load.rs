// SPDX-License-Identifier: GPL-2.0

//! `load`: makes Calls of one kind at a given depth and measures their response times.

use crate::{
    args::Args,
    calls::{Calls, Course, Granted, Kind, Next},
    error::Result,
    missing,
    peer::{self, PATIENCE},
    times::Times,
};
use std::time::{Duration, Instant};

/// Options of the command.
pub(crate) const OPTIONS: &[&str] = &[
    "kind", "depth", "count", "size", "file", "pause", "patience", "valid",
];

/// The interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(1);

/// The measurement of a number of Calls.
struct Measurement {
    count: usize,
    times: Vec<Duration>,
    /// The time of the last progress message.
    told: Instant,
}

impl Course for Measurement {
    fn next(&mut self, calls: usize) -> Next {
        match calls < self.count {
            true => Next::Call,
            false => Next::End,
        }
    }

    fn answered(&mut self, time: Duration, credits: u32) {
        self.times.push(time);
        if self.told.elapsed() >= PROGRESS {
            self.told = Instant::now();
            eprintln!("{} of {}, {credits} credits", self.times.len(), self.count);
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    peer::set_pause(args.value("pause", 0)?);
    let kind = args.text("kind").map_or(Ok(Kind::Null), Kind::named)?;
    let calls = Calls {
        kind,
        size: args.value("size", 4096)?,
        file: match (kind, args.text("file")) {
            (Kind::Null, _) => String::new(),
            (_, file) => file.ok_or_else(|| missing("file"))?.to_owned(),
        },
        depth: args.value("depth", 1)?,
        patience: Duration::from_secs(args.value("patience", PATIENCE.as_secs())?),
        is_valid: args.text("valid").is_some(),
        ack_timeout: None,
    };
    let begin = Instant::now();
    let mut measurement = Measurement {
        count: args.value("count", 1000)?,
        times: Vec::new(),
        told: begin,
    };
    let granted = calls.make(&args.target()?, &mut measurement)?;
    print(begin.elapsed(), measurement.times, &granted);
    Ok(())
}

/// Prints the results of Calls that took `elapsed` together.
fn print(elapsed: Duration, times: Vec<Duration>, granted: &Granted) {
    let rate = times.len() as f64 / elapsed.as_secs_f64().max(0.001);
    println!("{rate:.0} Calls per second");
    let Granted {
        first,
        most,
        last,
        risen,
        ..
    } = granted;
    println!("credits: {first} first, {most} most (by reply {risen}), {last} last");
    let times: Times = times.into_iter().collect();
    println!("{times}");
    times.histogram().iter().for_each(|line| println!("{line}"));
}

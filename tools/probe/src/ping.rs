// SPDX-License-Identifier: GPL-2.0

//! `ping`: connects, makes NULL Calls, says what was agreed on and how long they took.

use crate::{
    args::Args,
    error::{Error, Result},
    peer::{Manners, Peer},
};
use std::time::{Duration, Instant};
use svcrdma_proto::cm;

/// Options that take a value.
pub(crate) const OPTIONS: &[&str] = &["count"];

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let count: u32 = args.value("count", 5)?;
    if count == 0 {
        return Err(Error::new("--count: at least 1"));
    }
    let begin = Instant::now();
    let mut peer = Peer::connect(&args.target()?, Manners::default())?;
    println!("connected to {} in {:?}", args.host(), begin.elapsed());
    print_agreement(peer.private_data());
    let (times, credits) = measure(&mut peer, count)?;
    println!("credits granted: {credits}");
    let us = |percent| percentile(&times, percent).as_micros();
    println!(
        "NULL: {count} Calls, {} us shortest, {} us p50, {} us p99, {} us longest",
        us(0),
        us(50),
        us(99),
        us(100)
    );
    peer.disconnect()
}

/// Prints what the server said and what follows from it.
fn print_agreement(private_data: &[u8]) {
    let server = cm::Peer::parse(private_data);
    let sent = private_data.starts_with(&cm::private_data(0, 0, false)[..4]);
    println!(
        "server's private data: {}, sends {}, receives {} bytes",
        if sent { "present" } else { "absent" },
        server.send,
        server.receive
    );
    println!(
        "thresholds: Calls {}, Replies {} bytes",
        server.receive.min(4096),
        server.send.min(4096)
    );
}

/// Makes `count` NULL Calls; returns their times in order of length, and the last grant of credits.
fn measure(peer: &mut Peer, count: u32) -> Result<(Vec<Duration>, u32)> {
    let mut times = Vec::new();
    let mut credits = 0;
    for _ in 0..count {
        let begin = Instant::now();
        credits = peer.null()?;
        times.push(begin.elapsed());
    }
    times.sort();
    Ok((times, credits))
}

/// Returns the least of `times`, which are in order of length, that so many percent of them do not
/// exceed; zero when there are none.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    let rank = (times.len() * percent).div_ceil(100);
    let time = times.get(rank.saturating_sub(1));
    time.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let ms = Duration::from_millis;
        let times: Vec<Duration> = (1..=200).map(ms).collect();
        for (percent, expected) in [(0, 1), (50, 100), (99, 198), (100, 200)] {
            assert_eq!(percentile(&times, percent), ms(expected), "{percent}");
        }
        assert_eq!(percentile(&times[..1], 99), ms(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }
}

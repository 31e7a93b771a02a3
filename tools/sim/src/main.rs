// SPDX-License-Identifier: GPL-2.0

//! Runs the module under many schedules: `svcrdma-sim FIRST COUNT`, or `svcrdma-sim SEED` to
//! repeat one with its whole time line.

mod call;
mod callback;
mod malformed;
mod manner;
mod peer;
mod scenario;

use std::{panic, sync::atomic::Ordering::Relaxed, time::Instant};

fn main() {
    let args: Vec<u64> = std::env::args()
        .skip(1)
        .map(|arg| arg.parse().expect("seeds are numbers"))
        .collect();
    let (first, count) = match args[..] {
        [seed] => (seed, None),
        [first, count] => (first, Some(count)),
        _ => (1, Some(100)),
    };
    panic::set_hook(Box::new(|info| {
        let (seed, events) = kernel::sim::story();
        eprintln!("{}", events.join("\n"));
        eprintln!("seed {seed}: {info}");
        eprintln!("repeat with: make sim SEED={seed}");
        std::process::exit(1);
    }));
    let start = Instant::now();
    for seed in first..first + count.unwrap_or(1) {
        kernel::sim::run(seed, count.is_none(), scenario::run);
    }
    let (seconds, calls) = (start.elapsed().as_secs(), scenario::ANSWERED.load(Relaxed));
    println!(
        "{} seeds, {calls} Calls answered, {seconds} seconds",
        count.unwrap_or(1)
    );
}

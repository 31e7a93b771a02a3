// SPDX-License-Identifier: GPL-2.0

//! Runs the module under many schedules: `svcrdma-sim FIRST COUNT`; `svcrdma-sim SEED` to
//! repeat one with its whole time line; or `svcrdma-sim failures` for all single failures.

mod call;
mod callback;
mod counters;
mod malformed;
mod manner;
mod peer;
mod scenario;
mod single;
mod stand;

use std::{panic, sync::atomic::Ordering::Relaxed, time::Instant};

fn main() {
    panic::set_hook(Box::new(|info| {
        let (seed, events) = kernel::sim::story();
        eprintln!("{}", events.join("\n"));
        eprintln!("seed {seed}: {info}");
        eprintln!("repeat with: {}", repeat_command(seed));
        std::process::exit(1);
    }));
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |arg: &String| arg.parse().expect("seeds are numbers");
    match &args[..] {
        [what] if what == "failures" => run_failures(),
        [seed] => run_seeds(number(seed), 1, true),
        [first, count] => run_seeds(number(first), number(count), false),
        _ => run_seeds(1, 100, false),
    }
}

fn repeat_command(seed: u64) -> String {
    match std::env::args().nth(1).as_deref() {
        Some("failures") => "make sim SEED=failures".into(),
        _ => format!("make sim SEED={seed}"),
    }
}

fn run_seeds(first: u64, count: u64, is_tracing: bool) {
    let start = Instant::now();
    for seed in first..first + count {
        kernel::sim::run(seed, is_tracing, scenario::run);
    }
    let (seconds, calls) = (start.elapsed().as_secs(), scenario::ANSWERED.load(Relaxed));
    println!("{count} seeds, {calls} Calls answered, {seconds} seconds");
}

fn run_failures() {
    let start = Instant::now();
    let runs = single::run_all();
    println!(
        "{runs} single failures, {} seconds",
        start.elapsed().as_secs()
    );
}

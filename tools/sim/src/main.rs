// SPDX-License-Identifier: GPL-2.0

//! Runs the module under many schedules: `svcrdma-sim FIRST COUNT`; `svcrdma-sim SEED` to
//! repeat one with its whole time line; `svcrdma-sim failures` for all single failures; or
//! `svcrdma-sim example FIRST COUNT` for the scenario of the documentation.

mod admin;
mod call;
mod callback;
mod compound;
mod counters;
mod crowd;
mod example;
mod malformed;
mod manner;
mod namespaces;
mod peer;
mod scenario;
mod shares;
mod single;
mod stand;
mod undrained;

use std::{panic, sync::atomic::Ordering::Relaxed, time::Instant};

#[global_allocator]
static MEMORY: kernel::sim::Memory = kernel::sim::Memory;

fn main() {
    panic::set_hook(Box::new(|info| {
        let (seed, events) = kernel::sim::story();
        eprintln!("{}", events.join("\n"));
        eprintln!("seed {seed}: {info}");
        eprintln!("repeat with: {}", repeat_command(seed));
        std::process::exit(1);
    }));
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let number = |arg: &str| arg.parse().expect("seeds are numbers");
    match args[..] {
        ["failures"] => run_failures(),
        ["example", first, count] => run_seeds(number(first), number(count), example::run),
        [seed] => repeat(number(seed)),
        [first, count] => run_seeds(number(first), number(count), run_any),
        _ => run_seeds(1, 100, run_any),
    }
}

/// Runs a scenario that the seed draws.
fn run_any() {
    match kernel::sim::below(32) {
        0 | 1 => shares::run(),
        2 | 3 => namespaces::run(),
        4 => crowd::run(),
        5 => undrained::run(),
        _ => scenario::run(),
    }
}

fn repeat_command(seed: u64) -> String {
    match std::env::args().nth(1).as_deref() {
        Some("failures") => "make sim SEED=failures".into(),
        Some("example") => format!("make sim SEED='example {seed} 1'"),
        _ => format!("make sim SEED={seed}"),
    }
}

/// Runs one seed and prints its whole time line.
fn repeat(seed: u64) {
    kernel::sim::run(seed, true, run_any);
}

fn run_seeds(first: u64, count: u64, scenario: fn()) {
    let start = Instant::now();
    for seed in first..first + count {
        kernel::sim::run(seed, false, scenario);
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

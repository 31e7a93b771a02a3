// SPDX-License-Identifier: GPL-2.0

//! `svcrdmactl`: shows, checks and tunes the RDMA server of a host.
//!
//! Each command reads files of `/proc` and `/sys` and returns an [`answer::Answer`], which is
//! printed as text or as JSON. Documentation/svcrdmactl.rst describes commands, exit statuses and
//! the JSON.
//!
//! ```text
//! cli        the command line, a struct for each command
//! commands   a file for each command
//! system     the host: modules, tables, counters
//! root       files below a root directory
//! program    programs that commands start
//! table      a table in debugfs, read by the names of its columns
//! fabric     counters of devices, ports and interfaces between two looks
//! ethernet   network interfaces of RDMA devices
//! nfsd       listeners of nfsd
//! tracefs    a trace buffer of this program
//! answer     what a command returns
//! error      why a command returns nothing, and its exit status
//! ```

mod answer;
mod atomic;
mod checks;
mod cli;
mod close_reason;
mod columns;
mod commands;
mod connection;
mod counter;
mod device;
mod error;
mod ethernet;
mod fabric;
mod fabric_counter;
mod finding;
mod host_names;
mod human;
mod io_mode;
mod kernel_log;
mod latency;
mod listener;
mod mask;
mod metric;
mod modules;
mod netlink;
mod nfs_conf;
mod nfsd;
mod peer;
mod program;
mod root;
mod setting;
mod system;
mod table;
mod trace_event;
mod tracefs;
mod wall_clock;

use crate::{
    answer::Answer,
    cli::Cli,
    error::Error,
    system::System, //
};
use clap::Parser;
use std::process::ExitCode;

/// Exit status of a wrong command line, as of rpcrdma-probe and of most programs.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing is left to do if standard error is closed.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    let name = cli.command.name();
    let result = commands::run(&cli, &System::new(cli.root()));
    ExitCode::from(print(name, cli.json, result))
}

/// Prints the result of the command `name`, and returns the exit status.
fn print(name: &str, json: bool, result: Result<Answer, Error>) -> u8 {
    let printed = match (&result, json) {
        (Ok(answer), true) => answer.print_json(name),
        (Ok(answer), false) => answer.print_text(),
        (Err(error), true) => Answer::of_error(error).print_json(name),
        (Err(error), false) => {
            eprintln!("svcrdmactl: {error}");
            Ok(())
        }
    };
    match printed {
        // A reader that closes the pipe, as head does, changes nothing about the answer.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("svcrdmactl: standard output: {error}");
            error::Kind::Failed.status()
        }
        _ => result.map_or_else(|error| error.kind.status(), |answer| answer.status),
    }
}

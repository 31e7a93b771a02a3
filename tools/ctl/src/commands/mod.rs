// SPDX-License-Identifier: GPL-2.0

//! The commands, a file for each.

mod check;
mod closes;
mod connections;
mod devices;
mod listener;
mod listeners;
mod load;
mod manual;
mod metrics;
mod report;
mod settings;
mod status;
mod top;
mod upgrade;
mod watch;

use crate::{
    answer::Answer,
    cli::{
        Cli,
        Command, //
    },
    error::Result,
    system::System, //
};

/// Runs the command of a command line.
pub(crate) fn run(cli: &Cli, system: &System) -> Result<Answer> {
    match &cli.command {
        Command::Status => Ok(status::run(system)),
        Command::Connections(args) => connections::run(args, system),
        Command::Devices => devices::run(system),
        Command::Listeners => listeners::run(system),
        Command::Listener(args) => listener::run(args, system),
        Command::Closes(args) => closes::run(args, system),
        Command::Watch(args) => watch::run(args, system, cli.json),
        Command::Settings(args) => settings::run(args, system),
        Command::Check(args) => Ok(check::command(args, system, &System::new(cli.next()))),
        Command::Load => Ok(load::run(system)),
        Command::Top(args) => top::run(args, system, cli.json),
        Command::Metrics(args) => metrics::run(args, system),
        Command::Report(args) => report::run(args, system),
        Command::Upgrade(args) => upgrade::run(args, system, cli.json),
        Command::Completion(args) => Ok(manual::completion(args)),
        Command::Man(args) => manual::pages(args),
    }
}

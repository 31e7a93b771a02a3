// SPDX-License-Identifier: GPL-2.0

//! The command line. Each command has a struct with its options in its own file.

use crate::{
    bulk::Bulk,
    call::Call,
    conform::Conform,
    echo::Echo,
    fabric::Fabric,
    fuzz::Fuzz,
    gateway::Gateway,
    hoard::Hoard,
    idle::Idle,
    load::Load,
    manual::{Completion, Man},
    ping::Ping,
    run::Run,
    share::Share,
    storm::Storm,
    vanish::Vanish, //
};
use clap::{Parser, Subcommand};

/// The version of the packages, or that of the crate for builds by hand.
const VERSION: &str = match option_env!("SVCRDMA_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

const STATUSES: &str = "\
Exit status: 0 the server did what was asked; 1 the server did something wrong or did not answer as \
asked, such as a refused connection; 2 the command line is wrong; 3 the test could not be made: no \
RDMA device, no route, no file, or an error on this side.

With --format json, standard output is one JSON document with at least the fields schema (1), \
command, outcome (good, finding, usage or untested) and error; it is empty if an option is wrong.";

/// Tests servers of RPC-over-RDMA (RFC 8166)
///
/// This client builds its messages itself and can violate the protocol on purpose.
#[derive(Debug, Parser)]
#[command(
    name = "rpcrdma-probe",
    version = VERSION,
    after_help = STATUSES,
    max_term_width = 100,
    // As scripts rely on: the last of several values counts.
    args_override_self = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ping(Ping),
    Call(Call),
    Idle(Idle),
    Hoard(Hoard),
    Load(Load),
    Share(Share),
    Fabric(Fabric),
    Storm(Storm),
    Vanish(Box<Vanish>),
    Conform(Conform),
    Fuzz(Fuzz),
    Gateway(Gateway),
    #[command(hide = true)]
    Bulk(Bulk),
    #[command(hide = true)]
    Echo(Echo),
    #[command(hide = true)]
    Completion(Completion),
    #[command(hide = true)]
    Man(Man),
}

impl Command {
    /// Returns the name and the options.
    pub(crate) fn parts(&self) -> (&'static str, &dyn Run) {
        match self {
            Self::Ping(command) => ("ping", command),
            Self::Call(command) => ("call", command),
            Self::Idle(command) => ("idle", command),
            Self::Hoard(command) => ("hoard", command),
            Self::Load(command) => ("load", command),
            Self::Share(command) => ("share", command),
            Self::Fabric(command) => ("fabric", command),
            Self::Storm(command) => ("storm", command),
            Self::Vanish(command) => ("vanish", command.as_ref()),
            Self::Conform(command) => ("conform", command),
            Self::Fuzz(command) => ("fuzz", command),
            Self::Gateway(command) => ("gateway", command),
            Self::Bulk(command) => ("bulk", command),
            Self::Echo(command) => ("echo", command),
            Self::Completion(command) => ("completion", command),
            Self::Man(command) => ("man", command),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{error::ErrorKind, CommandFactory};

    fn parse(line: &str) -> std::result::Result<Cli, clap::Error> {
        Cli::try_parse_from(["rpcrdma-probe"].into_iter().chain(line.split(' ')))
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_may_stand_anywhere_and_the_last_counts() {
        for line in [
            "ping --count 3 here",
            "ping here --count 3",
            "ping here --count 4 --count 3",
        ] {
            let Ok(Cli {
                command: Command::Ping(ping),
            }) = parse(line)
            else {
                panic!("{line}");
            };
            assert_eq!(ping.count(), 3, "{line}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_status_2() {
        for line in [
            "ping",
            "ping --count 3",
            "ping here there",
            "ping here --what",
            "ping here --count",
            "ping here --count x",
            // An option of other commands.
            "ping here --quick",
            "ping here --from nowhere",
            "ping here -4 -6",
            "load here --kind reads",
            "load here --count 5 --duration 5",
            "fabric here --sizes 1K",
            "fabric here --sizes 64,",
            "fabric here --quick --depths 1",
            "vanish here --stage nowhere",
            "nothing here",
        ] {
            let error = parse(line).err();
            assert_eq!(error.map(|error| error.exit_code()), Some(2), "{line}");
        }
    }

    #[test]
    fn zeros_are_refused_unless_they_mean_something() {
        for line in [
            "ping here --count 0",
            "idle here --count 0",
            "hoard here --count 0",
            "hoard here --depth 0",
            "hoard here --size 0",
            "hoard here --seconds 0",
            "hoard here --over 0",
            "load here --count 0",
            "load here --duration 0",
            "load here --connections 0",
            "load here --depth 0",
            "load here --size 0",
            "load here --patience 0",
            "load here --kind read=0",
            "share here --kind read --file f --connections 0",
            "share here --kind read --file f --depth 0",
            "share here --kind read --file f --size 0",
            "share here --kind read --file f --small-size 0",
            "share here --kind read --file f --count 0",
            "fabric here --sizes 63",
            "fabric here --sizes 64,4194305",
            "fabric here --depths 0",
            "fabric here --depths 1,65",
            "fabric here --rounds 0",
            "fabric here --round-ms 0",
            "fabric here --bulk-port 0",
            "storm here --count 0",
            "storm here --parallel 0",
            "vanish here --count 0",
            "vanish here --parallel 0",
            "vanish here --calls 0",
            "conform here --call-limit 0",
            "fuzz here --count 0",
            "gateway here --depth 0",
            "gateway here --clients 0",
            "gateway here --largest 0",
            "gateway here --idle 0",
        ] {
            let error = parse(line).expect_err(line);
            assert_eq!(error.kind(), ErrorKind::ValueValidation, "{line}: {error}");
        }
        for line in [
            "ping here --reads 0",
            "call here --write 0 --reply 0",
            "idle here --calls 0",
            "hoard here --calls 0",
            "load here --pause 0",
            "storm here --calls 0",
            "vanish here --pause 0",
            "fuzz here --seed 0 --case 0",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn every_command_takes_a_source_address_and_a_format() {
        let command = Cli::command();
        let has = |command: &clap::Command, name: &str| {
            command.get_arguments().any(|arg| arg.get_id() == name)
        };
        for command in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            for option in ["host", "from", "ipv4", "ipv6", "allow_remote", "format"] {
                assert!(has(command, option), "{} {option}", command.get_name());
            }
            let undocumented = command.get_arguments().find(|arg| arg.get_help().is_none());
            assert!(undocumented.is_none(), "{undocumented:?}");
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}

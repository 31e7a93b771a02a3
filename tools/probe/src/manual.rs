// SPDX-License-Identifier: GPL-2.0

//! `completion` and `man`, for packages.

use crate::{
    cli::Cli,
    error::{Error, Result},
    output::{Format, Output},
    run::Run, //
};
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man as Page;
use std::{
    fs,
    io,
    path::{Path, PathBuf}, //
};

/// Print a completion script
#[derive(Debug, clap::Args)]
pub(crate) struct Completion {
    shell: Shell,
}

/// Print the man page, or write those of all commands
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Directory to write a page for each command to
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Run for Completion {
    fn format(&self) -> Format {
        Format::Text
    }

    fn run(&self, _output: &mut Output) -> Result {
        let mut command = Cli::command();
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, &mut command, name, &mut io::stdout());
        Ok(())
    }
}

impl Run for Man {
    fn format(&self) -> Format {
        Format::Text
    }

    fn run(&self, _output: &mut Output) -> Result {
        let mut command = Cli::command();
        command.build();
        let written = match &self.directory {
            Some(folder) => write_all(&command, folder),
            None => page(&command).and_then(|page| io::Write::write_all(&mut io::stdout(), &page)),
        };
        written.map_err(|error| Error::os("man pages", error))
    }
}

/// Writes the pages of `command` and of its subcommands to `folder`.
fn write_all(command: &clap::Command, folder: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    fs::write(folder.join(format!("{name}.1")), page(command)?)?;
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .try_for_each(|command| write_all(command, folder))
}

/// Returns the page of `command`.
fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Page::new(command.clone())
        .section("1")
        .manual("svcrdma")
        .render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_command_names_its_options() {
        let mut command = Cli::command();
        command.build();
        let load = command.find_subcommand("load").unwrap();
        let text = String::from_utf8(page(load).unwrap()).unwrap();
        assert!(text.contains("rpcrdma\\-probe\\-load"), "{text}");
        assert!(text.contains("\\-\\-duration"), "{text}");
    }
}

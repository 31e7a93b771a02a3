// SPDX-License-Identifier: GPL-2.0

//! `completion` and `man`, for packages.

use crate::{
    answer::Answer,
    cli::{
        self,
        Cli, //
    },
    error::{
        Error,
        Result, //
    },
};
use clap::CommandFactory;
use clap_mangen::Man;
use serde_json::json;
use std::{
    io,
    path::Path, //
};

/// The section of commands for administrators.
const SECTION: &str = "8";

/// Returns the completion script of a shell.
pub(crate) fn completion(args: &cli::Completion) -> Answer {
    let mut script = Vec::new();
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let json = json!({"shell": args.shell.to_string(), "script": script});
    Answer::new(script, json)
}

/// Returns the man page, or writes a page for each command.
pub(crate) fn pages(args: &cli::Man) -> Result<Answer> {
    let failed = |error: io::Error| Error::failed("not-written", format!("man pages: {error}"));
    let mut command = Cli::command();
    command.build();
    match &args.directory {
        Some(folder) => {
            let mut names = Vec::new();
            write(&command, command.get_name(), folder, &mut names).map_err(failed)?;
            Ok(Answer::new(String::new(), json!({"files": names})))
        }
        None => {
            let page = page(command, "svcrdmactl").map_err(failed)?;
            Ok(Answer::new(page.clone(), json!({"page": page})))
        }
    }
}

/// Returns the page of a command.
fn page(command: clap::Command, title: &str) -> io::Result<String> {
    let mut page = Vec::new();
    let man = Man::new(command)
        .section(SECTION)
        .manual("svcrdma")
        .title(title);
    man.render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Writes the pages of a command and of those below it.
fn write(
    command: &clap::Command,
    title: &str,
    folder: &Path,
    names: &mut Vec<String>,
) -> io::Result<()> {
    let name = format!("{title}.{SECTION}");
    std::fs::write(folder.join(&name), page(command.clone(), title)?)?;
    names.push(name);
    for each in command.get_subcommands() {
        if !each.is_hide_set() && each.get_name() != "help" {
            write(each, &format!("{title}-{}", each.get_name()), folder, names)?;
        }
    }
    Ok(())
}

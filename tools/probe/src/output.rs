// SPDX-License-Identifier: GPL-2.0

//! The output of a command: lines of text, or one JSON document.
//!
//! A command passes each result to [`Output::line`] and to [`Output::set`]. The format decides which
//! of them is printed.

use crate::error::{Error, Outcome, Result};
use serde_json::{Map, Value};
use std::{
    fmt::Display,
    io::{self, IsTerminal},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant}, //
};

/// The version of the JSON documents. It changes when a field changes its meaning or goes away.
const SCHEMA: u32 = 1;

/// The format of the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Lines of text
    #[default]
    Text,
    /// One JSON document
    Json,
}

impl Format {
    /// Prints a note for a reader who waits: to standard output, or to standard error if the output
    /// is a JSON document.
    pub(crate) fn note(self, note: impl Display) {
        match self {
            Self::Text => println!("{note}"),
            Self::Json => eprintln!("{note}"),
        }
    }
}

/// The results of a command.
#[derive(Debug)]
pub(crate) struct Output {
    command: &'static str,
    format: Format,
    fields: Map<String, Value>,
    is_printed: bool,
}

impl Output {
    /// Creates the output of a command.
    pub(crate) fn new(command: &'static str, format: Format) -> Self {
        Self {
            command,
            format,
            fields: Map::new(),
            is_printed: false,
        }
    }

    /// Returns the format.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Prints a line of text.
    pub(crate) fn line(&self, line: impl Display) {
        if self.format == Format::Text {
            println!("{line}");
        }
    }

    /// Sets a field of the JSON document.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }

    /// Prints the document of a command that waits now and has no more results.
    pub(crate) fn complete(&mut self) {
        self.print(&Ok(()));
    }

    /// Prints the document of a command that has ended with `result`, and its error.
    pub(crate) fn finish(mut self, result: &Result) {
        if let Err(error) = result {
            eprintln!("rpcrdma-probe {}: {error}", self.command);
        }
        self.print(result);
    }

    /// Prints the document unless it was printed already.
    fn print(&mut self, result: &Result) {
        if self.format == Format::Json && !self.is_printed {
            println!("{}", self.document(result));
        }
        self.is_printed = true;
    }

    /// Returns the document.
    fn document(&self, result: &Result) -> Value {
        let mut fields = self.fields.clone();
        fields.insert("schema".to_owned(), SCHEMA.into());
        fields.insert("command".to_owned(), self.command.into());
        fields.insert("outcome".to_owned(), Outcome::of(result).name().into());
        let error = result.as_ref().err().map(Error::to_string);
        fields.insert("error".to_owned(), error.into());
        Value::Object(fields)
    }
}

/// Messages about the progress, on standard error if that is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    every: Duration,
    /// The time of the last message.
    told: Instant,
    is_shown: bool,
}

impl Progress {
    /// Creates a progress with a message in each interval.
    pub(crate) fn new(every: Duration) -> Self {
        Self {
            every,
            told: Instant::now(),
            is_shown: io::stderr().is_terminal(),
        }
    }

    /// Prints a message if the interval is over.
    pub(crate) fn tell(&mut self, message: impl FnOnce() -> String) {
        if self.is_shown && self.told.elapsed() >= self.every {
            self.told = Instant::now();
            eprintln!("{}", message());
        }
    }
}

/// Does `work`. Meanwhile prints `message` in each interval, on standard error if that is a terminal.
pub(crate) fn progress<T>(
    every: Duration,
    message: impl Fn() -> String + Send,
    work: impl FnOnce() -> T,
) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    thread::scope(|scope| {
        // Dropped when the work is done.
        let (_working, done) = mpsc::channel::<()>();
        scope.spawn(move || {
            while done.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{}", message());
            }
        });
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_has_the_results_and_the_outcome() {
        let mut output = Output::new("ping", Format::Json);
        output.set("credits", 8);
        let expected = json!({
            "schema": 1, "command": "ping", "outcome": "good", "error": null, "credits": 8,
        });
        assert_eq!(output.document(&Ok(())), expected);
        let expected = json!({
            "schema": 1, "command": "ping", "outcome": "untested", "error": "no device",
            "credits": 8,
        });
        let result = Err(Error::unavailable("no device"));
        assert_eq!(output.document(&result), expected);
    }

    #[test]
    fn a_document_is_printed_once() {
        let mut output = Output::new("idle", Format::Json);
        assert!(!output.is_printed);
        output.complete();
        assert!(output.is_printed);
    }
}

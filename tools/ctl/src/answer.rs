// SPDX-License-Identifier: GPL-2.0

//! The answer of a command: text for people, JSON for programs, an exit status.

use crate::error::Error;
use serde_json::{
    json,
    Map,
    Value, //
};
use std::io::{
    self,
    Write, //
};

/// The version of the JSON format. A new version may rename or remove keys; new keys come without
/// one.
const SCHEMA: u64 = 1;

/// The result of a command.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The text, which ends with a newline unless it is empty.
    pub(crate) text: String,
    /// The keys of the JSON object.
    pub(crate) json: Map<String, Value>,
    /// The exit status.
    pub(crate) status: u8,
    /// True if the command has printed all before it ended.
    pub(crate) is_printed: bool,
}

impl Answer {
    /// Creates an answer with exit status 0. `json` is an object.
    pub(crate) fn new(text: String, json: Value) -> Self {
        Self::with_status(text, json, 0)
    }

    /// Creates an answer with an exit status. `json` is an object.
    pub(crate) fn with_status(text: String, json: Value, status: u8) -> Self {
        let json = match json {
            Value::Object(map) => map,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        Self {
            text,
            json,
            status,
            is_printed: false,
        }
    }

    /// Creates the answer that stands for an error in JSON.
    pub(crate) fn of_error(error: &Error) -> Self {
        let json = json!({"error": {"id": error.id, "text": error.text, "action": error.action}});
        Self::with_status(String::new(), json, error.kind.status())
    }

    /// Creates the answer of a command that has printed all.
    pub(crate) fn printed() -> Self {
        Self {
            is_printed: true,
            ..Self::default()
        }
    }

    /// Prints the text to standard output.
    pub(crate) fn print_text(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(self.text.as_bytes())?;
        out.flush()
    }

    /// Prints the JSON object of the command `name` to standard output, in one line.
    pub(crate) fn print_json(&self, name: &str) -> io::Result<()> {
        if self.is_printed {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &self.object(name))?;
        writeln!(out)?;
        out.flush()
    }

    /// Returns the JSON object with the keys that all commands have.
    pub(crate) fn object(&self, name: &str) -> Value {
        let mut object = self.json.clone();
        object.insert("schema".to_owned(), SCHEMA.into());
        object.insert("command".to_owned(), name.into());
        Value::Object(object)
    }
}

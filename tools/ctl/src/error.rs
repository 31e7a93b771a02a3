// SPDX-License-Identifier: GPL-2.0

//! The error of a command: an identifier for programs, the fault, and the action that mends it.

use std::{
    fmt,
    io,
    path::Path, //
};

/// The result of a step of a command.
pub(crate) type Result<T = (), E = Error> = std::result::Result<T, E>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The command was understood and could not be carried out.
    Failed,
    /// The command could not find out the answer.
    Unknown,
}

impl Kind {
    /// Returns the exit status of a command that ends with such an error.
    pub(crate) fn status(self) -> u8 {
        match self {
            Kind::Failed => 1,
            Kind::Unknown => 3,
        }
    }
}

/// Why a command returns no answer.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) kind: Kind,
    /// Identifies the error in JSON and among the findings of `check`.
    pub(crate) id: &'static str,
    /// The fault.
    pub(crate) text: String,
    /// The action that mends it; empty if the text says all that is known.
    pub(crate) action: String,
}

impl Error {
    /// Creates the error of something that cannot be found out.
    pub(crate) fn unknown(id: &'static str, text: impl Into<String>) -> Self {
        Self::new(Kind::Unknown, id, text.into())
    }

    /// Creates the error of something that failed.
    pub(crate) fn failed(id: &'static str, text: impl Into<String>) -> Self {
        Self::new(Kind::Failed, id, text.into())
    }

    /// Creates the error of a file that the caller has named and that cannot be written.
    pub(crate) fn not_written(path: &Path, error: &io::Error) -> Self {
        let name = path.display();
        let failed = Self::failed("not-written", format!("{name}: {error}"));
        match error.kind() {
            io::ErrorKind::NotFound => {
                let text = format!("{name} cannot be written, because its folder does not exist");
                Self::failed("not-written", text).with_action("create the folder")
            }
            io::ErrorKind::PermissionDenied => failed.with_action("run this as root"),
            _ => failed,
        }
    }

    fn new(kind: Kind, id: &'static str, text: String) -> Self {
        Self {
            kind,
            id,
            text,
            action: String::new(),
        }
    }

    /// Adds the action that mends the fault.
    pub(crate) fn with_action(self, action: impl Into<String>) -> Self {
        let action = action.into();
        Self { action, ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action.as_str() {
            "" => f.write_str(&self.text),
            action => write!(f, "{}: {action}", self.text),
        }
    }
}

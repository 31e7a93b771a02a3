// SPDX-License-Identifier: GPL-2.0

//! The error of a command: an identifier for programs, and one line that says what to do.

use std::fmt;

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
    /// One line.
    pub(crate) text: String,
}

impl Error {
    /// Creates the error of something that cannot be found out.
    pub(crate) fn unknown(id: &'static str, text: impl Into<String>) -> Self {
        Self {
            kind: Kind::Unknown,
            id,
            text: text.into(),
        }
    }

    /// Creates the error of an action that failed.
    pub(crate) fn failed(id: &'static str, text: impl Into<String>) -> Self {
        Self {
            kind: Kind::Failed,
            id,
            text: text.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

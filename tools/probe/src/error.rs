// SPDX-License-Identifier: GPL-2.0

//! The error type of the program: one line of text for the user.

use std::{
    fmt,
    io, //
};

/// A failure, described in one line.
#[derive(Debug)]
pub(crate) struct Error {
    text: String,
    kind: Kind,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An error of the operating system.
    Os(io::ErrorKind),
    /// An optional feature is missing.
    Unavailable,
    Other,
}

/// The result type of the program.
pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error from a description.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Other,
        }
    }

    /// Creates the error for an optional feature that this side or the server lacks. It says
    /// nothing about the server's conformance.
    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Unavailable,
        }
    }

    /// Creates the error for a failed call of `what`.
    pub(crate) fn os(what: &str, error: io::Error) -> Self {
        Self {
            text: format!("{what}: {error}"),
            kind: Kind::Os(error.kind()),
        }
    }

    /// Returns true if an address or port was in use.
    pub(crate) fn is_in_use(&self) -> bool {
        self.kind == Kind::Os(io::ErrorKind::AddrInUse)
    }

    /// Returns true if the connection has ended.
    pub(crate) fn is_not_connected(&self) -> bool {
        self.kind == Kind::Os(io::ErrorKind::NotConnected)
    }

    /// Returns true for an error created by [`Self::unavailable`].
    pub(crate) fn is_unavailable(&self) -> bool {
        self.kind == Kind::Unavailable
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

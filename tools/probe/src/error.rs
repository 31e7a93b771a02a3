// SPDX-License-Identifier: GPL-2.0

//! What can go wrong, as one line for the user.

use std::{
    fmt,
    io, //
};

/// A failure, told in one line.
#[derive(Debug)]
pub(crate) struct Error {
    text: String,
    /// What the operating system calls it.
    kind: Option<io::ErrorKind>,
}

/// The program's result.
pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// A failure of our own.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: None,
        }
    }

    /// The failure of a call named `what`.
    pub(crate) fn os(what: &str, error: io::Error) -> Self {
        Self {
            text: format!("{what}: {error}"),
            kind: Some(error.kind()),
        }
    }

    /// Whether an address was taken.
    pub(crate) fn is_in_use(&self) -> bool {
        self.kind == Some(io::ErrorKind::AddrInUse)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

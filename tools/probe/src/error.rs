// SPDX-License-Identifier: GPL-2.0

//! What can go wrong, as one line for the user.

use std::{
    fmt,
    io, //
};

/// A failure, told in one line.
#[derive(Debug)]
pub(crate) struct Error(String);

/// The program's result.
pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// A failure of our own.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The failure of a call named `what`.
    pub(crate) fn os(what: &str, error: io::Error) -> Self {
        Self(format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

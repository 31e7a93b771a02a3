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
    kind: Kind,
}

/// What sort of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// By the name that the operating system has for it.
    Os(io::ErrorKind),
    /// Something is not there that nobody has to have.
    Lack,
    Other,
}

/// The program's result.
pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// A failure of our own.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Other,
        }
    }

    /// Something is not there, here or at the server, without which nothing can be said.
    pub(crate) fn lack(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Lack,
        }
    }

    /// The failure of a call named `what`.
    pub(crate) fn os(what: &str, error: io::Error) -> Self {
        Self {
            text: format!("{what}: {error}"),
            kind: Kind::Os(error.kind()),
        }
    }

    /// Whether an address was taken.
    pub(crate) fn is_in_use(&self) -> bool {
        self.kind == Kind::Os(io::ErrorKind::AddrInUse)
    }

    /// Whether it is a [`Self::lack`].
    pub(crate) fn is_lack(&self) -> bool {
        self.kind == Kind::Lack
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The error type of the program: one line of text for the user, and what it says about the server.

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
    /// Something that the test needs is missing.
    Unavailable,
    /// The command line makes no sense.
    Usage,
    /// The server.
    Other,
}

/// The meaning of a failure for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server did something wrong, or did not answer as asked.
    Finding,
    /// Nothing: the command line is wrong.
    Usage,
    /// Nothing: the test could not be made.
    Untested,
}

/// The result type of the program.
pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error from a description of what the server did wrong.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Other,
        }
    }

    /// Creates the error for something that a test needs and that is missing: a device, a route, a
    /// file, memory, an optional feature of this side or of the server. It says nothing about the
    /// server's conformance.
    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Unavailable,
        }
    }

    /// Creates the error for options that do not fit together.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Usage,
        }
    }

    /// Creates the error for a failed call of `what`.
    pub(crate) fn os(what: &str, error: io::Error) -> Self {
        Self {
            text: format!("{what}: {error}"),
            kind: Kind::Os(error.kind()),
        }
    }

    /// Returns the error with `text` instead of its description.
    pub(crate) fn described(self, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..self
        }
    }

    /// Returns what the failure says about the server.
    pub(crate) fn outcome(&self) -> Outcome {
        match self.kind {
            // The server has ended the connection.
            Kind::Os(io::ErrorKind::NotConnected) | Kind::Other => Outcome::Finding,
            Kind::Os(_) | Kind::Unavailable => Outcome::Untested,
            Kind::Usage => Outcome::Usage,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_tells_the_server_from_this_side() {
        let os = |kind: io::ErrorKind| Error::os("call", kind.into()).outcome();
        assert_eq!(Error::new("wrong").outcome(), Outcome::Finding);
        assert_eq!(os(io::ErrorKind::NotConnected), Outcome::Finding);
        assert_eq!(os(io::ErrorKind::NotFound), Outcome::Untested);
        let missing = Error::unavailable("no device").described("no device at all");
        assert_eq!(missing.outcome(), Outcome::Untested);
        assert_eq!(missing.to_string(), "no device at all");
        assert_eq!(Error::usage("--x").outcome(), Outcome::Usage);
    }
}

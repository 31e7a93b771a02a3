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
    /// The server has declined something optional.
    Declined,
    /// The command line makes no sense.
    Usage,
    /// The server.
    Other,
}

/// The meaning of a result for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server did what was asked.
    Good,
    /// The server did something wrong, or did not answer as asked.
    Finding,
    /// Nothing: the command line is wrong.
    Usage,
    /// Nothing: the test could not be made.
    Untested,
}

/// The result type of the program.
pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl Outcome {
    /// Returns the outcome of a command that ends with `result`.
    pub(crate) fn of<T>(result: &Result<T>) -> Self {
        result.as_ref().map_or_else(Error::outcome, |_| Self::Good)
    }

    /// Returns the exit status of a command.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Finding => 1,
            Self::Usage => 2,
            Self::Untested => 3,
        }
    }

    /// Returns the outcome of another process of this program that has ended with this status, if
    /// any.
    pub(crate) fn of_status(status: Option<i32>) -> Self {
        [Self::Good, Self::Finding, Self::Usage]
            .into_iter()
            .find(|outcome| status == Some(i32::from(outcome.status())))
            .unwrap_or(Self::Untested)
    }

    /// Returns the name in JSON documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Finding => "finding",
            Self::Usage => "usage",
            Self::Untested => "untested",
        }
    }
}

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

    /// Creates the error for something that a server may decline and has declined.
    pub(crate) fn declined(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Declined,
        }
    }

    /// Creates the error for options that do not fit together.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Usage,
        }
    }

    /// Creates the error for a missing option.
    pub(crate) fn missing(option: &str) -> Self {
        Self::usage(format!("--{option} is required"))
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

    /// Returns the error with `what` in front of its description: what was tried.
    pub(crate) fn within(self, what: impl fmt::Display) -> Self {
        let text = format!("{what}: {self}");
        self.described(text)
    }

    /// Returns what the failure says about the server. All verdicts of the program depend on it.
    pub(crate) fn outcome(&self) -> Outcome {
        match self.kind {
            // The server has ended the connection.
            Kind::Os(io::ErrorKind::NotConnected) | Kind::Other => Outcome::Finding,
            Kind::Os(_) | Kind::Unavailable | Kind::Declined => Outcome::Untested,
            Kind::Usage => Outcome::Usage,
        }
    }

    /// Returns true if the server has failed.
    pub(crate) fn is_finding(&self) -> bool {
        self.outcome() == Outcome::Finding
    }

    /// Returns true if this side has failed in a call of the operating system.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.kind, Kind::Os(_)) && !self.is_finding()
    }

    /// Returns true if an address or port was in use.
    pub(crate) fn is_in_use(&self) -> bool {
        self.kind == Kind::Os(io::ErrorKind::AddrInUse)
    }

    /// Returns true if the connection has ended.
    pub(crate) fn is_not_connected(&self) -> bool {
        self.kind == Kind::Os(io::ErrorKind::NotConnected)
    }

    /// Returns true for an error created by [`Self::declined`].
    pub(crate) fn is_declined(&self) -> bool {
        self.kind == Kind::Declined
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
        assert_eq!(Error::declined("no").outcome(), Outcome::Untested);
        assert_eq!(Outcome::of(&Ok(())), Outcome::Good);
    }

    #[test]
    fn errors_of_this_side_stay_so_in_their_context() {
        let error = Error::os("call", io::Error::from_raw_os_error(nix::libc::EMFILE));
        let error = error.within("stage 1");
        assert!(error.is_local() && !error.is_finding());
        assert!(error.to_string().starts_with("stage 1: call: "));
        assert!(!Error::unavailable("no device").is_local());
        let gone = Error::os("call", io::ErrorKind::NotConnected.into());
        assert!(gone.is_finding() && !gone.is_local());
    }

    #[test]
    fn a_status_has_one_outcome() {
        use Outcome::{Finding, Good, Untested, Usage};
        for outcome in [Good, Finding, Usage, Untested] {
            let status = Some(i32::from(outcome.status()));
            assert_eq!(Outcome::of_status(status), outcome);
        }
        // A panic, and a signal.
        assert_eq!(Outcome::of_status(Some(101)), Untested);
        assert_eq!(Outcome::of_status(None), Untested);
    }
}

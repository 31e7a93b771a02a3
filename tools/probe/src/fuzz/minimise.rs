// SPDX-License-Identifier: GPL-2.0

//! Minimises a failing batch: finds the messages without which the server does not fail.

use super::{case::LONGEST, Shot};
use crate::error::{Error, Result};

/// Reduces `shots`, after which the server failed with `error`, to what still makes it fail.
/// Returns an error that describes the result. `send` sends messages on a new connection and returns
/// an error if the server fails. An error of this side is returned as it is.
pub(super) fn minimise(
    shots: Vec<Shot>,
    error: Error,
    send: impl FnMut(&[Shot]) -> Result,
) -> Error {
    if !error.is_finding() {
        return error;
    }
    let mut batch = Batch { shots, error, send };
    let shrunk = batch.shrink();
    let Batch { shots, error, .. } = batch;
    Error::new(match shrunk {
        Ok(true) => format!("{shots:?}: {error}; --case shows a message"),
        Ok(false) => format!("{error}; not repeatable with {shots:?} alone"),
        Err(gone) if gone.is_finding() => {
            format!("{error}; after {shots:?} the server serves no connection any more: {gone}")
        }
        Err(local) => format!("{shots:?}: {error}; not minimised further: {local}"),
    })
}

/// Messages after which the server fails, and its failure.
struct Batch<F> {
    shots: Vec<Shot>,
    error: Error,
    send: F,
}

impl<F: FnMut(&[Shot]) -> Result> Batch<F> {
    /// Reduces the batch as long as the server still fails. Returns false if the failure cannot be
    /// repeated.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not serve a connection without any of these messages, as
    /// it would then fail after any of them, or an error of this side.
    fn shrink(&mut self) -> Result<bool> {
        self.serves()?;
        if !self.becomes(self.shots.clone())? {
            return Ok(false);
        }
        self.leave_out()?;
        self.shorten()?;
        Ok(true)
    }

    /// Tries to remove each message.
    fn leave_out(&mut self) -> Result {
        let mut at = 0;
        while at < self.shots.len() && self.shots.len() > 1 {
            let mut fewer = self.shots.clone();
            fewer.remove(at);
            if !self.becomes(fewer)? {
                at += 1;
            }
        }
        Ok(())
    }

    /// Tries to shorten each message.
    fn shorten(&mut self) -> Result {
        for at in 0..self.shots.len() {
            // Starts with half of the longest message and halves the step.
            let mut step = LONGEST / 2;
            while step >= 4 && self.shots[at].len > 0 {
                let mut shorter = self.shots.clone();
                shorter[at].len = shorter[at].len.min(LONGEST).saturating_sub(step);
                if !self.becomes(shorter)? {
                    step /= 2;
                }
            }
        }
        Ok(())
    }

    /// Replaces the batch by `shots` if the server fails after them, too. Returns true if it does.
    fn becomes(&mut self, shots: Vec<Shot>) -> Result<bool> {
        match (self.send)(&shots) {
            Ok(()) => return Ok(false),
            Err(error) if error.is_finding() => (self.shots, self.error) = (shots, error),
            Err(local) => return Err(local),
        }
        self.serves().map(|()| true)
    }

    /// Returns an error unless the server serves a new connection.
    fn serves(&mut self) -> Result {
        (self.send)(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Outcome;

    /// Minimises `count` messages. Returns the text of the error.
    fn minimised(count: u64, mut fails: impl FnMut(&[Shot]) -> bool) -> String {
        let shots = (0..count).map(Shot::whole).collect();
        let send = |shots: &[Shot]| {
            if fails(shots) {
                Err(Error::new("again"))
            } else {
                Ok(())
            }
        };
        minimise(shots, Error::new("first"), send).to_string()
    }

    fn has(shots: &[Shot], case: u64, len: usize) -> bool {
        shots
            .iter()
            .any(|shot| shot.case == case && shot.len >= len)
    }

    #[test]
    fn what_matters_is_left() {
        let said = minimised(16, |shots| has(shots, 3, 40) && has(shots, 9, 0));
        assert_eq!(
            said,
            "[Shot { case: 3, len: 40 }, Shot { case: 9, len: 0 }]: again; \
             --case shows a message"
        );
    }

    #[test]
    fn errors_of_this_side_are_no_failures_of_the_server() {
        let local = || Error::unavailable("no memory");
        let shots: Vec<Shot> = (0..4).map(Shot::whole).collect();
        let error = minimise(shots.clone(), local(), |_| panic!("sent"));
        assert_eq!(error.outcome(), Outcome::Untested);
        assert_eq!(error.to_string(), "no memory");
        // The failure that was found stays one.
        let mut tries = 0;
        let error = minimise(shots, Error::new("first"), |_| {
            tries += 1;
            match tries {
                1 => Ok(()),
                2 => Err(Error::new("again")),
                _ => Err(local()),
            }
        });
        assert_eq!(error.outcome(), Outcome::Finding);
        let said = error.to_string();
        assert!(
            said.ends_with("again; not minimised further: no memory"),
            "{said}"
        );
    }

    #[test]
    fn a_failure_that_does_not_come_again_is_told() {
        let said = minimised(2, |_| false);
        assert!(
            said.starts_with("first; not repeatable with [Shot"),
            "{said}"
        );
    }

    #[test]
    fn a_server_that_is_gone_is_not_asked_for_ever() {
        let mut tries = 0;
        let said = minimised(16, |_| {
            tries += 1;
            true
        });
        assert!(
            said.ends_with("the server serves no connection any more: again"),
            "{said}"
        );
        assert_eq!(tries, 1);
    }

    #[test]
    fn a_server_that_goes_away_meanwhile_says_nothing_about_the_rest() {
        let mut is_gone = false;
        let said = minimised(16, |shots| {
            is_gone |= has(shots, 5, 0) && shots.len() < 12;
            is_gone || has(shots, 5, 0)
        });
        assert!(said.contains("case: 5"), "{said}");
        assert!(said.contains("case: 15"), "{said}");
        assert!(
            said.ends_with("the server serves no connection any more: again"),
            "{said}"
        );
    }
}

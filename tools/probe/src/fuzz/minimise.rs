// SPDX-License-Identifier: GPL-2.0

//! Minimises a failing batch: finds the messages without which the server does not fail.

use super::{case::LONGEST, Shot};
use crate::error::{Error, Result};

/// Reduces `shots`, after which the server failed with `error`, to what still makes it fail.
/// Returns an error that describes the result. `fails` sends messages on a new connection and
/// returns the server's failure, if any.
pub(super) fn minimise(
    shots: Vec<Shot>,
    error: Error,
    fails: impl FnMut(&[Shot]) -> Option<Error>,
) -> Error {
    let mut batch = Batch {
        shots,
        error,
        fails,
    };
    let shrunk = batch.shrink();
    let Batch { shots, error, .. } = batch;
    Error::new(match shrunk {
        Ok(true) => format!("{shots:?}: {error}; --case shows a message"),
        Ok(false) => format!("{error}; not repeatable with {shots:?} alone"),
        Err(gone) => {
            format!("{error}; after {shots:?} the server serves no connection any more: {gone}")
        }
    })
}

/// Messages after which the server fails, and its failure.
struct Batch<F> {
    shots: Vec<Shot>,
    error: Error,
    fails: F,
}

impl<F: FnMut(&[Shot]) -> Option<Error>> Batch<F> {
    /// Reduces the batch as long as the server still fails. Returns false if the failure cannot be
    /// repeated.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not serve a connection without any of these messages, as
    /// it would then fail after any of them.
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
        let Some(error) = (self.fails)(&shots) else {
            return Ok(false);
        };
        (self.shots, self.error) = (shots, error);
        self.serves().map(|()| true)
    }

    /// Returns an error unless the server serves a new connection.
    fn serves(&mut self) -> Result {
        (self.fails)(&[]).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Minimises `count` messages. Returns the text of the error.
    fn minimised(count: u64, mut fails: impl FnMut(&[Shot]) -> bool) -> String {
        let shots = (0..count).map(Shot::whole).collect();
        let how = |failed: bool| failed.then(|| Error::new("again"));
        minimise(shots, Error::new("first"), |shots| how(fails(shots))).to_string()
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

// SPDX-License-Identifier: GPL-2.0

//! Credits of one connection (RFC 8166, section 3.3).
//!
//! A grant travels in a reply and says how many Calls may be unanswered. It may shrink with any
//! reply, but the client may not have seen that yet: what is enforced is the highest grant ever
//! sent.

/// The client has more unanswered Calls than it was ever granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// Credits of a connection.
///
/// # Invariants
///
/// `target` and `highest` are at least 1; `unanswered` never exceeds `highest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// How many Calls we want unanswered at most.
    target: u32,
    /// How many the client asked for last.
    requested: u32,
    /// The highest grant ever sent.
    highest: u32,
    unanswered: u32,
}

impl Credits {
    /// Starts with a grant of `grant`, which holds before the first reply as well: a client may use
    /// only one credit then, but we have room for these.
    pub fn new(grant: u32) -> Self {
        let grant = grant.max(1);
        Self {
            target: grant,
            requested: grant,
            highest: grant,
            unanswered: 0,
        }
    }

    /// Changes what the next replies grant; at least 1.
    pub fn set_target(&mut self, grant: u32) {
        self.target = grant.max(1);
    }

    /// Returns how many Calls are unanswered.
    pub fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// Returns the highest grant ever sent.
    pub fn highest(&self) -> u32 {
        self.highest
    }

    /// A Call was received that asks for `requested` credits.
    ///
    /// # Errors
    ///
    /// [`Overrun`] if the client was never granted that many; the Call is not counted.
    pub fn on_call(&mut self, requested: u32) -> Result<(), Overrun> {
        if self.unanswered >= self.highest {
            return Err(Overrun);
        }
        self.unanswered = self.unanswered.saturating_add(1);
        self.requested = requested;
        Ok(())
    }

    /// A Call is answered; returns the grant its reply carries, which is never 0.
    pub fn on_reply(&mut self) -> u32 {
        self.unanswered = self.unanswered.saturating_sub(1);
        let grant = self.target.min(self.requested).max(1);
        self.highest = self.highest.max(grant);
        grant
    }

    /// A Call will never be answered.
    pub fn on_drop(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grant_is_between_one_and_the_request() {
        let mut credits = Credits::new(32);
        for (target, requested, grant) in [
            (32, 128, 32),
            (32, 8, 8),
            (32, 0, 1),
            (0, 128, 1),
            (u32::MAX, u32::MAX, u32::MAX),
        ] {
            credits.set_target(target);
            assert_eq!(credits.on_call(requested), Ok(()));
            assert_eq!(credits.unanswered(), 1);
            assert_eq!((credits.on_reply(), credits.unanswered()), (grant, 0));
        }
    }

    #[test]
    fn the_highest_grant_is_what_counts() {
        let mut credits = Credits::new(2);
        assert_eq!(credits.on_call(9), Ok(()));
        credits.set_target(4);
        assert_eq!(credits.on_reply(), 4);
        credits.set_target(1);
        for _ in 0..4 {
            assert_eq!(credits.on_call(9), Ok(()));
        }
        assert_eq!(credits.on_call(9), Err(Overrun));
        assert_eq!(credits.unanswered(), 4);
        credits.on_drop();
        assert_eq!(credits.on_call(9), Ok(()));
        assert_eq!(credits.on_reply(), 1);
        assert_eq!(credits.on_call(9), Ok(()));
    }

    #[test]
    fn a_start_of_nothing_is_one_credit() {
        let mut credits = Credits::new(0);
        assert_eq!(credits.on_call(1), Ok(()));
        assert_eq!(credits.on_call(1), Err(Overrun));
        // More answers than Calls would be a mistake of ours, not a way to wrap around.
        credits.on_drop();
        credits.on_drop();
        assert_eq!(credits.unanswered(), 0);
    }
}

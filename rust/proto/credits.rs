// SPDX-License-Identifier: GPL-2.0

//! Credits of one connection (RFC 8166, section 3.3).
//!
//! A grant travels in a reply and says how many Calls may be unanswered. It may shrink with any
//! reply, but the client may not have seen that yet: what is enforced is the highest grant ever sent.

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

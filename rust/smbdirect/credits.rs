// SPDX-License-Identifier: GPL-2.0

//! Credits: a side sends a message only into a Receive that the other has posted (MS-SMBD 3.1.5.8,
//! 3.1.5.9).
//!
//! Each side grants credits to the other, one for each posted Receive, and uses one with each message.
//! The last credit is for a message that grants credits: two sides that both have none left could
//! never grant again.

use crate::data::Header;

/// The error of a peer that has used a credit that it does not have, or granted more than fit in 16
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// The credits of a connection, in both directions.
///
/// # Invariants
///
/// `held` is at most `max`.
#[derive(Clone, Copy, Debug)]
pub struct Credits {
    /// Messages that this side may send.
    send: u16,
    /// Messages that the peer may send.
    held: u16,
    /// The credits that the peer would like to hold, at most `max`.
    target: u16,
    /// The most credits that this side grants. It has a posted Receive for each.
    max: u16,
    /// True if the peer has used a credit for data since this side last granted.
    data_since: bool,
}

impl Credits {
    /// Returns the credits before the negotiation. This side has `max` Receives posted, and one more
    /// for the negotiation.
    pub fn new(max: u16) -> Self {
        // INVARIANT: `held` is 0.
        Self {
            send: 0,
            held: 0,
            target: 0,
            max,
            data_since: false,
        }
    }

    /// Notes the credits that the peer asks for. It gets 2 at least, if there are as many: two sides that
    /// hold one each would pass them on for ever.
    pub fn on_requested(&mut self, credits: u16) {
        self.target = credits.max(2).min(self.max);
    }

    /// Adds credits that the peer has granted.
    ///
    /// # Errors
    ///
    /// They exceed 16 bits.
    pub fn on_granted(&mut self, credits: u16) -> Result<(), Overrun> {
        self.send = self.send.checked_add(credits).ok_or(Overrun)?;
        Ok(())
    }

    /// Notes a message of the peer.
    ///
    /// # Errors
    ///
    /// The peer had no credit.
    pub fn on_message(&mut self, header: &Header) -> Result<(), Overrun> {
        self.held = self.held.checked_sub(1).ok_or(Overrun)?;
        self.data_since |= header.len > 0;
        self.on_requested(header.credits_requested);
        self.on_granted(header.credits_granted)
    }

    /// Returns the credits that the next message can grant.
    fn grantable(&self) -> u16 {
        self.target.saturating_sub(self.held)
    }

    /// Grants credits to the peer.
    pub fn grant(&mut self) -> u16 {
        let granted = self.grantable();
        // INVARIANT: At most `target`, which is at most `max`; or as before.
        self.held = self.held.saturating_add(granted);
        self.data_since = false;
        granted
    }

    /// Takes the credit of a message, and grants credits with it. Returns those that are granted, or
    /// `None` if the message must wait.
    pub fn take(&mut self) -> Option<u16> {
        let left = self.send.checked_sub(1)?;
        if left == 0 && self.grantable() == 0 {
            return None;
        }
        self.send = left;
        Some(self.grant())
    }

    /// Returns true if the peer needs credits and gets them with a message without data.
    ///
    /// A message without data alone is no reason to send another one, or two sides would never stop.
    pub fn is_due(&self) -> bool {
        // Half of the target.
        let low = self.held <= self.target >> 1;
        self.grantable() > 0 && ((self.data_since && low) || self.held == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(requested: u16, granted: u16, len: u32) -> Header {
        Header {
            credits_requested: requested,
            credits_granted: granted,
            len,
            ..Header::default()
        }
    }

    #[test]
    fn a_peer_uses_no_more_than_it_was_granted() {
        let mut credits = Credits::new(4);
        credits.on_requested(100);
        assert_eq!(credits.grant(), 4);
        for _ in 0..4 {
            assert_eq!(credits.on_message(&message(100, 1, 1)), Ok(()));
        }
        assert_eq!(credits.on_message(&message(100, 1, 1)), Err(Overrun));
    }

    #[test]
    fn the_last_credit_is_for_a_grant() {
        let mut credits = Credits::new(4);
        credits.on_requested(2);
        assert_eq!((credits.take(), credits.grant()), (None, 2));
        credits.on_granted(2).expect("two");
        assert_eq!(credits.take(), Some(0));
        // One credit is left, and the peer holds all that it has asked for.
        assert_eq!(credits.take(), None);
        credits.on_message(&message(2, 0, 1)).expect("held");
        assert_eq!(credits.take(), Some(1));
        assert_eq!(credits.take(), None);
    }

    #[test]
    fn data_make_a_grant_due_and_other_messages_only_if_nothing_is_left() {
        let mut credits = Credits::new(4);
        credits.on_requested(4);
        assert_eq!(credits.grant(), 4);
        credits.on_message(&message(4, 8, 1)).expect("held");
        assert!(!credits.is_due());
        credits.on_message(&message(4, 0, 1)).expect("held");
        assert!(credits.is_due());
        assert_eq!(credits.take(), Some(2));
        for _ in 0..3 {
            credits.on_message(&message(4, 0, 0)).expect("held");
            assert!(!credits.is_due());
        }
        credits.on_message(&message(4, 0, 0)).expect("held");
        assert!(credits.is_due());
    }

    #[test]
    fn too_many_credits_are_refused() {
        let mut credits = Credits::new(1);
        credits.on_granted(u16::MAX).expect("all");
        assert_eq!(credits.on_granted(1), Err(Overrun));
    }

    #[test]
    fn a_peer_that_asks_for_few_gets_two() {
        let mut credits = Credits::new(4);
        credits.on_requested(0);
        assert_eq!(credits.grant(), 2);
    }
}

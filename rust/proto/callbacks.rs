// SPDX-License-Identifier: GPL-2.0

//! Credits for reverse-direction Calls, the callbacks of the server to one client (RFC 8167,
//! section 4.1).
//!
//! sunrpc gives up a callback without a timely reply and then makes the next one as if the first
//! did not exist. The client still holds the first one, so this module counts it until the client
//! answers it or must have lost it.

/// Returns the most callbacks that sunrpc may have in flight to a client that grants `granted`
/// credits: half as many.
///
/// Linux's client has two buffers for each credit that it grants. It can use the second one again
/// only when the Send of its reply has completed, and it asks for a completion with some of its
/// Sends only. It disconnects if no buffer is left for a callback
/// (net/sunrpc/xprtrdma/backchannel.c, frwr_ops.c).
pub fn under_way(granted: u32) -> u32 {
    (granted / 2).max(1)
}

/// A callback has no credit: the client has granted no more, or has no buffer for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCredit;

/// The kind of a callback that may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The callback is new and uses a credit.
    New,
    /// The callback is a retransmission, which uses the credit of the first transmission.
    Again,
}

/// An unanswered callback.
#[derive(Clone, Copy, Debug)]
struct Call {
    xid: u32,
    /// Seconds since it was sent.
    age: u32,
}

/// The callbacks that a client has not answered: at most `MOST`.
#[derive(Clone, Debug)]
pub struct Unanswered<const MOST: usize> {
    calls: [Option<Call>; MOST],
    /// Credits in the client's last reply, at least 1 and at most `MOST`.
    granted: usize,
    /// Callbacks that were sent since the last Reply to a Call of the client.
    unreplied: usize,
    /// Seconds since that Reply.
    quiet: u32,
}

impl<const MOST: usize> Default for Unanswered<MOST> {
    /// Returns a state without callbacks. Before its first reply a client grants one credit (RFC
    /// 8166, section 3.3.3).
    fn default() -> Self {
        Self {
            calls: [None; MOST],
            granted: 1,
            unreplied: 0,
            quiet: 0,
        }
    }
}

impl<const MOST: usize> Unanswered<MOST> {
    /// Counts the callback `xid`, which is about to be sent.
    ///
    /// If all credits are in use and the oldest callback is older than `patience` seconds, that one
    /// is considered lost. Otherwise a client that never answers would never get a callback again.
    ///
    /// At most `MOST` callbacks are sent between two Replies to the client, unless no Reply was
    /// sent for more than `patience` seconds. Linux's client reposts the Receives that callbacks
    /// have used only when a Call gets its Reply; it has as many spare Receives as twice the
    /// credits that it grants (net/sunrpc/xprtrdma/rpc_rdma.c, `rpcrdma_reply_handler`).
    ///
    /// # Errors
    ///
    /// Returns [`NoCredit`] if the callback would exceed the client's credits or one of these
    /// limits.
    pub fn on_call(&mut self, xid: u32, patience: u32) -> Result<Counted, NoCredit> {
        if self.calls.iter().flatten().any(|call| call.xid == xid) {
            return Ok(Counted::Again);
        }
        if self.unreplied >= MOST && self.quiet <= patience {
            return Err(NoCredit);
        }
        *self.slot(patience).ok_or(NoCredit)? = Some(Call { xid, age: 0 });
        self.unreplied = self.unreplied.saturating_add(1);
        Ok(Counted::New)
    }

    /// Returns the slot for another callback: a free one, or that of a lost callback.
    fn slot(&mut self, patience: u32) -> Option<&mut Option<Call>> {
        let is_free = self.calls.iter().flatten().count() < self.granted;
        let age = |slot: &Option<Call>| slot.map(|call| call.age);
        if is_free {
            self.calls.iter_mut().find(|slot| slot.is_none())
        } else {
            self.calls
                .iter_mut()
                .max_by_key(|slot| age(slot))
                .filter(|slot| age(slot) > Some(patience))
        }
    }

    /// Removes the callback `xid`, which could not be sent.
    pub fn on_unsent(&mut self, xid: u32) {
        if self.on_answer(xid, None) {
            self.unreplied = self.unreplied.saturating_sub(1);
        }
    }

    /// Removes the callback `xid`, which the client has answered. Returns true if it was counted.
    ///
    /// `granted` is the number of credits in a reply, taken as at least 1 (RFC 8166, section
    /// 3.3.1). It is `None` for an RDMA_ERROR, whose credits are not used.
    pub fn on_answer(&mut self, xid: u32, granted: Option<u32>) -> bool {
        let is_it = |slot: &&mut Option<Call>| slot.is_some_and(|call| call.xid == xid);
        let Some(slot) = self.calls.iter_mut().find(is_it) else {
            return false;
        };
        *slot = None;
        if let Some(credits) = granted {
            self.granted = (credits as usize).clamp(1, MOST.max(1));
        }
        true
    }

    /// Notes that a Call of the client gets its Reply.
    pub fn on_reply(&mut self) {
        self.unreplied = 0;
        self.quiet = 0;
    }

    /// Adds `seconds` to the ages.
    pub fn tick(&mut self, seconds: u32) {
        self.quiet = self.quiet.saturating_add(seconds);
        for call in self.calls.iter_mut().flatten() {
            call.age = call.age.saturating_add(seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_granted_credits_are_used() {
        for (granted, used) in [
            (0, 1),
            (1, 1),
            (2, 1),
            (3, 1),
            (16, 8),
            (u32::MAX, u32::MAX / 2),
        ] {
            assert_eq!(under_way(granted), used, "{granted}");
        }
    }

    /// Seconds that callbacks may stay unanswered.
    const PATIENCE: u32 = 60;

    const NEW: Result<Counted, NoCredit> = Ok(Counted::New);

    impl<const MOST: usize> Unanswered<MOST> {
        fn call(&mut self, xid: u32) -> Result<Counted, NoCredit> {
            self.on_call(xid, PATIENCE)
        }
    }

    #[test]
    fn a_call_counts_until_it_is_answered() {
        let mut calls = Unanswered::<4>::default();
        assert_eq!(calls.call(1), NEW);
        // A retransmission.
        assert_eq!(calls.call(1), Ok(Counted::Again));
        assert_eq!(calls.call(2), Err(NoCredit));
        // Answers to callbacks that were not sent.
        for xid in [2, 3] {
            assert!(!calls.on_answer(xid, Some(4)));
            assert_eq!(calls.call(2), Err(NoCredit));
        }
        assert!(calls.on_answer(1, None));
        assert!(!calls.on_answer(1, Some(4)));
        assert_eq!(calls.call(2), NEW);
        assert_eq!(calls.call(3), Err(NoCredit));
    }

    #[test]
    fn callbacks_between_two_replies_are_limited() {
        let mut calls = Unanswered::<4>::default();
        for round in 0..3 {
            for xid in 0..4 {
                assert_eq!(calls.call(xid), NEW, "{round} {xid}");
                assert!(calls.on_answer(xid, Some(16)));
            }
            assert_eq!(calls.call(4), Err(NoCredit));
            calls.on_reply();
        }
        // A callback that could not be sent uses no credit.
        for _ in 0..9 {
            assert_eq!(calls.call(5), NEW);
            calls.on_unsent(5);
            calls.on_unsent(5);
        }
        for xid in 0..4 {
            assert_eq!(calls.call(xid), NEW);
            assert!(calls.on_answer(xid, None));
        }
        // A client without Replies for longer than the patience gets callbacks all the same.
        calls.tick(PATIENCE);
        assert_eq!(calls.call(6), Err(NoCredit));
        calls.tick(1);
        assert_eq!(calls.call(6), NEW);
    }

    #[test]
    fn the_last_reply_sets_the_limit() {
        let mut calls = Unanswered::<4>::default();
        for (granted, most) in [
            (3, 3),
            (4, 4),
            (5, 4),
            (u32::MAX, 4),
            (2, 2),
            (0, 1),
            (1, 1),
        ] {
            assert_eq!(calls.call(0), NEW);
            assert!(calls.on_answer(0, Some(granted)));
            calls.on_reply();
            for xid in 1..=most {
                assert_eq!(calls.call(xid), NEW, "{granted}");
            }
            assert_eq!(calls.call(9), Err(NoCredit), "{granted}");
            for xid in 1..=most {
                assert!(calls.on_answer(xid, None));
            }
            calls.on_reply();
        }
        assert_eq!(Unanswered::<0>::default().call(1), Err(NoCredit));
    }

    #[test]
    fn a_grant_may_shrink_below_the_unanswered_callbacks() {
        let mut calls = Unanswered::<4>::default();
        assert_eq!(calls.call(0), NEW);
        assert!(calls.on_answer(0, Some(3)));
        for xid in 1..=3 {
            assert_eq!(calls.call(xid), NEW);
        }
        assert!(calls.on_answer(1, Some(1)));
        assert_eq!(calls.call(4), Err(NoCredit));
        assert!(calls.on_answer(2, None));
        assert_eq!(calls.call(4), Err(NoCredit));
        assert!(calls.on_answer(3, None));
        calls.on_reply();
        assert_eq!(calls.call(4), NEW);
    }

    #[test]
    fn the_oldest_callback_is_lost_when_patience_ends() {
        let mut calls = Unanswered::<4>::default();
        assert_eq!(calls.call(0), NEW);
        assert!(calls.on_answer(0, Some(2)));
        assert_eq!(calls.call(1), NEW);
        calls.tick(PATIENCE);
        assert_eq!(calls.call(2), NEW);
        assert_eq!(calls.call(3), Err(NoCredit));
        calls.tick(1);
        assert_eq!(calls.call(3), NEW);
        assert_eq!(calls.call(4), Err(NoCredit));
        assert!(!calls.on_answer(1, None));
        assert!(calls.on_answer(2, None));
        // No callback is considered lost while credits are left.
        calls.tick(u32::MAX);
        calls.tick(1);
        assert_eq!(calls.call(4), NEW);
        assert!(calls.on_answer(3, None));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Calls of the server to one client, its callbacks, and the credits for them (RFC 8167, section
//! 4.1).
//!
//! sunrpc gives a Call up that gets no reply in time, and makes the next one as if there had been
//! none. The client still has it, so here it counts until it is answered, or must have been lost.

/// How many Calls to a client that grants `granted` sunrpc has under way at most: half as many.
///
/// Linux's client has two buffers for each credit that it grants, and one is its own again only when
/// it knows that the Send of the reply has completed, for which it asks with some Sends only. When a
/// Call finds no buffer it disconnects (net/sunrpc/xprtrdma/backchannel.c, frwr_ops.c).
pub fn under_way(granted: u32) -> u32 {
    (granted / 2).max(1)
}

/// The client has not granted a credit for another Call, or has none to receive it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCredit;

/// A Call that is not answered.
#[derive(Clone, Copy, Debug)]
struct Call {
    xid: u32,
    /// Seconds.
    age: u32,
}

/// The Calls that a client has not answered, of which there are never more than `MOST`.
#[derive(Clone, Debug)]
pub struct Unanswered<const MOST: usize> {
    calls: [Option<Call>; MOST],
    /// What the client's last reply has granted, as far as it can be used.
    granted: usize,
    /// Calls that were sent since the client's last Call had its reply.
    unreplied: usize,
    /// Seconds since then.
    quiet: u32,
}

impl<const MOST: usize> Default for Unanswered<MOST> {
    /// There are none, and before the first reply there is one credit (RFC 8166, section 3.3.3).
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
    /// The Call with this XID is about to be sent. Returns whether it was counted; if not, it is sent
    /// again and was counted then.
    ///
    /// A client that has no credit left and has not answered its oldest Call for more than `patience`
    /// seconds has lost that, or nothing would ever be sent to it again.
    ///
    /// Linux's client posts a Receive that a Call has used again when one of its own Calls has its
    /// reply, and has so many more than its credits as it grants twice over (net/sunrpc/xprtrdma/
    /// rpc_rdma.c, `rpcrdma_reply_handler`). So no more than `MOST` are sent from one reply to the
    /// next, unless there was none for `patience` seconds.
    ///
    /// # Errors
    ///
    /// [`NoCredit`] if that would be more than the client has granted, or than `MOST`.
    pub fn on_call(&mut self, xid: u32, patience: u32) -> Result<bool, NoCredit> {
        if self.calls.iter().flatten().any(|call| call.xid == xid) {
            return Ok(false);
        }
        if self.unreplied >= MOST && self.quiet <= patience {
            return Err(NoCredit);
        }
        *self.slot(patience).ok_or(NoCredit)? = Some(Call { xid, age: 0 });
        self.unreplied = self.unreplied.saturating_add(1);
        Ok(true)
    }

    /// Where another Call can be counted.
    fn slot(&mut self, patience: u32) -> Option<&mut Option<Call>> {
        let is_free = self.calls.iter().flatten().count() < self.granted;
        let age = |slot: &Option<Call>| slot.map(|call| call.age);
        match is_free {
            true => self.calls.iter_mut().find(|slot| slot.is_none()),
            false => self
                .calls
                .iter_mut()
                .max_by_key(|slot| age(slot))
                .filter(|slot| age(slot) > Some(patience)),
        }
    }

    /// The Call with this XID was not sent after all.
    pub fn on_unsent(&mut self, xid: u32) {
        if self.on_answer(xid, None) {
            self.unreplied = self.unreplied.saturating_sub(1);
        }
    }

    /// The client has answered the Call with this XID; returns whether there is such a Call. A reply
    /// says how many credits it grants, of which there is always one (RFC 8166, section 3.3.1);
    /// those in an RDMA_ERROR do not count.
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

    /// A Call of the client's has its reply.
    pub fn on_reply(&mut self) {
        self.unreplied = 0;
        self.quiet = 0;
    }

    /// `seconds` have passed.
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
    fn half_of_what_a_client_grants_is_used() {
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

    /// Longer than any of these Calls is under way.
    const PATIENCE: u32 = 60;

    impl<const MOST: usize> Unanswered<MOST> {
        fn call(&mut self, xid: u32) -> Result<bool, NoCredit> {
            self.on_call(xid, PATIENCE)
        }
    }

    #[test]
    fn a_call_counts_until_it_is_answered() {
        let mut calls = Unanswered::<4>::default();
        assert_eq!(calls.call(1), Ok(true));
        // Sent again it is the same one.
        assert_eq!(calls.call(1), Ok(false));
        assert_eq!(calls.call(2), Err(NoCredit));
        // Of nothing, and of one that did not go.
        for xid in [2, 3] {
            assert!(!calls.on_answer(xid, Some(4)));
            assert_eq!(calls.call(2), Err(NoCredit));
        }
        assert!(calls.on_answer(1, None));
        assert!(!calls.on_answer(1, Some(4)));
        assert_eq!(calls.call(2), Ok(true));
        assert_eq!(calls.call(3), Err(NoCredit));
    }

    #[test]
    fn there_are_no_more_than_so_many_from_one_reply_to_the_next() {
        let mut calls = Unanswered::<4>::default();
        for round in 0..3 {
            for xid in 0..4 {
                assert_eq!(calls.call(xid), Ok(true), "{round} {xid}");
                assert!(calls.on_answer(xid, Some(16)));
            }
            assert_eq!(calls.call(4), Err(NoCredit));
            calls.on_reply();
        }
        // One that was not sent has used nothing.
        for _ in 0..9 {
            assert_eq!(calls.call(5), Ok(true));
            calls.on_unsent(5);
            calls.on_unsent(5);
        }
        for xid in 0..4 {
            assert_eq!(calls.call(xid), Ok(true));
            assert!(calls.on_answer(xid, None));
        }
        // A client that is quiet for so long has Calls all the same.
        calls.tick(PATIENCE);
        assert_eq!(calls.call(6), Err(NoCredit));
        calls.tick(1);
        assert_eq!(calls.call(6), Ok(true));
    }

    #[test]
    fn the_last_reply_says_how_many_there_may_be() {
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
            assert_eq!(calls.call(0), Ok(true));
            assert!(calls.on_answer(0, Some(granted)));
            calls.on_reply();
            for xid in 1..=most {
                assert_eq!(calls.call(xid), Ok(true), "{granted}");
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
    fn fewer_credits_than_calls_are_no_harm() {
        let mut calls = Unanswered::<4>::default();
        assert_eq!(calls.call(0), Ok(true));
        assert!(calls.on_answer(0, Some(3)));
        for xid in 1..=3 {
            assert_eq!(calls.call(xid), Ok(true));
        }
        assert!(calls.on_answer(1, Some(1)));
        assert_eq!(calls.call(4), Err(NoCredit));
        assert!(calls.on_answer(2, None));
        assert_eq!(calls.call(4), Err(NoCredit));
        assert!(calls.on_answer(3, None));
        calls.on_reply();
        assert_eq!(calls.call(4), Ok(true));
    }

    #[test]
    fn the_oldest_is_lost_when_patience_ends() {
        let mut calls = Unanswered::<4>::default();
        assert_eq!(calls.call(0), Ok(true));
        assert!(calls.on_answer(0, Some(2)));
        assert_eq!(calls.call(1), Ok(true));
        calls.tick(PATIENCE);
        assert_eq!(calls.call(2), Ok(true));
        assert_eq!(calls.call(3), Err(NoCredit));
        calls.tick(1);
        assert_eq!(calls.call(3), Ok(true));
        assert_eq!(calls.call(4), Err(NoCredit));
        assert!(!calls.on_answer(1, None));
        assert!(calls.on_answer(2, None));
        // As long as there are credits nothing is lost.
        calls.tick(u32::MAX);
        calls.tick(1);
        assert_eq!(calls.call(4), Ok(true));
        assert!(calls.on_answer(3, None));
    }
}

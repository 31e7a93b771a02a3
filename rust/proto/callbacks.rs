// SPDX-License-Identifier: GPL-2.0

//! Calls of the server to one client, its callbacks, and the credits for them (RFC 8167, section
//! 4.1).
//!
//! sunrpc gives a Call up that gets no reply in time, and makes the next one as if there had been
//! none. The client still has it, so here it counts until it is answered.

/// How many Calls to a client that grants `granted` sunrpc has under way at most: half as many.
///
/// Linux's client has two buffers for each credit that it grants, and one is its own again only when
/// it knows that the Send of the reply has completed, for which it asks with some Sends only. When a
/// Call finds no buffer it disconnects (net/sunrpc/xprtrdma/backchannel.c, frwr_ops.c).
pub fn under_way(granted: u32) -> u32 {
    (granted / 2).max(1)
}

/// The client has not granted a credit for another Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCredit;

/// The Calls that a client has not answered, of which there are never more than `MOST`.
#[derive(Clone, Debug)]
pub struct Unanswered<const MOST: usize> {
    /// Their XIDs.
    xids: [Option<u32>; MOST],
    /// What the client's last reply has granted.
    granted: usize,
}

impl<const MOST: usize> Default for Unanswered<MOST> {
    /// There are none, and before the first reply there is one credit (RFC 8166, section 3.3.3).
    fn default() -> Self {
        Self {
            xids: [None; MOST],
            granted: 1,
        }
    }
}

impl<const MOST: usize> Unanswered<MOST> {
    /// The Call with this XID is about to be sent, for the first time or again.
    ///
    /// # Errors
    ///
    /// [`NoCredit`] if that would be more than the client has granted, or than `MOST`; the Call does
    /// not count.
    pub fn on_call(&mut self, xid: u32) -> Result<(), NoCredit> {
        if self.xids.contains(&Some(xid)) {
            return Ok(());
        }
        if self.xids.iter().flatten().count() >= self.granted {
            return Err(NoCredit);
        }
        let free = self.xids.iter_mut().find(|slot| slot.is_none());
        *free.ok_or(NoCredit)? = Some(xid);
        Ok(())
    }

    /// The client has answered the Call with this XID, or it was not sent after all. A reply says how
    /// many credits it grants, of which there is always one (RFC 8166, section 3.3.1); an
    /// RDMA_ERROR does not count. Answers to nothing are ignored.
    pub fn on_answer(&mut self, xid: u32, granted: Option<u32>) {
        let Some(slot) = self.xids.iter_mut().find(|slot| **slot == Some(xid)) else {
            return;
        };
        *slot = None;
        if let Some(credits) = granted {
            self.granted = credits.max(1) as usize;
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

    #[test]
    fn a_call_counts_until_it_is_answered() {
        let mut calls = Unanswered::<4>::default();
        assert_eq!(calls.on_call(1), Ok(()));
        // Sent again it is the same one.
        assert_eq!(calls.on_call(1), Ok(()));
        assert_eq!(calls.on_call(2), Err(NoCredit));
        // Of nothing, and of one that did not go.
        for xid in [2, 3] {
            calls.on_answer(xid, Some(4));
            assert_eq!(calls.on_call(2), Err(NoCredit));
        }
        calls.on_answer(1, None);
        assert_eq!(calls.on_call(2), Ok(()));
        assert_eq!(calls.on_call(3), Err(NoCredit));
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
            assert_eq!(calls.on_call(0), Ok(()));
            calls.on_answer(0, Some(granted));
            for xid in 1..=most {
                assert_eq!(calls.on_call(xid), Ok(()), "{granted}");
            }
            assert_eq!(calls.on_call(9), Err(NoCredit), "{granted}");
            for xid in 1..=most {
                calls.on_answer(xid, None);
            }
        }
    }

    #[test]
    fn fewer_credits_than_calls_are_no_harm() {
        let mut calls = Unanswered::<4>::default();
        assert_eq!(calls.on_call(0), Ok(()));
        calls.on_answer(0, Some(3));
        for xid in 1..=3 {
            assert_eq!(calls.on_call(xid), Ok(()));
        }
        calls.on_answer(1, Some(1));
        assert_eq!(calls.on_call(4), Err(NoCredit));
        calls.on_answer(2, None);
        assert_eq!(calls.on_call(4), Err(NoCredit));
        calls.on_answer(3, None);
        assert_eq!(calls.on_call(4), Ok(()));
    }
}

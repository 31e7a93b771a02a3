// SPDX-License-Identifier: GPL-2.0

//! Credits of one connection (RFC 8166, section 3.3).
//!
//! A grant travels in a reply and says how many Calls may be unanswered. It grows by one with each
//! reply to a client that uses it, and is halved at each look at a client that does not. A client
//! uses its grant if it has had as many Calls unanswered at a time since the last look at it, or has
//! made as many: others may be on the wire, so the number that wait here is too little to go by.
//!
//! No grant exceeds the credits that posted Receive buffers back. When a grant comes near that number
//! [`Credits::asks_for_more`] says so; who makes buffers then calls [`Credits::set_backed`]. A look at
//! a client that does not use its grant lowers the number, to no less than such a client may still
//! use: it sees the lower grant only with its next replies.
//!
//! A client that exceeds its grant finds no buffer for its next message, and harms itself alone. Only
//! the room that there is for Calls is enforced here.
//!
//! Other messages than Calls cost no credit. Of those that nobody waits for a client may send as many
//! as Calls, and some more.

/// The grant that a connection begins with, unless its limit is lower.
pub const START: u32 = 8;

/// How many messages that nobody waits for a client may send beside one for each Call.
const SLACK: u32 = 1024;

/// The client has more unanswered Calls than there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// The client sends too many messages that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unasked;

/// Credits of a connection.
///
/// # Invariants
///
/// `grant` is at least 1; `grant` and `held` never exceed `backed`; `unanswered` never exceeds
/// `room`, nor `slack` [`SLACK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// The most that the next reply grants.
    grant: u32,
    /// How many the client asked for last.
    requested: u32,
    /// The limit when the last reply was made.
    limit: u32,
    /// How many there are Receive buffers for.
    backed: u32,
    /// How many unanswered Calls there is room for.
    room: u32,
    unanswered: u32,
    /// The most that were unanswered at a time since the last look.
    peak: u32,
    /// Calls since the last look.
    calls: u32,
    /// The largest grant that a client may still be using which has seen all replies.
    held: u32,
    /// Replies that it has not seen, as they wait to be posted.
    waiting: u32,
    /// Set once buffers for more credits were asked for, until there are some or the next look.
    has_asked: bool,
    /// How many messages that nobody waits for it may send yet.
    slack: u32,
}

impl Credits {
    /// Begins with [`START`] credits, at most `limit` and at least 1, for which there are buffers.
    /// There is room for `room` Calls.
    pub fn new(limit: u32, room: u32) -> Self {
        let grant = START.min(limit).max(1);
        Self {
            grant,
            requested: grant,
            limit,
            backed: grant,
            room: room.max(1),
            unanswered: 0,
            peak: 0,
            calls: 0,
            held: grant,
            waiting: 0,
            has_asked: false,
            slack: SLACK,
        }
    }

    /// Returns what the next reply may grant.
    pub fn grant(&self) -> u32 {
        self.grant
    }

    /// Returns how many Calls are unanswered.
    pub fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// Returns how many credits there are Receive buffers for.
    pub fn backed(&self) -> u32 {
        self.backed
    }

    /// Returns the largest grant that a client may still be using which has seen all replies.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// A Call was received that asks for `requested` credits. `None` of what may be a Call but cannot
    /// be decoded: what it asks for does not count (RFC 8167, section 4.1).
    ///
    /// # Errors
    ///
    /// [`Overrun`] if there is no room for so many; the Call is not counted.
    pub fn on_call(&mut self, requested: impl Into<Option<u32>>) -> Result<(), Overrun> {
        if self.unanswered >= self.room {
            return Err(Overrun);
        }
        self.unanswered = self.unanswered.saturating_add(1);
        self.peak = self.peak.max(self.unanswered);
        self.calls = self.calls.saturating_add(1);
        self.slack = self.slack.saturating_add(1).min(SLACK);
        self.requested = requested.into().unwrap_or(self.requested);
        Ok(())
    }

    /// A Call gets its reply; returns the grant that it carries, which is never 0 and, but for that,
    /// never above `limit`. The Call counts until [`Self::on_end`].
    pub fn on_reply(&mut self, limit: u32) -> u32 {
        self.limit = limit;
        let grown = self.grant.saturating_add(u32::from(self.is_used()));
        // INVARIANT: At least 1, as `backed` is; at most `backed`.
        self.grant = grown.min(self.ceiling()).min(self.backed);
        let granted = self.grant.min(self.requested).max(1);
        // Each reply ends one Call: a client that used a larger grant comes down to this one so.
        self.held = granted.max(self.held.saturating_sub(1));
        self.waiting = self.waiting.saturating_add(1);
        granted
    }

    /// Returns the most that the client can be granted, whatever there are buffers for.
    fn ceiling(&self) -> u32 {
        self.limit.min(self.requested.max(START)).max(1)
    }

    /// Returns how many credits there should be buffers for: twice as many for a client that uses
    /// nearly all that there are.
    pub fn wanted(&self) -> u32 {
        let is_near = self.grant.saturating_add(self.backed / 4) >= self.backed;
        match is_near && self.is_used() {
            true => self
                .backed
                .saturating_mul(2)
                .min(self.ceiling())
                .max(self.backed),
            false => self.backed,
        }
    }

    /// Returns true if buffers for more credits should be made now. Once, until there are some or
    /// until the next look.
    pub fn asks_for_more(&mut self) -> bool {
        let asks = !self.has_asked && self.wanted() > self.backed;
        self.has_asked |= asks;
        asks
    }

    /// There are posted buffers for `backed` credits: for no fewer than before.
    pub fn set_backed(&mut self, backed: u32) {
        if backed > self.backed {
            self.backed = backed;
            self.has_asked = false;
        }
    }

    /// A message was received that costs no credit and that nobody waits for.
    ///
    /// # Errors
    ///
    /// [`Unasked`] if there were too many of them.
    pub fn on_unasked(&mut self) -> Result<(), Unasked> {
        self.slack = self.slack.checked_sub(1).ok_or(Unasked)?;
        Ok(())
    }

    /// Returns true if the client has used all of its grant since the last look.
    fn is_used(&self) -> bool {
        self.calls.max(self.peak) >= self.grant
    }

    /// A Call is over: its reply goes out, or it will never have one. The latter makes a reply that
    /// waits look sent, and the client counts one Call more than we do.
    pub fn on_end(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Looks at the client, as is done every now and then: the next replies grant less to one that
    /// did not use its grant since the last time, and it needs fewer buffers when it knows. Returns
    /// how many credits there should be buffers for.
    pub fn look(&mut self) -> u32 {
        let mut wanted = self.wanted();
        if !self.is_used() {
            if self.grant > START {
                // INVARIANT: At least `START`.
                self.grant = (self.grant / 2).max(START);
            }
            // INVARIANT: No less than `grant` and `held`.
            let kept = self.held.saturating_add(self.waiting).max(self.grant);
            self.backed = kept.max(START).min(self.backed);
            wanted = self.backed;
        }
        self.has_asked = false;
        self.calls = 0;
        self.peak = self.unanswered;
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u32 = 128;

    /// Those of a connection with room for as many Calls as the limit and some more.
    fn begin(limit: u32) -> Credits {
        Credits::new(limit, limit.saturating_add(8))
    }

    /// A client that always has `depth` Calls unanswered, or as many as it may, makes `count`; buffers
    /// are made when they are asked for, up to `most`.
    fn load(credits: &mut Credits, depth: u32, count: u32, most: u32) -> u32 {
        let mut granted = credits.grant();
        for _ in 0..count {
            while credits.unanswered() < depth.min(granted) {
                assert_eq!(credits.on_call(u32::MAX), Ok(()));
            }
            granted = credits.on_reply(LIMIT);
            if credits.asks_for_more() {
                credits.set_backed(credits.wanted().min(most));
            }
            credits.on_end();
        }
        granted
    }

    #[test]
    fn what_cannot_be_decoded_asks_for_nothing() {
        let mut credits = begin(LIMIT);
        assert_eq!(credits.on_call(None), Ok(()));
        assert_eq!(credits.on_reply(LIMIT), START);
        assert_eq!(credits.on_call(7), Ok(()));
        assert_eq!(credits.on_call(None), Ok(()));
        for _ in 0..2 {
            assert_eq!(credits.on_reply(LIMIT), 7);
        }
    }

    #[test]
    fn the_grant_is_between_one_and_the_request() {
        for (limit, requested, grant) in [
            (32, 128, START),
            (32, 5, 5),
            (32, 0, 1),
            (0, 128, 1),
            (7, 128, 7),
            (u32::MAX, u32::MAX, START),
        ] {
            let mut credits = begin(limit);
            assert_eq!(credits.on_call(requested), Ok(()));
            assert_eq!(credits.unanswered(), 1);
            let granted = credits.on_reply(limit);
            assert_eq!((granted, credits.unanswered()), (grant, 1));
            credits.on_end();
            assert_eq!(credits.unanswered(), 0);
        }
    }

    #[test]
    fn a_busy_client_has_all_there_is() {
        for depth in [1, 16, 64, LIMIT, 1000] {
            let mut credits = begin(LIMIT);
            // As many Calls as it has to begin with, and one reply for each credit more.
            assert!(load(&mut credits, depth, START - 1, LIMIT) <= START + depth);
            assert_eq!(load(&mut credits, depth, 2 * LIMIT, LIMIT), LIMIT);
            assert_eq!(load(&mut credits, depth, LIMIT, LIMIT), LIMIT);
        }
    }

    #[test]
    fn no_grant_exceeds_what_buffers_back() {
        let mut credits = begin(LIMIT);
        assert_eq!(load(&mut credits, LIMIT, 1000, START), START);
        assert_eq!((credits.backed(), credits.held()), (START, START));
        // They are asked for again after the next look, and then come.
        assert!(!credits.asks_for_more());
        assert_eq!(credits.look(), 2 * START);
        assert_eq!(load(&mut credits, LIMIT, 1000, 40), 40);
    }

    #[test]
    fn no_more_buffers_are_asked_for_than_can_be_granted() {
        for (limit, requested) in [(20, LIMIT), (LIMIT, 20), (LIMIT, 3)] {
            let mut credits = begin(LIMIT);
            for _ in 0..1000 {
                assert_eq!(credits.on_call(requested), Ok(()));
                credits.on_reply(limit);
                credits.on_end();
                if credits.asks_for_more() {
                    credits.set_backed(credits.wanted());
                }
                assert!(credits.backed() <= limit.min(requested).max(START));
            }
        }
    }

    #[test]
    fn few_calls_leave_the_grant_as_it_is() {
        let mut credits = begin(LIMIT);
        for _ in 0..100 {
            assert_eq!(load(&mut credits, 1, START - 1, LIMIT), START);
            assert_eq!(credits.look(), START);
        }
    }

    #[test]
    fn what_is_not_used_goes_back() {
        let mut credits = begin(LIMIT);
        load(&mut credits, LIMIT, 1000, LIMIT);
        while credits.unanswered() > 0 {
            credits.on_end();
        }
        // It was used since the last look.
        let grants = [(); 6].map(|()| {
            credits.look();
            credits.grant()
        });
        assert_eq!(grants, [LIMIT, 64, 32, 16, START, START]);
        // The client does not know: its buffers stay, but for those that its next replies free.
        assert_eq!((credits.held(), credits.backed()), (LIMIT, LIMIT));
        for i in 1..=LIMIT {
            load(&mut credits, 1, 1, LIMIT);
            assert_eq!(credits.look(), (LIMIT - i).max(START));
        }
    }

    #[test]
    fn replies_that_wait_have_lowered_nothing_yet() {
        let mut credits = begin(LIMIT);
        load(&mut credits, LIMIT, 1000, LIMIT);
        credits.look();
        for _ in 0..6 {
            credits.look();
        }
        for _ in 0..10 {
            credits.on_reply(5);
        }
        assert_eq!(credits.held(), LIMIT - 10);
        credits.calls = 0;
        credits.peak = 0;
        assert_eq!(credits.look(), LIMIT);
        credits.on_end();
        credits.peak = 0;
        assert_eq!(credits.look(), LIMIT - 1);
    }

    #[test]
    fn what_nobody_waits_for_is_bounded_by_calls() {
        let mut credits = begin(LIMIT);
        for _ in 0..3 * SLACK {
            assert_eq!(credits.on_call(LIMIT), Ok(()));
            credits.on_end();
            assert_eq!(credits.on_unasked(), Ok(()));
        }
        // One was for the last Call.
        for _ in 1..SLACK {
            assert_eq!(credits.on_unasked(), Ok(()));
        }
        assert_eq!(credits.on_unasked(), Err(Unasked));
        assert_eq!(credits.on_unasked(), Err(Unasked));
    }

    #[test]
    fn slow_calls_keep_their_credits() {
        let mut credits = begin(LIMIT);
        load(&mut credits, LIMIT, 1000, LIMIT);
        assert_eq!(credits.on_call(LIMIT), Ok(()));
        // Few are made between two looks, but as many as may be are unanswered.
        for _ in 0..10 {
            assert_eq!(credits.look(), LIMIT);
            assert_eq!(load(&mut credits, LIMIT, START, LIMIT), LIMIT);
            assert_eq!(credits.on_call(LIMIT), Ok(()));
        }
    }

    #[test]
    fn a_lower_limit_holds_with_the_next_reply() {
        let mut credits = begin(LIMIT);
        load(&mut credits, LIMIT, 1000, LIMIT);
        assert_eq!(credits.on_reply(5), 5);
        assert_eq!(credits.held(), LIMIT - 1);
    }

    #[test]
    fn the_room_is_what_is_enforced() {
        let mut credits = begin(START);
        // A client that gives Calls up, or does not count before the first reply.
        for _ in 0..START + 8 {
            assert_eq!(credits.on_call(9), Ok(()));
        }
        assert_eq!(credits.on_call(9), Err(Overrun));
        assert_eq!(credits.unanswered(), START + 8);
        // A reply that has not gone out makes no room.
        assert_eq!(credits.on_reply(1), 1);
        assert_eq!(credits.on_call(9), Err(Overrun));
        credits.on_end();
        assert_eq!(credits.on_call(9), Ok(()));
    }

    #[test]
    fn a_start_of_nothing_is_one_credit() {
        let mut credits = Credits::new(0, 0);
        assert_eq!(credits.on_call(1), Ok(()));
        assert_eq!(credits.on_call(1), Err(Overrun));
        assert_eq!(credits.on_reply(0), 1);
        // More answers than Calls would be a mistake of ours, not a way to wrap around.
        credits.on_end();
        credits.on_end();
        assert_eq!(credits.unanswered(), 0);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Credits of one connection (RFC 8166, section 3.3).
//!
//! A grant travels in a reply and says how many Calls may be unanswered. It grows by one with each
//! reply of a client that uses it, shrinks by one with each reply when the server is short of room,
//! and is halved at each look at a client that does not. A client uses its grant if it has had as
//! many Calls unanswered at a time since the last look at it, or has made as many: others may be on
//! the wire, so how many wait here is too little to go by.
//!
//! What is enforced at once is the room that there is, which no grant exceeds: the client may have
//! given up a Call that is unanswered here, which it does not count any more. Where room is short it
//! is held to its grant, too, see [`Credits::over`].
//!
//! Other messages than Calls cost no credit. Of those that nobody waits for a client may send as many
//! as Calls, and some more.

/// The grant that a connection begins with, unless its limit is lower.
pub const START: u32 = 32;

/// The grant below which a shortage does not push it.
const LEAST: u32 = 4;

/// How many messages that nobody waits for a client may send beside one for each Call.
const SLACK: u32 = 1024;

/// The client has more unanswered Calls than there can be credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// The client sends too many messages that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unasked;

/// How much room a server has for more Calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Grants may grow.
    Plenty,
    /// They stay as they are.
    Enough,
    /// They have to shrink.
    Short,
}

impl Room {
    /// That of a server which has `under_way` unanswered Calls and could take `capacity`.
    pub fn of(under_way: u32, capacity: u32) -> Self {
        if under_way <= capacity / 2 {
            Self::Plenty
        } else if under_way <= capacity.saturating_sub(capacity / 4) {
            Self::Enough
        } else {
            Self::Short
        }
    }
}

/// Credits of a connection.
///
/// # Invariants
///
/// `grant` and `most` are at least 1; `unanswered` never exceeds `most`, nor `slack` [`SLACK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// How many Calls we want unanswered at most.
    grant: u32,
    /// How many the client asked for last.
    requested: u32,
    /// How many unanswered Calls there is room for.
    most: u32,
    unanswered: u32,
    /// The most that were unanswered at a time since the last look.
    peak: u32,
    /// Calls since the last look.
    calls: u32,
    /// The most Calls that a client which keeps to its grants, and has seen all of them, can have
    /// unanswered.
    held: u32,
    /// Replies that it has not seen, as they wait to be posted.
    waiting: u32,
    /// Seconds for which it has had more, in a shortage.
    over: u32,
    /// How many messages that nobody waits for it may send yet.
    slack: u32,
}

impl Credits {
    /// Begins with [`START`], at most `limit` and at least 1. There is room for `limit` Calls, also
    /// before the first reply, though a client may use only one credit then.
    pub fn new(limit: u32) -> Self {
        let grant = START.min(limit).max(1);
        Self {
            grant,
            requested: grant,
            most: limit.max(1),
            unanswered: 0,
            peak: 0,
            calls: 0,
            held: grant,
            waiting: 0,
            over: 0,
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

    /// A Call was received that asks for `requested` credits. `None` of what may be a Call but cannot
    /// be decoded: what it asks for does not count (RFC 8167, section 4.1).
    ///
    /// # Errors
    ///
    /// [`Overrun`] if there is no room for so many; the Call is not counted.
    pub fn on_call(&mut self, requested: impl Into<Option<u32>>) -> Result<(), Overrun> {
        if self.unanswered >= self.most {
            return Err(Overrun);
        }
        self.unanswered = self.unanswered.saturating_add(1);
        self.peak = self.peak.max(self.unanswered);
        self.calls = self.calls.saturating_add(1);
        self.slack = self.slack.saturating_add(1).min(SLACK);
        self.requested = requested.into().unwrap_or(self.requested);
        Ok(())
    }

    /// A Call gets its reply while the server has so much `room`; returns the grant that it carries,
    /// which is never 0 and, but for that, never above `limit` or the room that there is. The Call
    /// counts until [`Self::on_end`].
    pub fn on_reply(&mut self, room: Room, limit: u32) -> u32 {
        let grant = match room {
            Room::Plenty if self.is_used() => self.grant.saturating_add(1),
            Room::Short => self.grant.saturating_sub(1).max(LEAST.min(self.grant)),
            Room::Plenty | Room::Enough => self.grant,
        };
        // INVARIANT: at least 1.
        self.grant = grant.min(limit).min(self.most).max(1);
        let granted = self.grant.min(self.requested).max(1);
        // Each reply ends one Call: whoever has used a larger grant comes down to this one like that.
        self.held = granted.max(self.held.saturating_sub(1));
        self.waiting = self.waiting.saturating_add(1);
        granted
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

    /// Returns for how many seconds the client has had more Calls unanswered than its grants allow
    /// while there was a shortage; there is so much `room`, and `seconds` have passed since it was asked
    /// last. A client that gives up Calls may have more for as long as the server is at these.
    pub fn over(&mut self, room: Room, seconds: u32) -> u32 {
        let most = self.held.saturating_add(self.waiting);
        self.over = match room == Room::Short && self.unanswered > most {
            true => self.over.saturating_add(seconds),
            false => 0,
        };
        self.over
    }

    /// Whether the client has used all of its grant since the last look.
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
    /// did not use its grant since the last time. Returns whether it did.
    pub fn look(&mut self) -> bool {
        let is_used = self.is_used();
        if !is_used && self.grant > START {
            // INVARIANT: at least `START`.
            self.grant = (self.grant / 2).max(START);
        }
        self.calls = 0;
        self.peak = self.unanswered;
        is_used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u32 = 128;

    /// A client that always has `depth` Calls unanswered, or as many as it may, makes `count`.
    fn load(credits: &mut Credits, depth: u32, count: u32, room: Room) -> u32 {
        let mut granted = credits.grant();
        for _ in 0..count {
            while credits.unanswered() < depth.min(granted) {
                assert_eq!(credits.on_call(u32::MAX), Ok(()));
            }
            granted = credits.on_reply(room, LIMIT);
            credits.on_end();
        }
        granted
    }

    #[test]
    fn what_cannot_be_decoded_asks_for_nothing() {
        let mut credits = Credits::new(LIMIT);
        assert_eq!(credits.on_call(None), Ok(()));
        assert_eq!(credits.on_reply(Room::Enough, LIMIT), START);
        assert_eq!(credits.on_call(7), Ok(()));
        assert_eq!(credits.on_call(None), Ok(()));
        for _ in 0..2 {
            assert_eq!(credits.on_reply(Room::Enough, LIMIT), 7);
        }
    }

    #[test]
    fn the_grant_is_between_one_and_the_request() {
        for (limit, requested, grant) in [
            (32, 128, 32),
            (32, 8, 8),
            (32, 0, 1),
            (0, 128, 1),
            (7, 128, 7),
            (u32::MAX, u32::MAX, START),
        ] {
            let mut credits = Credits::new(limit);
            assert_eq!(credits.on_call(requested), Ok(()));
            assert_eq!(credits.unanswered(), 1);
            let granted = credits.on_reply(Room::Plenty, limit);
            assert_eq!((granted, credits.unanswered()), (grant, 1));
            credits.on_end();
            assert_eq!(credits.unanswered(), 0);
        }
    }

    #[test]
    fn a_busy_client_has_all_there_is() {
        for depth in [1, 16, 64, LIMIT, 1000] {
            let mut credits = Credits::new(LIMIT);
            // As many Calls as it has to begin with, and one reply for each credit more.
            let count = START + (LIMIT - START);
            assert!(load(&mut credits, depth, START - 1, Room::Plenty) <= START + depth);
            assert_eq!(load(&mut credits, depth, 2 * count, Room::Plenty), LIMIT);
            assert_eq!(load(&mut credits, depth, count, Room::Enough), LIMIT);
        }
    }

    #[test]
    fn few_calls_leave_the_grant_as_it_is() {
        let mut credits = Credits::new(LIMIT);
        for _ in 0..100 {
            assert_eq!(load(&mut credits, 1, START - 1, Room::Plenty), START);
            credits.look();
        }
    }

    #[test]
    fn a_shortage_takes_with_each_reply() {
        let mut credits = Credits::new(LIMIT);
        load(&mut credits, LIMIT, 1000, Room::Plenty);
        assert_eq!(load(&mut credits, LIMIT, 28, Room::Short), LIMIT - 28);
        assert_eq!(load(&mut credits, LIMIT, 1000, Room::Short), LEAST);
        // One that has less keeps it.
        let mut credits = Credits::new(2);
        assert_eq!(load(&mut credits, 2, 10, Room::Short), 2);
    }

    #[test]
    fn what_is_not_used_goes_back() {
        let mut credits = Credits::new(LIMIT);
        load(&mut credits, LIMIT, 1000, Room::Plenty);
        while credits.unanswered() > 0 {
            credits.on_end();
        }
        // It was used since the last look.
        let grants = [(); 4].map(|()| {
            credits.look();
            credits.grant()
        });
        assert_eq!(grants, [LIMIT, LIMIT / 2, START, START]);
    }

    #[test]
    fn who_keeps_to_its_grants_is_never_over() {
        let mut credits = Credits::new(LIMIT);
        load(&mut credits, LIMIT, 1000, Room::Plenty);
        // All at once: what the limit takes away is not to be had back at once.
        for (room, limit, requested) in [
            (Room::Short, LIMIT, LIMIT),
            (Room::Plenty, 5, LIMIT),
            (Room::Plenty, LIMIT, 3),
            (Room::Short, LIMIT, LIMIT),
        ] {
            let mut granted = LIMIT;
            for _ in 0..300 {
                while credits.unanswered() < granted {
                    assert_eq!(credits.on_call(requested), Ok(()));
                }
                assert_eq!(credits.over(Room::Short, 2), 0);
                granted = credits.on_reply(room, limit);
                credits.on_end();
                assert_eq!(credits.over(Room::Short, 2), 0);
            }
            load(&mut credits, LIMIT, 1000, Room::Plenty);
        }
    }

    #[test]
    fn who_does_not_is_over_until_it_does() {
        let mut credits = Credits::new(LIMIT);
        // Before the first reply there is not even as much as that.
        for _ in 0..START {
            assert_eq!(credits.on_call(LIMIT), Ok(()));
        }
        assert_eq!(credits.over(Room::Short, 2), 0);
        assert_eq!(credits.on_call(LIMIT), Ok(()));
        assert_eq!([(); 2].map(|()| credits.over(Room::Short, 2)), [2, 4]);
        // Only in a shortage.
        assert_eq!(credits.over(Room::Enough, 2), 0);
        assert_eq!(credits.over(Room::Short, 2), 2);
        credits.on_end();
        assert_eq!(credits.over(Room::Short, 2), 0);

        // A shrunken grant that it does not look at.
        for _ in 0..2 * START {
            credits.on_reply(Room::Short, LIMIT);
            credits.on_end();
            assert_eq!(credits.on_call(LIMIT), Ok(()));
        }
        assert_eq!(credits.grant(), LEAST);
        assert_eq!(credits.over(Room::Short, 2), 2);
    }

    #[test]
    fn what_nobody_waits_for_is_bounded_by_calls() {
        let mut credits = Credits::new(LIMIT);
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
        let mut credits = Credits::new(LIMIT);
        load(&mut credits, LIMIT, 1000, Room::Plenty);
        assert_eq!(credits.on_call(LIMIT), Ok(()));
        // Few are made between two looks, but as many as may be are unanswered.
        for _ in 0..10 {
            assert!(credits.look());
            assert_eq!(load(&mut credits, LIMIT, START, Room::Plenty), LIMIT);
            assert_eq!(credits.on_call(LIMIT), Ok(()));
        }
    }

    #[test]
    fn a_lower_limit_holds_with_the_next_reply() {
        let mut credits = Credits::new(LIMIT);
        assert_eq!(credits.on_call(LIMIT), Ok(()));
        assert_eq!(credits.on_reply(Room::Plenty, 5), 5);
    }

    #[test]
    fn room_is_plenty_up_to_half() {
        for (under_way, room) in [
            (0, Room::Plenty),
            (50, Room::Plenty),
            (51, Room::Enough),
            (75, Room::Enough),
            (76, Room::Short),
            (u32::MAX, Room::Short),
        ] {
            assert_eq!(Room::of(under_way, 100), room, "{under_way}");
        }
        assert_eq!(Room::of(0, 0), Room::Plenty);
        assert_eq!(Room::of(1, 0), Room::Short);
    }

    #[test]
    fn grants_that_wait_to_be_posted_bind_nobody() {
        let mut credits = Credits::new(2 * START);
        for _ in 0..START {
            assert_eq!(credits.on_call(START), Ok(()));
        }
        for _ in 0..8 {
            credits.on_reply(Room::Short, 2 * START);
            assert_eq!(credits.over(Room::Short, 2), 0);
        }
        // When they have gone out the client has as many Calls less, and may have no more.
        for _ in 0..8 {
            credits.on_end();
            assert_eq!(credits.over(Room::Short, 2), 0);
        }
        assert_eq!(credits.on_call(START), Ok(()));
        assert_eq!(credits.over(Room::Short, 2), 2);
    }

    #[test]
    fn the_room_is_what_counts() {
        let mut credits = Credits::new(START + 3);
        assert_eq!(credits.grant(), START);
        // A client that gives Calls up, or does not count before the first reply.
        for _ in 0..START + 3 {
            assert_eq!(credits.on_call(9), Ok(()));
        }
        assert_eq!(credits.on_call(9), Err(Overrun));
        assert_eq!(credits.unanswered(), START + 3);
        // A reply that has not gone out makes no room.
        assert_eq!(credits.on_reply(Room::Plenty, 1), 1);
        assert_eq!(credits.on_call(9), Err(Overrun));
        credits.on_end();
        assert_eq!(credits.on_call(9), Ok(()));
        // No limit makes it more.
        assert_eq!(Credits::new(2).on_reply(Room::Plenty, 9), 2);
    }

    #[test]
    fn a_start_of_nothing_is_one_credit() {
        let mut credits = Credits::new(0);
        assert_eq!(credits.on_call(1), Ok(()));
        assert_eq!(credits.on_call(1), Err(Overrun));
        // More answers than Calls would be a mistake of ours, not a way to wrap around.
        credits.on_end();
        credits.on_end();
        assert_eq!(credits.unanswered(), 0);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Credits of one connection (RFC 8166, section 3.3).
//!
//! Each Reply carries a grant: the number of Calls that the client may have unanswered. The grant
//! grows by one with each Reply to a client that uses it. The watchdog looks at each client at
//! intervals and halves the grant of a client that does not use it. A client uses its grant if the
//! number of its Calls since the last look, or the most that were unanswered at a time, is at least
//! the grant. The Calls that are unanswered at the time of the look are not counted alone: others
//! may still be on the wire.
//!
//! No grant exceeds the credits that posted Receive buffers back. [`Credits::asks_for_more`]
//! returns true when the grant comes near that number; the caller then makes buffers and calls
//! [`Credits::set_backed`]. A look at a client that does not use its grant lowers the number of
//! backed credits, but not below the grant that the client may still be using: it learns of a lower
//! grant only with its next Replies.
//!
//! A Reply lets the client send Calls up to a certain number: those that have ended, and as many as
//! the Reply grants. [`Credits::allowed`] returns the largest such number of all posted Replies. A
//! client that keeps to its grants never sends a later Call, also if Replies that lower the grant
//! are under way. A client that sends one has overrun its grant, and its connection is closed.
//!
//! The receive path counts the Calls in [`Arrivals`], without the lock that protects [`Credits`]: it
//! needs only the allowed number of Calls. The functions of [`Credits`] get a copy of the arrivals
//! that includes each Call which they are called for.
//!
//! Messages other than Calls cost no credit. A client may send as many unsolicited ones as Calls,
//! plus a fixed number.

/// The first grant of a connection, unless its limit is lower.
pub const START: u32 = 8;

/// Unsolicited messages that a client may send in addition to one for each Call.
const SLACK: u32 = 1024;

/// The client has sent more Calls than its grants allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// The client has sent too many unsolicited messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unasked;

/// The Calls that have arrived from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// The number of Calls; wraps around.
    pub calls: u32,
    /// The credits that the client asked for last.
    pub requested: u32,
}

impl Arrivals {
    /// Counts a received Call that asks for `requested` credits, if the client may send `allowed`
    /// Calls. `requested` is `None` for a malformed message that may be a Call, whose credits are
    /// not used (RFC 8167, section 4.1).
    ///
    /// # Errors
    ///
    /// Returns [`Overrun`] if the client has sent `allowed` Calls already. The Call is not counted
    /// then.
    #[inline]
    pub fn on_call(
        &mut self,
        requested: impl Into<Option<u32>>,
        allowed: u32,
    ) -> Result<(), Overrun> {
        if !is_later(allowed, self.calls) {
            return Err(Overrun);
        }
        self.calls = self.calls.wrapping_add(1);
        self.requested = requested.into().unwrap_or(self.requested);
        Ok(())
    }
}

/// Returns true if the number of Calls `a` is larger than `b`. Both wrap around.
#[inline]
fn is_later(a: u32, b: u32) -> bool {
    // Fewer than half of all numbers lie between them.
    (1..=u32::MAX / 2).contains(&a.wrapping_sub(b))
}

/// Returns the larger one of two numbers of Calls that wrap around.
#[inline]
fn later(a: u32, b: u32) -> u32 {
    if is_later(a, b) {
        a
    } else {
        b
    }
}

/// Credits of a connection.
///
/// # Invariants
///
/// - `grant` is at least 1, and at most `backed`.
/// - `allowed` is at most `promised`, and `promised` minus the Calls that have ended or whose Reply
///   waits is at most `backed`.
/// - `slack` is at most `SLACK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// The largest grant that the next Reply may carry.
    grant: u32,
    /// The limit at the time of the last Reply; before the first one, the initial grant.
    limit: u32,
    /// Credits that Receive buffers back.
    backed: u32,
    /// Calls that have ended: their Reply was posted, or they got none. Wraps around.
    ended: u32,
    /// The most Calls that were unanswered when one got its Reply, since the last look.
    peak: u32,
    /// Calls that had arrived at the last look.
    looked: u32,
    /// The number of Calls that the client may send once it has received all posted Replies. Wraps
    /// around.
    allowed: u32,
    /// The number of Calls that it may send once it has received those that wait, too.
    promised: u32,
    /// Replies that wait to be posted, so that the client cannot have received them.
    waiting: u32,
    /// Set when more buffers were requested; cleared when buffers were made and by each look.
    has_asked: bool,
    /// Unsolicited messages that the client could send when `slack_at` Calls had arrived. Each later
    /// Call allows one more.
    slack: u32,
    slack_at: u32,
}

impl Credits {
    /// Returns the credits of a new connection: [`START`], at most `limit` and at least 1, all
    /// backed by buffers. No Call has arrived.
    pub fn new(limit: u32) -> (Self, Arrivals) {
        let grant = START.min(limit).max(1);
        let credits = Self {
            grant,
            // The first Reply brings the limit, which is lower for peers that are not validated.
            limit: grant,
            backed: grant,
            ended: 0,
            peak: 0,
            looked: 0,
            allowed: grant,
            promised: grant,
            waiting: 0,
            has_asked: false,
            slack: SLACK,
            slack_at: 0,
        };
        let arrivals = Arrivals {
            calls: 0,
            requested: grant,
        };
        (credits, arrivals)
    }

    /// Returns the largest grant that the next Reply may carry.
    pub fn grant(&self) -> u32 {
        self.grant
    }

    /// Returns the number of Calls that a client which keeps to its grants may have sent; wraps
    /// around and never falls.
    #[inline]
    pub fn allowed(&self) -> u32 {
        self.allowed
    }

    /// Returns the number of unanswered Calls.
    #[inline]
    pub fn unanswered(&self, arrivals: Arrivals) -> u32 {
        arrivals.calls.wrapping_sub(self.ended)
    }

    /// Returns the credits that Receive buffers back.
    pub fn backed(&self) -> u32 {
        self.backed
    }

    /// Returns the largest grant that the client may still be using.
    pub fn held(&self) -> u32 {
        self.allowed.wrapping_sub(self.ended)
    }

    /// Returns the number of Calls that have ended or whose Reply waits; wraps around.
    #[inline]
    fn queued(&self) -> u32 {
        self.ended.wrapping_add(self.waiting)
    }

    /// Returns the grant for the Reply to a Call: at least 1, and otherwise at most `limit`. The
    /// Call stays unanswered until [`Self::on_posted`].
    #[inline]
    pub fn on_reply(&mut self, arrivals: Arrivals, limit: u32) -> u32 {
        self.limit = limit;
        self.peak = self.peak.max(self.unanswered(arrivals));
        // At most as many wait as are unanswered.
        self.waiting = self.waiting.wrapping_add(1);
        let most = limit.min(arrivals.requested);
        if self.grant != self.backed || most != self.backed {
            return self.adjust(arrivals);
        }
        // The client has all that limit, request and buffers allow: nothing changes.
        // INVARIANT: `grant` is `backed`, so no earlier Reply has promised more.
        self.promised = self.queued().wrapping_add(self.grant);
        self.grant
    }

    /// Adjusts the grant for a Reply, and returns it.
    #[inline(never)]
    fn adjust(&mut self, arrivals: Arrivals) -> u32 {
        let grown = self.grant.saturating_add(u32::from(self.is_used(arrivals)));
        // INVARIANT: At least 1, as `backed` is; at most `backed`.
        self.grant = grown.min(self.ceiling(arrivals)).min(self.backed);
        let granted = self.grant.min(arrivals.requested).max(1);
        // INVARIANT: `granted` is at most `backed`.
        self.promised = later(self.promised, self.queued().wrapping_add(granted));
        granted
    }

    /// Returns the largest grant that limit and request allow, regardless of buffers.
    #[inline]
    fn ceiling(&self, arrivals: Arrivals) -> u32 {
        self.limit.min(arrivals.requested.max(START)).max(1)
    }

    /// Returns the number of credits that should be backed: twice the present one for a client that
    /// uses nearly all of it.
    pub fn wanted(&self, arrivals: Arrivals) -> u32 {
        let most = self.ceiling(arrivals);
        let is_near = self.grant.saturating_add(self.backed / 4) >= self.backed;
        if most <= self.backed || !is_near || !self.is_used(arrivals) {
            return self.backed;
        }
        self.backed.saturating_mul(2).min(most)
    }

    /// Returns true if buffers for more credits should be made now: once until buffers were made or
    /// until the next look.
    #[inline]
    pub fn asks_for_more(&mut self, arrivals: Arrivals) -> bool {
        // No Reply could grant more.
        let is_full = self.grant >= self.limit.min(arrivals.requested);
        let asks = !is_full && !self.has_asked && self.wanted(arrivals) > self.backed;
        self.has_asked |= asks;
        asks
    }

    /// Notes that posted buffers back `backed` credits. The number never shrinks here.
    pub fn set_backed(&mut self, backed: u32) {
        if backed > self.backed {
            self.backed = backed;
            self.has_asked = false;
        }
    }

    /// Counts an unsolicited message that costs no credit.
    ///
    /// # Errors
    ///
    /// Returns [`Unasked`] if the client has sent too many.
    pub fn on_unasked(&mut self, arrivals: Arrivals) -> Result<(), Unasked> {
        let allowed = arrivals.calls.wrapping_sub(self.slack_at);
        let slack = self.slack.saturating_add(allowed).min(SLACK);
        self.slack_at = arrivals.calls;
        self.slack = slack.saturating_sub(1);
        match slack {
            0 => Err(Unasked),
            _ => Ok(()),
        }
    }

    /// Returns true if the client has used all of its grant since the last look.
    #[inline]
    fn is_used(&self, arrivals: Arrivals) -> bool {
        let calls = arrivals.calls.wrapping_sub(self.looked);
        calls.max(self.peak).max(self.unanswered(arrivals)) >= self.grant
    }

    /// Ends a Call whose Reply, which grants `granted` credits, is about to be posted. Replies are
    /// posted in the order of [`Self::on_reply`].
    #[inline]
    pub fn on_posted(&mut self, granted: u32) {
        self.waiting = self.waiting.saturating_sub(1);
        self.ended = self.ended.wrapping_add(1);
        // INVARIANT: At most `promised`, which includes this grant.
        self.allowed = later(self.allowed, self.ended.wrapping_add(granted));
    }

    /// Ends a Call that gets no Reply. The client may give up on it and send another Call.
    #[inline]
    pub fn on_end(&mut self) {
        self.ended = self.ended.wrapping_add(1);
        self.allowed = self.allowed.wrapping_add(1);
        self.promised = self.promised.wrapping_add(1);
    }

    /// Looks at the client and begins the next interval. If the client did not use its grant, the
    /// next Replies grant less. A client with a lower grant needs fewer buffers once it knows. Returns
    /// the number of credits that should be backed.
    pub fn look(&mut self, arrivals: Arrivals) -> u32 {
        let is_used = self.is_used(arrivals);
        if !is_used {
            self.halve();
        }
        let wanted = if is_used && self.ceiling(arrivals) >= self.backed {
            self.wanted(arrivals)
        } else {
            self.shrink(arrivals)
        };
        self.has_asked = false;
        self.looked = arrivals.calls;
        self.peak = self.unanswered(arrivals);
        wanted
    }

    /// Halves the grant.
    fn halve(&mut self) {
        if self.grant > START {
            // INVARIANT: At least `START`.
            self.grant = (self.grant / 2).max(START);
        }
    }

    /// Lowers `backed` as far as grant, limit and client allow. Returns the new `backed`.
    fn shrink(&mut self, arrivals: Arrivals) -> u32 {
        // INVARIANT: At least 1, as the ceiling is.
        self.grant = self.grant.min(self.ceiling(arrivals));
        // INVARIANT: At least `grant`, and all that was promised.
        let kept = self.promised.wrapping_sub(self.ended).max(self.grant);
        self.backed = kept.max(START).min(self.backed);
        self.backed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const LIMIT: u32 = 128;

    /// A client, and the grants of Replies to it that are not posted.
    struct Client {
        credits: Credits,
        arrivals: Arrivals,
        waiting: VecDeque<u32>,
    }

    impl Client {
        fn new(limit: u32) -> Self {
            let (credits, arrivals) = Credits::new(limit);
            Self {
                credits,
                arrivals,
                waiting: VecDeque::new(),
            }
        }

        fn on_call(&mut self, requested: impl Into<Option<u32>>) -> Result<(), Overrun> {
            let allowed = self.credits.allowed();
            self.arrivals.on_call(requested, allowed)
        }

        fn on_reply(&mut self, limit: u32) -> u32 {
            let granted = self.credits.on_reply(self.arrivals, limit);
            self.waiting.push_back(granted);
            granted
        }

        /// Ends the oldest Call whose Reply waits, or one that gets no Reply.
        fn on_end(&mut self) {
            match self.waiting.pop_front() {
                Some(granted) => self.credits.on_posted(granted),
                None => self.credits.on_end(),
            }
        }

        fn asks_for_more(&mut self) -> bool {
            self.credits.asks_for_more(self.arrivals)
        }

        fn wanted(&self) -> u32 {
            self.credits.wanted(self.arrivals)
        }

        fn on_unasked(&mut self) -> Result<(), Unasked> {
            self.credits.on_unasked(self.arrivals)
        }

        fn look(&mut self) -> u32 {
            self.credits.look(self.arrivals)
        }

        fn unanswered(&self) -> u32 {
            self.credits.unanswered(self.arrivals)
        }
    }

    impl core::ops::Deref for Client {
        type Target = Credits;

        fn deref(&self) -> &Credits {
            &self.credits
        }
    }

    impl core::ops::DerefMut for Client {
        fn deref_mut(&mut self) -> &mut Credits {
            &mut self.credits
        }
    }

    /// Makes `count` Calls of a client that keeps `depth` Calls unanswered, or as many as it may.
    /// Buffers are made on request for up to `most` credits.
    fn load(credits: &mut Client, depth: u32, count: u32, most: u32) -> u32 {
        let mut granted = credits.grant();
        for _ in 0..count {
            while credits.unanswered() < depth.min(granted) {
                assert_eq!(credits.on_call(u32::MAX), Ok(()));
            }
            granted = credits.on_reply(LIMIT);
            if credits.asks_for_more() {
                let wanted = credits.wanted().min(most);
                credits.set_backed(wanted);
            }
            credits.on_end();
        }
        granted
    }

    #[test]
    fn no_buffers_are_made_before_the_first_reply() {
        let mut credits = Client::new(LIMIT);
        for _ in 0..START {
            assert_eq!(credits.on_call(LIMIT), Ok(()));
        }
        assert_eq!((credits.look(), credits.wanted()), (START, START));
        assert!(!credits.asks_for_more());
        // The peer is validated with its first Reply.
        credits.on_reply(LIMIT);
        assert!(credits.asks_for_more() && credits.wanted() > START);
    }

    #[test]
    fn malformed_messages_request_no_credits() {
        let mut credits = Client::new(LIMIT);
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
            let mut credits = Client::new(limit);
            assert_eq!(credits.on_call(requested), Ok(()));
            assert_eq!(credits.unanswered(), 1);
            let granted = credits.on_reply(limit);
            assert_eq!((granted, credits.unanswered()), (grant, 1));
            credits.on_end();
            assert_eq!(credits.unanswered(), 0);
        }
    }

    #[test]
    fn a_busy_client_gets_the_whole_limit() {
        for depth in [1, 16, 64, LIMIT, 1000] {
            let mut credits = Client::new(LIMIT);
            // As many Calls as the first grant, and one Reply for each further credit.
            assert!(load(&mut credits, depth, START - 1, LIMIT) <= START + depth);
            assert_eq!(load(&mut credits, depth, 2 * LIMIT, LIMIT), LIMIT);
            assert_eq!(load(&mut credits, depth, LIMIT, LIMIT), LIMIT);
        }
    }

    #[test]
    fn no_grant_exceeds_the_backed_credits() {
        let mut credits = Client::new(LIMIT);
        assert_eq!(load(&mut credits, LIMIT, 1000, START), START);
        assert_eq!((credits.backed(), credits.held()), (START, START));
        // After the next look buffers are requested again, and are made now.
        assert!(!credits.asks_for_more());
        assert_eq!(credits.look(), 2 * START);
        assert_eq!(load(&mut credits, LIMIT, 1000, 40), 40);
    }

    #[test]
    fn no_buffers_are_requested_beyond_the_largest_grant() {
        for (limit, requested) in [(20, LIMIT), (LIMIT, 20), (LIMIT, 3)] {
            let mut credits = Client::new(LIMIT);
            for _ in 0..1000 {
                assert_eq!(credits.on_call(requested), Ok(()));
                credits.on_reply(limit);
                credits.on_end();
                if credits.asks_for_more() {
                    let wanted = credits.wanted();
                    credits.set_backed(wanted);
                }
                assert!(credits.backed() <= limit.min(requested).max(START));
            }
        }
    }

    #[test]
    fn few_calls_leave_the_grant_as_it_is() {
        let mut credits = Client::new(LIMIT);
        for _ in 0..100 {
            assert_eq!(load(&mut credits, 1, START - 1, LIMIT), START);
            assert_eq!(credits.look(), START);
        }
    }

    #[test]
    fn unused_credits_are_reclaimed() {
        let mut credits = Client::new(LIMIT);
        load(&mut credits, LIMIT, 1000, LIMIT);
        while credits.unanswered() > 0 {
            credits.on_end();
        }
        // The grant was used before the first of these looks.
        let grants = [(); 6].map(|()| {
            credits.look();
            credits.grant()
        });
        assert_eq!(grants, [LIMIT, 64, 32, 16, START, START]);
        // The client does not know: its buffers stay until its next Replies release them.
        assert_eq!((credits.held(), credits.backed()), (LIMIT, LIMIT));
        for i in 1..=LIMIT {
            load(&mut credits, 1, 1, LIMIT);
            assert_eq!(credits.look(), (LIMIT - i).max(START));
        }
    }

    #[test]
    fn a_lower_limit_releases_the_buffers_of_a_busy_client() {
        const LOWER: u32 = 16;
        let mut credits = Client::new(LIMIT);
        let mut granted = load(&mut credits, LIMIT, 1000, LIMIT);
        assert_eq!((granted, credits.look()), (LIMIT, LIMIT));
        for _ in 0..4 * LIMIT {
            while credits.unanswered() < granted {
                assert_eq!(credits.on_call(u32::MAX), Ok(()));
            }
            granted = credits.on_reply(LOWER);
            credits.on_end();
        }
        assert_eq!(
            (granted, credits.look(), credits.backed()),
            (LOWER, LOWER, LOWER)
        );
    }

    #[test]
    fn a_lower_limit_is_not_wanted_in_place_of_what_is_backed() {
        let mut credits = Client::new(LIMIT);
        let granted = load(&mut credits, LIMIT, 1000, LIMIT);
        let backed = credits.backed();
        // The client uses all of its grant, and asks for less than that.
        while credits.unanswered() < granted {
            assert_eq!(credits.on_call(LIMIT / 2), Ok(()));
        }
        assert!(credits.wanted() == backed && backed > LIMIT / 2);
    }

    #[test]
    fn waiting_replies_keep_their_buffers() {
        let mut credits = Client::new(LIMIT);
        load(&mut credits, LIMIT, 1000, LIMIT);
        while credits.unanswered() > 0 {
            credits.on_end();
        }
        for _ in 0..6 {
            credits.look();
        }
        for _ in 0..5 {
            assert_eq!(credits.on_call(LIMIT), Ok(()));
            credits.on_reply(LIMIT);
        }
        assert_eq!(credits.held(), LIMIT);
        assert_eq!(credits.look(), LIMIT);
        credits.on_end();
        assert_eq!((credits.held(), credits.look()), (LIMIT - 1, LIMIT - 1));
    }

    #[test]
    fn unsolicited_messages_are_bounded_by_calls() {
        let mut credits = Client::new(LIMIT);
        for _ in 0..3 * SLACK {
            assert_eq!(credits.on_call(LIMIT), Ok(()));
            credits.on_end();
            assert_eq!(credits.on_unasked(), Ok(()));
        }
        // The last Call has allowed one more.
        for _ in 1..SLACK {
            assert_eq!(credits.on_unasked(), Ok(()));
        }
        assert_eq!(credits.on_unasked(), Err(Unasked));
        assert_eq!(credits.on_unasked(), Err(Unasked));
    }

    #[test]
    fn slow_calls_keep_their_credits() {
        let mut credits = Client::new(LIMIT);
        load(&mut credits, LIMIT, 1000, LIMIT);
        assert_eq!(credits.on_call(LIMIT), Ok(()));
        // Few Calls are made between two looks, but as many as allowed are unanswered.
        for _ in 0..10 {
            assert_eq!(credits.look(), LIMIT);
            assert_eq!(load(&mut credits, LIMIT, START, LIMIT), LIMIT);
            assert_eq!(credits.on_call(LIMIT), Ok(()));
        }
    }

    #[test]
    fn a_lower_limit_applies_to_the_next_reply() {
        let mut credits = Client::new(LIMIT);
        load(&mut credits, LIMIT, 1000, LIMIT);
        assert_eq!(credits.on_reply(5), 5);
        assert_eq!(credits.held(), LIMIT);
        credits.on_end();
        assert_eq!(credits.held(), LIMIT - 1);
    }

    #[test]
    fn an_overrun_of_the_first_grant_is_detected() {
        let mut credits = Client::new(LIMIT);
        for _ in 0..START {
            assert_eq!(credits.on_call(LIMIT), Ok(()));
        }
        assert_eq!(credits.on_call(LIMIT), Err(Overrun));
        assert_eq!(credits.unanswered(), START);
        // A Reply that was not posted allows no further Call.
        assert_eq!(credits.on_reply(START), START);
        assert_eq!(credits.on_call(LIMIT), Err(Overrun));
        credits.on_end();
        assert_eq!(credits.on_call(LIMIT), Ok(()));
        assert_eq!(credits.on_call(LIMIT), Err(Overrun));
    }

    #[test]
    fn a_client_may_use_a_grant_until_it_has_heard_of_a_lower_one() {
        let mut credits = Client::new(LIMIT);
        load(&mut credits, LIMIT, 1000, LIMIT);
        while credits.unanswered() > 0 {
            credits.on_reply(LIMIT);
            credits.on_end();
        }
        // The client has received none of the later Replies.
        for _ in 0..LIMIT {
            assert_eq!(credits.on_call(LIMIT), Ok(()));
        }
        for answered in 1..=LIMIT {
            credits.on_reply(3);
            credits.on_end();
            assert_eq!(credits.unanswered(), LIMIT - answered);
            assert_eq!(credits.held(), (LIMIT - answered).max(3));
        }
        for _ in 0..3 {
            assert_eq!(credits.on_call(LIMIT), Ok(()));
        }
        assert_eq!(credits.on_call(LIMIT), Err(Overrun));
    }

    #[test]
    fn a_call_without_a_reply_allows_another_one() {
        let mut credits = Client::new(START);
        for _ in 0..START {
            assert_eq!(credits.on_call(START), Ok(()));
        }
        credits.on_end();
        assert_eq!(credits.on_call(START), Ok(()));
        assert_eq!(credits.on_call(START), Err(Overrun));
    }

    #[test]
    fn a_limit_of_zero_is_one_credit() {
        let mut credits = Client::new(0);
        assert_eq!(credits.on_call(1), Ok(()));
        assert_eq!(credits.on_call(1), Err(Overrun));
        assert_eq!(credits.on_reply(0), 1);
        credits.on_end();
        assert_eq!(credits.unanswered(), 0);
    }

    #[test]
    fn the_numbers_of_calls_wrap_around() {
        let mut credits = Client::new(LIMIT);
        credits.credits = Credits {
            ended: u32::MAX - 1,
            looked: u32::MAX - 1,
            slack_at: u32::MAX - 1,
            allowed: START - 2,
            promised: START - 2,
            ..credits.credits
        };
        credits.arrivals.calls = u32::MAX - 1;
        let plain = load(&mut Client::new(LIMIT), 4, 100, LIMIT);
        assert_eq!(load(&mut credits, 4, 100, LIMIT), plain);
        assert_eq!((credits.unanswered(), credits.on_unasked()), (3, Ok(())));
        for _ in 3..credits.held() {
            assert_eq!(credits.on_call(9), Ok(()));
        }
        assert_eq!(credits.on_call(9), Err(Overrun));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Receive buffers of one connection: how many it needs, and when they are posted.
//!
//! Each credit that a client holds is backed by a posted buffer (RFC 8166, section 3.3). A buffer
//! that comes back is not posted at once: [`Supply`] collects a batch, which one call posts. So a
//! connection has one buffer less than a batch beside those for its credits, and [`RESERVE`] more.
//! Buffers for replies to callbacks exist only on connections that carry callbacks.

/// Buffers for messages that cost no credit, and for those that a handler has in its hands.
pub const RESERVE: u32 = 4;

/// The most buffers that one call posts.
pub const MAX_BATCH: u32 = 16;

/// Returns how many buffers one call posts when there are buffers for `credits` credits.
pub fn batch(credits: u32) -> u32 {
    (credits / 4).clamp(1, MAX_BATCH)
}

/// Returns how many buffers `credits` credits and `callbacks` replies to callbacks need.
pub fn needed(credits: u32, callbacks: u32) -> u32 {
    let collected = batch(credits).saturating_sub(1);
    let others = callbacks.saturating_add(collected).saturating_add(RESERVE);
    credits.saturating_add(others)
}

/// Returns the most credits that `buffers` buffers are enough for beside `callbacks` replies to
/// callbacks; 0 if there is none.
pub fn backed(buffers: u32, callbacks: u32) -> u32 {
    // Fewer than `MAX_BATCH` of them wait to be posted: at most as many steps.
    let mut credits = buffers.saturating_sub(RESERVE.saturating_add(callbacks));
    while credits > 0 && needed(credits, callbacks) > buffers {
        credits = credits.saturating_sub(1);
    }
    credits
}

/// The fate of a buffer that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It waits for others.
    Wait,
    /// It is posted now, together with those that wait.
    Post,
    /// It is not needed any more.
    Spare,
}

/// The buffers of one connection.
///
/// # Invariants
///
/// `waiting` is at most `live`. Once [`Self::settle`] has returned a number of credits, `live` is at
/// least what these and `callbacks` need, and fewer buffers wait than are in a batch of theirs, until
/// [`Self::aim`] asks for fewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supply {
    /// Credits and replies to callbacks that there should be buffers for.
    credits: u32,
    callbacks: u32,
    /// Buffers that there should be.
    target: u32,
    batch: u32,
    /// Buffers that there are: posted, waiting to be, or with a message. Not the spare ones.
    live: u32,
    /// Those that wait to be posted.
    waiting: u32,
}

impl Supply {
    /// Begins without any.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many buffers there are, those included that carry a message.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Asks for buffers for `credits` credits and `callbacks` replies to callbacks; returns how many
    /// have to be made. From now on those beyond that are spare when they come back.
    pub fn aim(&mut self, credits: u32, callbacks: u32) -> u32 {
        self.credits = credits;
        self.callbacks = callbacks;
        self.target = needed(credits, callbacks);
        // A larger batch has to wait until there are buffers for it.
        self.batch = self.batch.min(batch(credits)).max(1);
        self.target.saturating_sub(self.live)
    }

    /// A buffer was made, or a spare one is needed again: it waits to be posted.
    pub fn on_made(&mut self) {
        self.live = self.live.saturating_add(1);
        self.waiting = self.waiting.saturating_add(1);
    }

    /// As many buffers were made as could be, and are posted. Returns the credits that they are
    /// enough for, no more than were asked for.
    pub fn settle(&mut self) -> u32 {
        let credits = backed(self.live, self.callbacks).min(self.credits);
        self.aim(credits, self.callbacks);
        self.batch = batch(credits);
        credits
    }

    /// A buffer comes back.
    pub fn on_returned(&mut self) -> Next {
        if self.live > self.target {
            self.live = self.live.saturating_sub(1);
            return Next::Spare;
        }
        self.waiting = self.waiting.saturating_add(1);
        match self.waiting >= self.batch {
            true => Next::Post,
            false => Next::Wait,
        }
    }

    /// `count` of those that waited are posted.
    pub fn on_posted(&mut self, count: u32) {
        self.waiting = self.waiting.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credits::{Credits, START};

    #[test]
    fn a_quarter_of_the_credits_is_posted_at_once() {
        for (credits, count) in [
            (0, 1),
            (1, 1),
            (7, 1),
            (8, 2),
            (63, 15),
            (64, 16),
            (1024, 16),
        ] {
            assert_eq!(batch(credits), count, "{credits}");
        }
    }

    #[test]
    fn buffers_are_enough_for_the_credits_that_they_are_needed_for() {
        for callbacks in [0, 16] {
            for credits in 0..2000 {
                let buffers = needed(credits, callbacks);
                assert_eq!(backed(buffers, callbacks), credits);
                assert!(needed(credits + 1, callbacks) > buffers);
            }
        }
        assert_eq!(
            (needed(8, 0), needed(128, 0), needed(128, 16)),
            (13, 147, 163)
        );
        assert_eq!(
            (backed(0, 0), backed(5, 16), backed(u32::MAX, 16) > 0),
            (0, 0, true)
        );
    }

    #[test]
    fn buffers_are_posted_when_a_batch_has_come_back() {
        let mut supply = made(16, 0);
        let turns = [(); 8].map(|()| {
            let next = supply.on_returned();
            if next == Next::Post {
                supply.on_posted(4);
            }
            next
        });
        use Next::{Post, Wait};
        assert_eq!(turns, [Wait, Wait, Wait, Post, Wait, Wait, Wait, Post]);
    }

    #[test]
    fn what_is_not_needed_is_spare_when_it_comes_back() {
        let mut supply = made(64, 0);
        assert_eq!(supply.aim(16, 0), 0);
        assert_eq!(supply.settle(), 16);
        let surplus = needed(64, 0) - needed(16, 0);
        for _ in 0..surplus {
            assert_eq!(supply.on_returned(), Next::Spare);
        }
        assert_eq!(supply.live(), needed(16, 0));
        assert_eq!(supply.on_returned(), Next::Wait);
        // They are needed again.
        assert_eq!(supply.aim(64, 0), surplus);
    }

    #[test]
    fn buffers_that_are_too_few_back_fewer_credits() {
        let mut supply = made(8, 0);
        assert_eq!(supply.aim(128, 0), 134);
        for _ in 0..50 {
            supply.on_made();
        }
        supply.on_posted(50);
        // 48, 11 that wait for a twelfth, and the reserve.
        assert_eq!((supply.settle(), supply.live()), (48, 63));
        assert_eq!(supply.aim(128, 0), 84);
    }

    /// One that has buffers for all of that, posted.
    fn made(credits: u32, callbacks: u32) -> Supply {
        let mut supply = Supply::new();
        let count = supply.aim(credits, callbacks);
        for _ in 0..count {
            supply.on_made();
        }
        supply.on_posted(count);
        assert_eq!(supply.settle(), credits);
        supply
    }

    /// A connection: what the client knows and has sent, and where the server's buffers are.
    struct Walk {
        credits: Credits,
        supply: Supply,
        callbacks: u32,
        /// Buffers that are posted, and those that wait.
        posted: u32,
        waiting: u32,
        /// Buffers that the device may still have, of all connections.
        budget: u32,
        /// The client's grant, its Calls without a reply, and those of them that are on the wire.
        known: u32,
        open: u32,
        sent: u32,
        /// Calls with nfsd, grants of replies that wait to be posted, and of those on the wire.
        with_nfsd: u32,
        replies: Vec<u32>,
        coming: Vec<u32>,
        /// Replies to callbacks that the client may send.
        callbacks_out: u32,
        limit: u32,
        random: u32,
        most: u32,
    }

    impl Walk {
        fn new(seed: u32, limit: u32) -> Self {
            let start = START.min(limit);
            let supply = made(start, 0);
            Self {
                credits: Credits::new(limit, needed(limit, 16)),
                posted: supply.live(),
                supply,
                callbacks: 0,
                waiting: 0,
                budget: 300,
                known: 1,
                open: 0,
                sent: 0,
                with_nfsd: 0,
                replies: Vec::new(),
                coming: Vec::new(),
                callbacks_out: 0,
                limit,
                random: seed,
                most: 0,
            }
        }

        fn random(&mut self, below: u32) -> u32 {
            self.random = self
                .random
                .wrapping_mul(1_664_525)
                .wrapping_add(1_013_904_223);
            (self.random >> 8) % below
        }

        /// A message comes in, and finds a buffer.
        fn arrive(&mut self) {
            assert!(self.posted > 0, "no buffer for a message");
            self.posted -= 1;
        }

        fn give_back(&mut self) {
            match self.supply.on_returned() {
                Next::Spare => self.budget += 1,
                Next::Wait => self.waiting += 1,
                Next::Post => {
                    self.waiting += 1;
                    self.supply.on_posted(self.waiting);
                    self.posted += std::mem::take(&mut self.waiting);
                }
            }
        }

        /// Resizes the supply, as the transport does in process context.
        fn resize(&mut self, credits: u32) {
            let missing = self.supply.aim(credits, self.callbacks);
            let count = missing.min(self.budget);
            for _ in 0..count {
                self.supply.on_made();
            }
            self.budget -= count;
            self.waiting += count;
            self.supply.on_posted(self.waiting);
            self.posted += std::mem::take(&mut self.waiting);
            let backed = self.supply.settle();
            self.credits.set_backed(backed);
        }

        fn step(&mut self, mood: u32) {
            match self.random(10) {
                // A busy client uses all it has, others one credit.
                0..=2 if self.open < if mood == 0 { self.known } else { 1 } => {
                    self.open += 1;
                    self.sent += 1;
                }
                3 if self.sent > 0 => {
                    self.sent -= 1;
                    self.arrive();
                    self.credits.on_call(1024).unwrap();
                    self.with_nfsd += 1;
                }
                4..=5 if self.with_nfsd > 0 => {
                    self.with_nfsd -= 1;
                    let grant = self.credits.on_reply(self.limit);
                    if self.credits.asks_for_more() && self.random(4) > 0 {
                        let wanted = self.credits.wanted();
                        self.resize(wanted);
                    }
                    self.replies.push(grant);
                }
                6..=7 if !self.replies.is_empty() => {
                    let grant = self.replies.remove(0);
                    self.credits.on_end();
                    self.give_back();
                    self.coming.push(grant);
                }
                8 if !self.coming.is_empty() => {
                    self.known = self.coming.remove(0);
                    self.most = self.most.max(self.known);
                    self.open -= 1;
                }
                9 => match self.random(200) {
                    0 => {
                        let wanted = self.credits.look();
                        self.resize(wanted);
                    }
                    1 if self.callbacks == 0 => {
                        self.callbacks = 16;
                        self.budget += 16;
                        let backed = self.credits.backed();
                        self.resize(backed);
                    }
                    2 => self.budget = self.random(300),
                    3..=50 if self.callbacks_out < self.callbacks => self.callbacks_out += 1,
                    51..=150 if self.callbacks_out > 0 => {
                        self.callbacks_out -= 1;
                        self.arrive();
                        self.give_back();
                    }
                    _ => {}
                },
                _ => {}
            }
        }

        /// Each credit that the client has not used, and each Call on the wire, has a buffer.
        fn check(&self) {
            let unused = self.known.saturating_sub(self.open);
            let may_come = unused + self.sent + self.callbacks_out;
            assert!(self.posted >= may_come, "{} < {may_come}", self.posted);
            let held = self.credits.held();
            let unanswered = self.credits.unanswered();
            assert!(
                self.posted + unanswered >= held,
                "{} + {unanswered} < {held}",
                self.posted
            );
        }
    }

    #[test]
    fn every_credit_has_a_posted_buffer() {
        for seed in 0..40 {
            let limit = [1, 5, 8, 9, 64, 128, 200][seed as usize % 7];
            let mut walk = Walk::new(seed, limit);
            let mut mood = 0;
            for step in 0..20_000u32 {
                if step % 2_000 == 0 {
                    mood = walk.random(2);
                }
                walk.step(mood);
                walk.check();
            }
            assert!(walk.most <= limit);
        }
    }

    #[test]
    fn a_busy_client_gets_all_and_an_idle_one_gives_it_back() {
        let mut walk = Walk::new(1, 128);
        walk.budget = 1000;
        let mut calls = 0;
        while walk.known < 128 {
            walk.step(0);
            walk.budget = walk.budget.max(1000);
            walk.check();
            calls += 1;
            assert!(calls < 20_000, "{}", walk.known);
        }
        for _ in 0..200 {
            let wanted = walk.credits.look();
            walk.resize(wanted);
            for _ in 0..100 {
                walk.step(1);
                walk.check();
            }
        }
        assert_eq!(
            (walk.known, walk.supply.live()),
            (START, needed(START, walk.callbacks))
        );
    }

    #[test]
    fn without_a_budget_grants_stay_as_they_are() {
        let mut walk = Walk::new(3, 128);
        walk.budget = 0;
        for _ in 0..5_000 {
            // Neither callbacks nor a change of the budget.
            if walk.random(10) < 9 {
                let before = walk.budget;
                walk.step(0);
                walk.budget = before;
                walk.check();
            }
        }
        assert_eq!((walk.known, walk.most), (START, START));
    }
}

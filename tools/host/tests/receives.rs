// SPDX-License-Identifier: GPL-2.0

//! Credits and Receive buffers together: no message of a compliant client finds the queue empty.

use svcrdma_proto::credits::{Arrivals, Credits, START};
use svcrdma_proto::receives::{needed, Next, Supply};

/// Returns a supply whose buffers for all of that are posted.
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

/// A connection: the knowledge and the messages of the client, and the buffers of the server.
struct Walk {
    credits: Credits,
    arrivals: Arrivals,
    supply: Supply,
    callbacks: u32,
    /// Buffers that are posted.
    posted: u32,
    /// Buffers that wait to be posted.
    waiting: u32,
    /// Buffers that the device may still make for all connections.
    budget: u32,
    /// The grant that the client knows.
    known: u32,
    /// The client's Calls without a Reply.
    open: u32,
    /// Those of them that are on the wire.
    sent: u32,
    /// Calls that nfsd has.
    with_nfsd: u32,
    /// Grants of the Replies that wait to be posted.
    replies: Vec<u32>,
    /// Grants of the Replies on the wire.
    coming: Vec<u32>,
    /// Callbacks that the client may still answer.
    callbacks_out: u32,
    limit: u32,
    random: u32,
    /// The largest grant so far.
    most: u32,
}

impl Walk {
    fn new(seed: u32, limit: u32) -> Self {
        let start = START.min(limit);
        let supply = made(start, 0);
        let (credits, arrivals) = Credits::new(limit);
        Self {
            credits,
            arrivals,
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

    /// Receives a message, which needs a buffer.
    fn arrive(&mut self) {
        assert!(self.posted > 0, "no buffer for a message");
        self.posted -= 1;
    }

    fn give_back(&mut self) {
        match self.supply.on_returned() {
            Next::Spare => self.budget += 1,
            Next::Wait => {
                self.waiting += 1;
                assert!(self.waiting < self.supply.batch());
            }
            Next::Post => {
                self.waiting += 1;
                assert!(self.waiting >= self.supply.batch());
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

    /// Performs a random event. In mood 0 the client is busy.
    fn step(&mut self, mood: u32) {
        match self.random(10) {
            // A busy client uses its whole grant, others use one credit.
            0..=2 if self.open < if mood == 0 { self.known } else { 1 } => {
                self.open += 1;
                self.sent += 1;
            }
            3 if self.sent > 0 => {
                self.sent -= 1;
                self.arrive();
                let allowed = self.credits.allowed();
                assert_eq!(self.arrivals.on_call(1024, allowed), Ok(()));
                self.with_nfsd += 1;
            }
            4..=5 if self.with_nfsd > 0 => {
                self.with_nfsd -= 1;
                let grant = self.credits.on_reply(self.arrivals, self.limit);
                if self.credits.asks_for_more(self.arrivals) && self.random(4) > 0 {
                    let wanted = self.credits.wanted(self.arrivals);
                    self.resize(wanted);
                }
                self.replies.push(grant);
            }
            6..=7 if !self.replies.is_empty() => {
                let grant = self.replies.remove(0);
                self.credits.on_posted(grant);
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
                    let wanted = self.credits.look(self.arrivals);
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

    /// Checks that each unused credit of the client and each Call on the wire has a buffer, and that
    /// the first Call beyond its grants has one, too: its arrival ends the connection.
    fn check(&self) {
        let unused = self.known.saturating_sub(self.open);
        let may_come = unused + self.sent + self.callbacks_out;
        assert!(self.posted >= may_come, "{} < {may_come}", self.posted);
        let held = self.credits.held();
        let unanswered = self.credits.unanswered(self.arrivals);
        assert!(
            self.posted + unanswered > held,
            "{} + {unanswered} <= {held}",
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
fn a_busy_client_gets_the_whole_limit_and_an_idle_one_returns_it() {
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
        let wanted = walk.credits.look(walk.arrivals);
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
        // Without callbacks and changes of the budget.
        if walk.random(10) < 9 {
            let before = walk.budget;
            walk.step(0);
            walk.budget = before;
            walk.check();
        }
    }
    assert_eq!((walk.known, walk.most), (START, START));
}

// SPDX-License-Identifier: GPL-2.0

//! Receive buffers of one connection: their number, and the batches in which they are posted.
//!
//! Each credit that a client holds is backed by a posted buffer (RFC 8166, section 3.3). [`Supply`]
//! does not post a returned buffer at once: it collects a batch, which the caller posts with one
//! call. So besides the buffers for its credits a connection needs one buffer less than a batch,
//! and [`RESERVE`] more. Only connections with a bound backchannel have buffers for replies to
//! callbacks.

/// Buffers for messages that cost no credit, and for messages that are being handled.
pub const RESERVE: u32 = 4;

/// The most buffers in a batch.
pub const MAX_BATCH: u32 = 16;

/// Returns the number of buffers in a batch when `credits` credits are backed.
pub fn batch(credits: u32) -> u32 {
    (credits / 4).clamp(1, MAX_BATCH)
}

/// Returns the number of buffers that back `credits` credits and `callbacks` replies to callbacks.
pub fn needed(credits: u32, callbacks: u32) -> u32 {
    let collected = batch(credits).saturating_sub(1);
    let others = callbacks.saturating_add(collected).saturating_add(RESERVE);
    credits.saturating_add(others)
}

/// Returns the most credits that `buffers` buffers back besides `callbacks` replies to callbacks; 0
/// if there are too few buffers for one.
pub fn backed(buffers: u32, callbacks: u32) -> u32 {
    // Fewer than MAX_BATCH buffers wait to be posted, so the loop takes fewer steps.
    let mut credits = buffers.saturating_sub(RESERVE.saturating_add(callbacks));
    while credits > 0 && needed(credits, callbacks) > buffers {
        credits = credits.saturating_sub(1);
    }
    credits
}

/// The fate of a returned buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The buffer waits for the rest of its batch.
    Wait,
    /// The batch is complete: the buffer is posted now, with the buffers that wait.
    Post,
    /// The buffer is not needed any more.
    Spare,
}

/// The buffers of one connection.
///
/// # Invariants
///
/// - `waiting` is at most `live`.
/// - After [`Self::settle`] has returned a number of credits, and until [`Self::aim`] asks for
///   fewer, `live` is at least what these credits and `callbacks` need, and fewer buffers wait than
///   a batch has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supply {
    /// Credits that should be backed.
    credits: u32,
    /// Replies to callbacks that should be backed.
    callbacks: u32,
    /// Buffers that both need.
    target: u32,
    /// Buffers in a batch.
    batch: u32,
    /// Buffers that are posted, wait to be posted, or hold a message; not the spare ones.
    live: u32,
    /// Buffers that wait to be posted.
    waiting: u32,
}

impl Supply {
    /// Returns a supply without buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of buffers, including those that hold a message.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Returns the number of buffers in a batch.
    pub fn batch(&self) -> u32 {
        self.batch
    }

    /// Sets the target to the buffers for `credits` credits and `callbacks` replies to callbacks.
    /// Returns the number of buffers that have to be made. Buffers beyond the target become spare
    /// when they are returned.
    pub fn aim(&mut self, credits: u32, callbacks: u32) -> u32 {
        self.credits = credits;
        self.callbacks = callbacks;
        self.target = needed(credits, callbacks);
        // The batch may grow only when the buffers for it exist.
        self.batch = self.batch.min(batch(credits)).max(1);
        self.target.saturating_sub(self.live)
    }

    /// Adds a new or a spare buffer, which waits to be posted.
    pub fn on_made(&mut self) {
        self.live = self.live.saturating_add(1);
        self.waiting = self.waiting.saturating_add(1);
    }

    /// Accepts the buffers that were made, all of which are posted. Returns the number of credits
    /// that they back, at most the number that was asked for.
    pub fn settle(&mut self) -> u32 {
        let credits = backed(self.live, self.callbacks).min(self.credits);
        self.aim(credits, self.callbacks);
        self.batch = batch(credits);
        credits
    }

    /// Takes a returned buffer and decides on its fate.
    #[inline]
    pub fn on_returned(&mut self) -> Next {
        if self.live > self.target {
            self.live = self.live.saturating_sub(1);
            return Next::Spare;
        }
        self.waiting = self.waiting.saturating_add(1);
        if self.waiting >= self.batch {
            Next::Post
        } else {
            Next::Wait
        }
    }

    /// Notes that `count` waiting buffers were posted.
    #[inline]
    pub fn on_posted(&mut self, count: u32) {
        self.waiting = self.waiting.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_credits_is_a_batch() {
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
    fn needed_buffers_back_their_credits() {
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
    fn buffers_are_posted_when_a_batch_was_returned() {
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
    fn returned_buffers_beyond_the_target_are_spare() {
        let mut supply = made(64, 0);
        assert_eq!(supply.aim(16, 0), 0);
        assert_eq!(supply.settle(), 16);
        let surplus = needed(64, 0) - needed(16, 0);
        for _ in 0..surplus {
            assert_eq!(supply.on_returned(), Next::Spare);
        }
        assert_eq!(supply.live(), needed(16, 0));
        assert_eq!(supply.on_returned(), Next::Wait);
        // The spare buffers are needed again.
        assert_eq!(supply.aim(64, 0), surplus);
    }

    #[test]
    fn too_few_buffers_back_fewer_credits() {
        let mut supply = made(8, 0);
        assert_eq!(supply.aim(128, 0), 134);
        for _ in 0..50 {
            supply.on_made();
        }
        supply.on_posted(50);
        // 48 credits, 11 buffers of a batch of 12, and the reserve.
        assert_eq!((supply.settle(), supply.live()), (48, 63));
        assert_eq!(supply.aim(128, 0), 84);
    }

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
}

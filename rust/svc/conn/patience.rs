// SPDX-License-Identifier: GPL-2.0

//! Patience: closes a connection whose hardware has failed, or whose peer is behind for too long.
//!
//! # Context
//!
//! The watchdog of the device; functions that may sleep say so.

use super::endpoint::Endpoint;
use crate::svc::{
    close_reason::CloseReason,
    settings::{
        self,
        ReplyPages, //
    },
};
use kernel::sync::{
    atomic::Relaxed,
    Arc, //
};
use rdma::send::progress::Age;
use svcrdma_proto::pace::{
    self,
    Late, //
};

impl Endpoint {
    /// Closes the connection if its hardware has failed, or if posted work takes too long.
    /// `seconds` have passed since the last tick. May sleep.
    // Out of line: its caller's frame is large.
    #[inline(never)]
    pub(crate) fn tick(self: &Arc<Self>, seconds: u32) {
        if self.failed.load(Relaxed) {
            self.connection.close(CloseReason::QueuePair);
            return;
        }
        if self.flushed.load(Relaxed) {
            // The next look closes the connection, unless an event does before.
            self.failed.store(true, Relaxed);
        }
        if self.queues.iter().any(|queue| queue.is_broken()) {
            self.connection.close(CloseReason::CompletionQueue);
            return;
        }
        if self.dropped.load(Relaxed) {
            self.connection.close(CloseReason::Dropped);
            return;
        }
        self.callbacks.tick(seconds);
        self.resume_callbacks();
        self.trim_replies();
        self.receives.set_due();
        self.grow_later();
        let rate = settings::MINIMUM_RATE.get();
        let age = self.send_queue.lock().tick(seconds, rate);
        match age {
            Ok(age) => self.judge(&age),
            Err(e) => self.connection.close(CloseReason::Post(e.to_errno())),
        }
    }

    /// Closes the connection if the peer is behind for too long.
    fn judge(&self, age: &Age) {
        let holds_calls = self.keeps_read_pages() && !self.may_read();
        match pace::judge(age.behind, age.oldest, self.patience(), holds_calls) {
            Some(Late::Stalled) => self.connection.close(CloseReason::Stalled),
            Some(Late::TooSlow) => self.connection.close(CloseReason::TooSlow),
            None => {}
        }
    }

    /// Returns the seconds by which the peer may be behind: fewer if the connection holds pages in
    /// a shortage.
    fn patience(&self) -> u32 {
        let most = settings::STALL_SECONDS.get();
        if self.keeps_read_pages() || self.keeps_reply_pages() {
            most.min(settings::SHORTAGE_SECONDS.get())
        } else {
            most
        }
    }

    /// Returns true if the connection holds pages for Read chunks, and Calls wait for such
    /// pages.
    fn keeps_read_pages(&self) -> bool {
        let class = self.connection.class();
        self.quota.used() > 0 && self.connection.device.pool.is_short(class)
    }

    /// Returns true if the connection holds pages of Replies, and its host may hold no
    /// more.
    fn keeps_reply_pages(&self) -> bool {
        self.published.space.is_short(ReplyPages::now().device)
    }
}

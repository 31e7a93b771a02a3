// SPDX-License-Identifier: GPL-2.0

//! The sender of a connection: the credits and the number of Replies, which change with the send queue.
//!
//! The lock of the send queue protects the sender, because a Reply takes that lock in any case.
//! The numbers that threads read without the lock are in the [`Published`]. Nothing here sleeps, takes a lock or
//! frees memory.

use super::{
    published::Published,
    space::Space,
    work::Work, //
};
use crate::svc::{
    counters::{
        Counters,
        Enrolled, //
    },
    pages::reply::{
        Kind,
        Reply, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::send::chain::Chain;
use svcrdma_proto::credits::{
    Credits,
    Unasked, //
};

/// The sender of a connection.
pub(crate) struct Sender {
    credits: Credits,
    published: Arc<Published>,
    /// Replies that were queued since the last look for surplus contexts.
    replies: usize,
}

/// The credits of a connection, for debugfs.
#[derive(Default)]
pub(crate) struct CreditState {
    /// Received Calls.
    pub(crate) calls: u64,
    /// Calls whose Reply was not posted.
    pub(crate) unanswered: u32,
    /// The largest grant that the next Reply may carry.
    pub(crate) granted: u32,
    /// The largest grant that the client may still be using.
    pub(crate) held: u32,
    /// The credits that Receive buffers back.
    pub(crate) backed: u32,
}

/// The credits that a Reply grants.
#[derive(Default)]
pub(crate) struct Granted {
    /// Their number; 0 for work that is no Reply.
    pub(crate) credits: u32,
    /// True if more Receive buffers should be made now, so that later grants can grow.
    pub(crate) needs_buffers: bool,
}

impl Sender {
    /// Creates the sender of a connection that gets at most `limit` credits, and its published numbers. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        limit: u32,
        space: Space,
        counters: Arc<Counters>,
    ) -> Result<(Self, Arc<Published>)> {
        let (credits, arrivals) = Credits::new(limit);
        let tally = Enrolled::new(counters)?;
        let published = Published::new(arrivals, credits.allowed(), space, tally);
        let published = Arc::new(published, GFP_KERNEL)?;
        let sender = Self {
            credits,
            published: published.clone(),
            replies: 0,
        };
        Ok((sender, published))
    }

    /// Counts a Reply that is queued next, and gives it its grant, which is no more than posted
    /// buffers back.
    #[inline]
    pub(crate) fn grant(&mut self, reply: &mut Reply) -> Granted {
        self.published.space.take(reply.pages());
        self.replies = self.replies.wrapping_add(1);
        self.published.tally.replies.add(1);
        let arrivals = self.published.arrivals();
        let credits = self.credits.on_reply(arrivals, reply.most_credits);
        reply.set_credits(credits);
        Granted {
            credits,
            needs_buffers: reply.kind() == Kind::Reply && self.credits.asks_for_more(arrivals),
        }
    }

    /// Counts a Reply or a callback whose last work request is built.
    #[inline]
    pub(crate) fn on_built(&mut self, reply: &Reply) {
        if reply.has_credit {
            self.credits.on_posted(reply.granted);
            self.published.allowed.set(self.credits.allowed());
        }
        let tally = &self.published.tally;
        if reply.written() > 0 {
            tally.write_bytes.add(reply.written().into());
        }
        let inline = reply.bytes().saturating_sub(reply.written());
        tally.inline_sent_bytes.add(inline.into());
        tally.latency.server.count(reply.received);
        reply.note_posted();
    }

    /// Ends a Call that gets no Reply.
    pub(crate) fn on_end(&mut self) {
        self.credits.on_end();
        self.published.allowed.set(self.credits.allowed());
    }

    /// Counts the work requests of a chain that is posted next.
    #[inline]
    pub(crate) fn on_posted(&mut self, chain: &Chain<'_, '_>) {
        // CAST: At most the depth of the queue.
        self.published.tally.work_requests.add(chain.len() as u64);
        if chain.bytes_read() > 0 {
            self.published
                .tally
                .read_bytes
                .add(chain.bytes_read().into());
        }
    }

    /// Ends what needs no other lock of work that the device has completed: releases the pages of a
    /// Reply, and keeps its context if that is idle then and the connection has room for it. Returns
    /// all other work.
    #[inline]
    pub(crate) fn retire(&mut self, work: Work) -> Option<Work> {
        match work {
            Work::Read(_) => Some(work),
            Work::Reply(reply, _) => self.on_completed(reply).map(Work::from),
        }
    }

    #[inline]
    fn on_completed(&mut self, reply: KBox<Reply>) -> Option<KBox<Reply>> {
        self.published.space.put(reply.pages());
        self.published.tally.latency.sends.count(reply.posted());
        if reply.kind() != Kind::Reply || reply.holds_pages() {
            return Some(reply);
        }
        self.published.contexts.put(reply)
    }

    /// Releases `pages` pages of a Reply or a callback that was flushed.
    pub(crate) fn release(&mut self, pages: i32) {
        self.published.space.put(pages);
    }

    /// Counts a message that costs no credit and matches no waiting callback.
    ///
    /// # Errors
    ///
    /// [`Unasked`] if the client has sent too many of them.
    pub(crate) fn on_unasked(&mut self) -> Result<(), Unasked> {
        self.credits.on_unasked(self.published.arrivals())
    }

    /// Returns the number of idle contexts that exceed the Replies since the last call, and gives
    /// the pages back that no Reply holds. An idle connection so keeps neither.
    pub(crate) fn trim(&mut self) -> usize {
        self.published.space.trim();
        let replies = core::mem::replace(&mut self.replies, 0);
        self.published.contexts.count().saturating_sub(replies)
    }

    /// Returns the number of credits that should be backed.
    pub(crate) fn wanted(&mut self) -> u32 {
        self.credits.wanted(self.published.arrivals())
    }

    /// Looks at the client, see [`Credits::look`]. Returns the number of credits that should be
    /// backed.
    pub(crate) fn look(&mut self) -> u32 {
        self.credits.look(self.published.arrivals())
    }

    /// Returns the number of credits that are backed.
    pub(crate) fn backed(&mut self) -> u32 {
        self.credits.backed()
    }

    /// Notes that posted buffers back `backed` credits.
    pub(crate) fn set_backed(&mut self, backed: u32) {
        self.credits.set_backed(backed);
    }

    /// Returns the present credits.
    pub(crate) fn credit_state(&self) -> CreditState {
        CreditState {
            calls: self.published.calls(),
            unanswered: self.credits.unanswered(self.published.arrivals()),
            granted: self.credits.grant(),
            held: self.credits.held(),
            backed: self.credits.backed(),
        }
    }
}

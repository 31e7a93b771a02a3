// SPDX-License-Identifier: GPL-2.0

//! The account of a connection: its credits, the pages of its Replies, and its idle reply contexts.
//!
//! The lock of the send queue protects the account, because a Reply takes that lock in any case.
//! Nothing here sleeps, takes a lock or frees memory.

use super::space::Space;
use crate::svc::lane::reply::Reply;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use svcrdma_proto::credits::{
    Credits,
    Overrun,
    Unasked, //
};

/// The most idle reply contexts of a connection.
const MAX_CONTEXTS: usize = 24;

/// The account of a connection.
pub(crate) struct Account {
    /// The credits, and the Calls that use them.
    pub(crate) credits: Credits,
    /// Received Calls.
    calls: u64,
    /// Idle contexts for Replies.
    contexts: KVec<KBox<Reply>>,
    /// The fewest idle contexts since the last look.
    fewest: usize,
    /// The pages of the Replies.
    pub(crate) space: Arc<Space>,
}

/// The state of an account, for debugfs.
#[derive(Default)]
pub(crate) struct Balance {
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

/// The context and the grant that a Reply begins with.
pub(crate) struct Start {
    /// The context, if one is idle.
    pub(crate) context: Option<KBox<Reply>>,
    /// The credits that the Reply grants.
    pub(crate) credits: u32,
    /// True if more Receive buffers should be made now, so that later grants can grow.
    pub(crate) needs_buffers: bool,
}

impl Account {
    /// Creates the account of a connection that gets at most `limit` credits and has room for
    /// `room` unanswered Calls. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(limit: u32, room: u32, space: Arc<Space>) -> Result<Self> {
        Ok(Self {
            credits: Credits::new(limit, room),
            calls: 0,
            contexts: KVec::with_capacity(MAX_CONTEXTS, GFP_KERNEL)?,
            fewest: 0,
            space,
        })
    }

    /// Counts a Call, which asks for `requested` credits, until its Reply is built or
    /// [`Credits::on_end`] is called. `requested` is None for a message whose header could not be
    /// decoded.
    ///
    /// # Errors
    ///
    /// [`Overrun`] if the connection has no room for the Call.
    #[inline]
    pub(crate) fn on_call(&mut self, requested: Option<u32>) -> Result<(), Overrun> {
        self.calls = self.calls.wrapping_add(1);
        self.credits.on_call(requested)
    }

    /// Counts a message that costs no credit and matches no waiting callback.
    ///
    /// # Errors
    ///
    /// [`Unasked`] if the client has sent too many of them.
    pub(crate) fn on_unasked(&mut self) -> Result<(), Unasked> {
        self.credits.on_unasked()
    }

    /// Begins a Reply, which grants at most `most` credits, and no more than posted buffers back.
    #[inline]
    pub(crate) fn start(&mut self, most: u32) -> Start {
        let context = self.contexts.pop();
        self.fewest = self.fewest.min(self.contexts.len());
        Start {
            context,
            credits: self.credits.on_reply(most),
            needs_buffers: self.credits.asks_for_more(),
        }
    }

    /// Returns true if the connection has enough idle contexts.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.contexts.len() >= MAX_CONTEXTS
    }

    /// Keeps an idle context. Returns it if the account is full.
    #[inline]
    pub(crate) fn keep(&mut self, context: KBox<Reply>) -> Option<KBox<Reply>> {
        match self.is_full() {
            true => Some(context),
            false => {
                let kept = self.contexts.push_within_capacity(context);
                kept.err().map(|e| e.0)
            }
        }
    }

    /// Takes a context that was idle since the last look. The caller repeats this until it returns
    /// None, which ends the look.
    pub(crate) fn surplus(&mut self) -> Option<KBox<Reply>> {
        match self.fewest.checked_sub(1) {
            Some(fewest) => self.fewest = fewest,
            None => {
                self.fewest = self.contexts.len();
                return None;
            }
        }
        self.contexts.pop()
    }

    /// Takes any idle context.
    pub(crate) fn take_context(&mut self) -> Option<KBox<Reply>> {
        self.contexts.pop()
    }

    /// Returns the state of the account.
    pub(crate) fn balance(&self) -> Balance {
        Balance {
            calls: self.calls,
            unanswered: self.credits.unanswered(),
            granted: self.credits.grant(),
            held: self.credits.held(),
            backed: self.credits.backed(),
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Credits: the account of a connection's Calls and grants.
//!
//! # Locking
//!
//! One spinlock for each connection, a leaf. Only functions of [`Credits`] are called under it.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use svcrdma_proto::credits::{
    Credits,
    Overrun,
    Unasked, //
};

/// The data under the lock.
struct Inner {
    credits: Credits,
    /// Received Calls.
    calls: u64,
}

/// The credits of a connection.
///
/// The connection, its Receive buffers and its Calls share the account.
#[pin_data]
pub(crate) struct CreditAccount {
    #[pin]
    inner: SpinLock<Inner>,
}

/// The state of an account, for debugfs.
pub(crate) struct Balance {
    /// Received Calls.
    pub(crate) calls: u64,
    /// Calls whose Reply was not posted.
    pub(crate) unanswered: u32,
    /// The largest grant that the next Reply may carry.
    pub(crate) granted: u32,
    /// The largest grant that the client may still be using.
    pub(crate) held: u32,
}

/// The grant of a Reply.
pub(crate) struct Grant {
    /// The number of credits.
    pub(crate) credits: u32,
    /// True if more Receive buffers should be made now, so that later grants can grow.
    pub(crate) needs_buffers: bool,
}

impl CreditAccount {
    /// Creates the account of a connection that gets at most `limit` credits and has room for
    /// `room` unanswered Calls. May sleep.
    pub(crate) fn new(limit: u32, room: u32) -> Result<Arc<Self>> {
        let inner = Inner {
            credits: Credits::new(limit, room),
            calls: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_spinlock!(inner, "svcrdma credits"),
            }),
            GFP_KERNEL,
        )
    }

    /// Counts a Call, which asks for `requested` credits. Returns the guard of the credit that it
    /// uses. `requested` is None for a message whose header could not be decoded.
    ///
    /// # Errors
    ///
    /// [`Overrun`] if the connection has no room for the Call.
    pub(crate) fn on_call(self: &Arc<Self>, requested: Option<u32>) -> Result<CallCredit, Overrun> {
        let counted = {
            let mut inner = self.inner.lock();
            inner.calls = inner.calls.wrapping_add(1);
            inner.credits.on_call(requested)
        };
        counted.map(|()| CallCredit(self.clone()))
    }

    /// Counts a message that costs no credit and matches no waiting callback.
    ///
    /// # Errors
    ///
    /// [`Unasked`] if the client has sent too many of them.
    pub(crate) fn on_unasked(&self) -> Result<(), Unasked> {
        self.inner.lock().credits.on_unasked()
    }

    /// Counts a Reply and returns its grant: at most `most`, and no more than posted buffers back.
    pub(crate) fn on_reply(&self, most: u32) -> Grant {
        let mut inner = self.inner.lock();
        Grant {
            credits: inner.credits.on_reply(most),
            needs_buffers: inner.credits.asks_for_more(),
        }
    }

    /// Ends an interval of the watchdog: halves the grant of a client that did not use it. Returns
    /// the number of credits that Receive buffers should back.
    pub(crate) fn tick(&self) -> u32 {
        self.inner.lock().credits.look()
    }

    /// Returns the number of credits that Receive buffers should back.
    pub(crate) fn wanted(&self) -> u32 {
        self.inner.lock().credits.wanted()
    }

    /// Returns the number of credits that posted Receive buffers back.
    pub(crate) fn backed(&self) -> u32 {
        self.inner.lock().credits.backed()
    }

    /// Records that posted Receive buffers back `backed` credits.
    pub(crate) fn set_backed(&self, backed: u32) {
        self.inner.lock().credits.set_backed(backed);
    }

    /// Returns the state of the account.
    pub(crate) fn balance(&self) -> Balance {
        let inner = self.inner.lock();
        Balance {
            calls: inner.calls,
            unanswered: inner.credits.unanswered(),
            granted: inner.credits.grant(),
            held: inner.credits.held(),
        }
    }
}

/// A guard: one credit in use.
///
/// The Call owns the guard, and then its Reply. The send queue drops the guard just before it posts
/// the last work request of the Reply, so the client's next Call finds room. Dropping the guard
/// takes the lock of the account.
pub(crate) struct CallCredit(Arc<CreditAccount>);

impl Drop for CallCredit {
    fn drop(&mut self) {
        self.0.inner.lock().credits.on_end();
    }
}

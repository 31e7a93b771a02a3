// SPDX-License-Identifier: GPL-2.0

//! Credits: the Calls of a connection, and what they do to its grant.
//!
//! # Locking
//!
//! One spinlock for each connection, a leaf. Nothing is called under it but [`Credits`].

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

/// What the lock protects.
struct Inner {
    credits: Credits,
    /// Calls that were received.
    calls: u64,
}

/// The credits of a connection.
#[pin_data]
pub(crate) struct CreditAccount {
    #[pin]
    inner: SpinLock<Inner>,
}

/// The state of an account, for debugfs.
pub(crate) struct Balance {
    /// Calls that were received.
    pub(crate) calls: u64,
    /// Calls without a posted Reply.
    pub(crate) unanswered: u32,
    /// The most credits that the next Reply grants.
    pub(crate) granted: u32,
    /// The largest grant that the client may still be using.
    pub(crate) held: u32,
}

impl CreditAccount {
    /// Creates the account of a connection that gets at most `limit` credits and has room for `room` Calls.
    /// May sleep.
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

    /// Counts a Call, which asks for `requested` credits if its header could be decoded.
    ///
    /// # Errors
    ///
    /// [`Overrun`] if the client has sent more Calls than it may.
    pub(crate) fn on_call(self: &Arc<Self>, requested: Option<u32>) -> Result<CallCredit, Overrun> {
        let counted = {
            let mut inner = self.inner.lock();
            inner.calls = inner.calls.wrapping_add(1);
            inner.credits.on_call(requested)
        };
        counted.map(|()| CallCredit(self.clone()))
    }

    /// Counts a message that costs no credit and that nobody waits for.
    ///
    /// # Errors
    ///
    /// [`Unasked`] if there are too many of them.
    pub(crate) fn on_unasked(&self) -> Result<(), Unasked> {
        self.inner.lock().credits.on_unasked()
    }

    /// Counts a Reply. Returns the credits to grant with it, at most `most` and as many as posted buffers
    /// back, and true if more buffers are to be made.
    pub(crate) fn on_reply(&self, most: u32) -> (u32, bool) {
        let mut inner = self.inner.lock();
        let granted = inner.credits.on_reply(most);
        (granted, inner.credits.asks_for_more())
    }

    /// Looks at how the client uses its credits; the watchdog calls this. Returns the credits that posted
    /// Receive buffers are to back.
    pub(crate) fn look(&self) -> u32 {
        self.inner.lock().credits.look()
    }

    /// Returns the credits that posted Receive buffers are to back.
    pub(crate) fn wanted(&self) -> u32 {
        self.inner.lock().credits.wanted()
    }

    /// Returns the credits that posted Receive buffers back.
    pub(crate) fn backed(&self) -> u32 {
        self.inner.lock().credits.backed()
    }

    /// Notes that posted Receive buffers back `backed` credits.
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

/// A credit in use. It belongs to a Call, which is dropped when the last work request of its Reply is about
/// to be posted and before its Receive buffer is posted again, so that the client's next Call finds room.
/// Dropping it takes the account's lock.
pub(crate) struct CallCredit(Arc<CreditAccount>);

impl Drop for CallCredit {
    fn drop(&mut self) {
        self.0.inner.lock().credits.on_end();
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Callbacks: the state of the Calls that the server makes to one client (RFC 8167).
//!
//! The client grants credits for callbacks with each reply. A callback uses its credit until the
//! client answers it, even if nfsd has given the callback up. Proto's [`Unanswered`] decides.
//!
//! # Locking
//!
//! One spinlock for each connection, a leaf.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        SpinLock, //
    },
};
use sunrpc::callback::{
    Channel,
    SLOTS, //
};
use support::figure::Figure;
use svcrdma_proto::callbacks::{
    Counted,
    NoCredit,
    Unanswered, //
};

/// The callbacks to the client of a connection. The endpoint owns them.
#[pin_data]
pub(crate) struct Callbacks {
    /// Callbacks that are posted or wait to be posted.
    queued: Atomic<i32>,
    #[pin]
    /// Callbacks that the client has not answered.
    unanswered: SpinLock<Unanswered<{ SLOTS as usize }>>,
    /// True if the client has refused a callback since the last tick.
    has_refused: AtomicFlag,
    /// True if a callback was counted since the last Reply to the client was queued.
    has_called: Figure<bool>,
    /// True if sunrpc has a callback that waits for a credit.
    is_wanted: AtomicFlag,
}

impl Callbacks {
    /// Creates the state of a client that has received no callback.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queued: Atomic::new(0),
            unanswered <- new_spinlock!(Unanswered::default(), "svcrdma callbacks"),
            has_refused: AtomicFlag::new(false),
            has_called: Figure::default(),
            is_wanted: AtomicFlag::new(false),
        })
    }

    /// Counts a callback that is about to be queued, until [`Self::end`]. Returns false, and counts
    /// nothing, if [`SLOTS`] callbacks are queued.
    pub(crate) fn begin(&self) -> bool {
        let before = self.queued.fetch_add(1, Relaxed);
        if before >= SLOTS as i32 {
            self.end();
            return false;
        }
        true
    }

    /// Ends a queued callback: it was sent, or never will be.
    pub(crate) fn end(&self) {
        self.queued.add(-1, Relaxed);
    }

    /// Counts the callback `xid` as unanswered. It is considered lost after `patience` seconds.
    ///
    /// # Errors
    ///
    /// [`NoCredit`] if the client takes no more callbacks now. The callback waits until
    /// [`Self::resume`].
    pub(crate) fn count(&self, xid: u32, patience: u32) -> Result<Counted, NoCredit> {
        let mut unanswered = self.unanswered.lock();
        let counted = unanswered.on_call(xid, patience);
        // Under the lock, so that the next answer or Reply, which takes the lock, finds the flag
        // set.
        match counted {
            Ok(_) => self.has_called.set(true),
            Err(NoCredit) => self.is_wanted.store(true, Relaxed),
        }
        counted
    }

    /// Removes the callback `xid`, which could not be sent.
    pub(crate) fn on_unsent(&self, xid: u32) {
        self.unanswered.lock().on_unsent(xid);
    }

    /// Removes the callback `xid`, which the client has answered. `granted` is the number of
    /// credits in a reply, None in an RDMA_ERROR. Returns false if there is no such callback.
    pub(crate) fn on_answer(&self, xid: u32, granted: Option<u32>) -> bool {
        self.unanswered.lock().on_answer(xid, granted)
    }

    /// Notes that a Reply to the client is queued, behind the callbacks that were queued before.
    /// Returns true if the client may take another callback now.
    pub(crate) fn on_reply(&self) -> bool {
        let has_called = self.has_called.get();
        if has_called {
            self.note_reply();
        }
        has_called
    }

    /// Notes a Reply of a connection that has sent callbacks.
    #[cold]
    #[inline(never)]
    fn note_reply(&self) {
        // Before the lock is taken: the flag of a callback that is counted later stays set.
        self.has_called.set(false);
        self.unanswered.lock().on_reply();
    }

    /// Returns true if the client has refused a callback since the last tick.
    pub(crate) fn has_refused(&self) -> bool {
        self.has_refused.load(Relaxed)
    }

    /// Records that the client has refused a callback.
    pub(crate) fn set_refused(&self) {
        self.has_refused.store(true, Relaxed);
    }

    /// Returns true if sunrpc has a callback that waits for a credit. A full memory barrier.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.cmpxchg(true, true, Full).is_ok()
    }

    /// Makes sunrpc send the callback that waits for a credit, over the channel that `channel`
    /// returns.
    pub(crate) fn resume(&self, channel: impl FnOnce() -> Option<Channel>) {
        if self.is_wanted.xchg(false, Full) {
            if let Some(channel) = channel() {
                channel.resume();
            }
        }
    }

    /// Ages the unanswered callbacks by `seconds`.
    pub(crate) fn tick(&self, seconds: u32) {
        self.has_refused.store(false, Relaxed);
        self.unanswered.lock().tick(seconds);
    }
}

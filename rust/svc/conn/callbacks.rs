// SPDX-License-Identifier: GPL-2.0

//! Callbacks: the state of the Calls that the server makes to a client (RFC 8167).
//!
//! The client says in each reply how many Calls it takes at a time. Calls without an answer are remembered,
//! also when nfsd has given up on them.
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
use svcrdma_proto::callbacks::{
    Counted,
    NoCredit,
    Unanswered, //
};

/// The Calls to the client of a connection.
#[pin_data]
pub(crate) struct Callbacks {
    /// Calls that are posted or wait to be posted.
    queued: Atomic<i32>,
    #[pin]
    unanswered: SpinLock<Unanswered<{ SLOTS as usize }>>,
    /// True if the client has refused a Call since the last tick.
    has_refused: AtomicFlag,
    /// True if a Call was counted since the client's last Call got its Reply.
    has_called: AtomicFlag,
    /// True if sunrpc has a Call that waits for a credit.
    is_wanted: AtomicFlag,
}

impl Callbacks {
    /// Creates the state of a client that no Call was sent to.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queued: Atomic::new(0),
            unanswered <- new_spinlock!(Unanswered::default(), "svcrdma callbacks"),
            has_refused: AtomicFlag::new(false),
            has_called: AtomicFlag::new(false),
            is_wanted: AtomicFlag::new(false),
        })
    }

    /// Counts a Call that is about to be queued, until [`Self::end`]. Returns false if [`SLOTS`] Calls are
    /// queued already.
    pub(crate) fn begin(&self) -> bool {
        let before = self.queued.fetch_add(1, Relaxed);
        if before >= SLOTS as i32 {
            self.end();
            return false;
        }
        true
    }

    /// Counts a queued Call no more: it was sent, or never will be.
    pub(crate) fn end(&self) {
        self.queued.add(-1, Relaxed);
    }

    /// Counts the Call with this XID, whose answer is awaited for `patience` seconds.
    ///
    /// # Errors
    ///
    /// [`NoCredit`] if the client takes no more Calls now. The Call waits until [`Self::resume`].
    pub(crate) fn count(&self, xid: u32, patience: u32) -> Result<Counted, NoCredit> {
        let mut unanswered = self.unanswered.lock();
        let counted = unanswered.on_call(xid, patience);
        // Under the lock, so that whoever makes room next sees it.
        match counted {
            Ok(_) => self.has_called.store(true, Relaxed),
            Err(NoCredit) => self.is_wanted.store(true, Relaxed),
        }
        counted
    }

    /// Counts the Call with this XID no more, because it could not be sent.
    pub(crate) fn on_unsent(&self, xid: u32) {
        self.unanswered.lock().on_unsent(xid);
    }

    /// Notes the client's answer to the Call with this XID; a reply says how many credits it grants. Returns
    /// false if there is no such Call.
    pub(crate) fn on_answer(&self, xid: u32, granted: Option<u32>) -> bool {
        self.unanswered.lock().on_answer(xid, granted)
    }

    /// Notes that a Call of the client gets its Reply, behind what was queued before. Returns true if that
    /// may have made room for a Call to the client.
    pub(crate) fn on_reply(&self) -> bool {
        if !self.has_called.load(Relaxed) || !self.has_called.xchg(false, Full) {
            return false;
        }
        self.unanswered.lock().on_reply();
        true
    }

    /// Returns true if the client has refused a Call since the last tick.
    pub(crate) fn has_refused(&self) -> bool {
        self.has_refused.load(Relaxed)
    }

    /// Notes that the client has refused a Call.
    pub(crate) fn set_refused(&self) {
        self.has_refused.store(true, Relaxed);
    }

    /// Returns true if sunrpc has a Call that waits for a credit. A full memory barrier.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.cmpxchg(true, true, Full).is_ok()
    }

    /// Makes sunrpc send what waits for a credit, over the channel that `channel` returns.
    pub(crate) fn resume(&self, channel: impl FnOnce() -> Option<Channel>) {
        if self.is_wanted.xchg(false, Full) {
            if let Some(channel) = channel() {
                channel.resume();
            }
        }
    }

    /// Notes that `seconds` seconds have passed.
    pub(crate) fn tick(&self, seconds: u32) {
        self.has_refused.store(false, Relaxed);
        self.unanswered.lock().tick(seconds);
    }
}

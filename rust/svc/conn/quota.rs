// SPDX-License-Identifier: GPL-2.0

//! Quota: the pages of a connection's Calls that nfsd has not taken, and the Calls that wait for
//! the quota.
//!
//! Pages count until nfsd takes the Call, so a peer whose Calls nfsd leaves in the inbox gets no
//! more pages. The most pages of a connection are its share of the budget of its class (proto's
//! `shares`). Shares shrink as a budget fills, because peers that hang keep theirs until they are
//! closed.
//!
//! # Locking
//!
//! The number of pages is atomic, and a spinlock protects the waiting Calls. A Call takes the lock
//! only if Calls wait, or if it has to wait itself. A thread that releases pages either sees that a
//! Call waits, or the thread that makes the Call wait sees the released pages, because both use full
//! barriers.

use super::call::Call;
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
use support::ring::Ring;
use svcrdma_proto::shortage::Holder;

/// The quota of a connection. The endpoint owns it.
#[pin_data]
pub(crate) struct Quota {
    /// Pages of Calls that are read and of Calls that nfsd has not taken.
    used: Atomic<i32>,
    /// True while Calls wait. Changed under the lock.
    has_waiting: AtomicFlag,
    #[pin]
    line: SpinLock<Line>,
}

/// The Calls that wait for the quota.
struct Line {
    calls: Ring<Call>,
    /// True while a thread starts the waiting Calls. Starting a Call may end it, which must not
    /// start the next one recursively.
    starting: bool,
}

/// The judgement on the progress of a connection's RDMA Reads, when pages are short. The endpoint
/// keeps it under a spinlock.
#[derive(Default)]
pub(crate) struct Progress {
    /// The progress in the last looks.
    pub(crate) holder: Holder,
    /// Pages under RDMA Read at the last look, for each line.
    pub(crate) unserved: [u32; 2],
    /// Successive looks at which the peer served its Reads too slowly.
    pub(crate) unserved_looks: u32,
}

/// The result of charging the pages of a Call.
pub(crate) enum Charged {
    /// The Call may be read now.
    Ready(Call),
    /// The Call waits. The caller must start the waiting Calls, with [`Quota::next`].
    Start,
    /// The Call waits, and another thread starts the waiting Calls.
    Waits,
    /// Too many Calls wait.
    Full(Call),
}

impl Quota {
    /// Creates the quota of a connection with at most `calls` Calls at a time. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(calls: usize) -> Result<impl PinInit<Self>> {
        let line = Line {
            calls: Ring::with_capacity(calls)?,
            starting: false,
        };
        Ok(pin_init!(Self {
            used: Atomic::new(0),
            has_waiting: AtomicFlag::new(false),
            line <- new_spinlock!(line, "svcrdma quota"),
        }))
    }

    /// Charges `pages` for `call`, or makes the Call wait until others of the connection have ended.
    /// `share` returns the most pages of the connection; it is called only if the connection has
    /// pages.
    #[inline]
    pub(crate) fn take(&self, call: Call, pages: usize, share: impl Fn() -> usize) -> Charged {
        // Not before the Calls that wait already.
        if !self.has_waiting.load(Relaxed) && self.charge(pages, share) {
            Charged::Ready(call)
        } else {
            self.wait(call)
        }
    }

    /// Makes `call` wait.
    #[cold]
    #[inline(never)]
    fn wait(&self, call: Call) -> Charged {
        let mut line = self.line.lock();
        if let Err(call) = line.calls.push(call) {
            return Charged::Full(call);
        }
        // A full barrier: a thread that released pages before is seen by the next charge.
        self.has_waiting.xchg(true, Full);
        if core::mem::replace(&mut line.starting, true) {
            Charged::Waits
        } else {
            Charged::Start
        }
    }

    /// Releases `pages`. Returns true if the caller must start the waiting Calls, with
    /// [`Self::next`].
    #[inline]
    pub(crate) fn put(&self, pages: usize) -> bool {
        // A full barrier: a Call that waits is seen below.
        self.used.fetch_sub(count(pages), Full);
        self.has_waiting.load(Relaxed) && self.start()
    }

    /// Returns true if no thread starts the waiting Calls; then the caller must.
    #[cold]
    #[inline(never)]
    fn start(&self) -> bool {
        !core::mem::replace(&mut self.line.lock().starting, true)
    }

    /// Returns the next waiting Call that may be read, and charges its pages. After None the caller
    /// stops, and the thread that releases pages next starts the Calls.
    pub(crate) fn next(&self, share: impl Fn() -> usize) -> Option<Call> {
        let mut line = self.line.lock();
        let pages = line.calls.front_mut().map(|call| call.sink_pages());
        let has_room = pages.is_some_and(|pages| self.charge(pages, share));
        let call = has_room.then(|| line.calls.pop()).flatten();
        line.starting = call.is_some();
        self.has_waiting.store(!line.calls.is_empty(), Relaxed);
        call
    }

    /// Returns the number of charged pages.
    pub(crate) fn used(&self) -> usize {
        usize::try_from(self.used.load(Relaxed)).unwrap_or(0)
    }

    /// Takes a waiting Call that will never be read.
    pub(crate) fn give_up(&self) -> Option<Call> {
        self.line.lock().calls.pop()
    }

    /// Charges `pages`. Returns false, and charges nothing, if the connection has no room for them.
    /// A connection without pages may have any number, so that it always makes progress.
    #[inline]
    fn charge(&self, pages: usize, share: impl Fn() -> usize) -> bool {
        let pages = count(pages);
        let mut used = self.used.load(Relaxed);
        loop {
            let wanted = used.saturating_add(pages);
            // Never more than the share, not even for a moment: others add up the pages.
            if used > 0 && wanted > i32::try_from(share()).unwrap_or(i32::MAX) {
                return false;
            }
            match self.used.cmpxchg(used, wanted, Full) {
                Ok(_) => return true,
                Err(now) => used = now,
            }
        }
    }
}

/// Converts a number of pages, which are at most those of all unanswered Calls.
#[inline]
fn count(pages: usize) -> i32 {
    i32::try_from(pages).unwrap_or(i32::MAX)
}

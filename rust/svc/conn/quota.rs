// SPDX-License-Identifier: GPL-2.0

//! Quota: the pages of a connection's Calls that nfsd has not taken, and the Calls that wait for
//! pages.
//!
//! Pages count until nfsd takes the Call, so a peer whose Calls nfsd leaves in the inbox gets no
//! more pages. The most pages of a connection are its share of the budget of its class (proto's
//! `shares`). Shares shrink as a budget fills, because peers that hang keep theirs until they are
//! closed.
//!
//! A Call waits here until the connection has room in its share and the pool has pages. If the first
//! one only waits for pages of the pool, the connection waits in a line of the pool.
//!
//! # Locking
//!
//! The number of pages is atomic, and a spinlock protects the waiting Calls. A Call takes the lock
//! only if Calls wait, or if it has to wait itself. A thread that releases pages either sees that a
//! Call waits, or the thread that makes the Call wait sees the released pages, because both use full
//! barriers.
//!
//! One thread at a time admits the waiting Calls: that for which [`Quota::wait`] or [`Quota::put`]
//! has returned true. Starting a Call may end it, which must not start the next one recursively. While
//! the connection waits in the pool, the thread that will serve it there is meant. A thread that
//! releases pages meanwhile leaves, and its pages are seen by the next [`Quota::next`].

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
use svcrdma_proto::shortage::{
    Holder,
    Wait, //
};

/// The quota of a connection. The endpoint owns it.
#[pin_data]
pub(crate) struct Quota {
    /// Pages of Calls that are read and of Calls that nfsd has not taken, and those that the
    /// connection waits for in the pool.
    used: Atomic<i32>,
    /// True while Calls wait. Changed under the lock.
    has_waiting: AtomicFlag,
    #[pin]
    line: SpinLock<Line>,
}

/// The Calls that wait.
struct Line {
    calls: Ring<Call>,
    /// True while a thread admits the waiting Calls, or the connection waits in the pool.
    is_busy: bool,
    /// The Calls that have got pages; wraps around.
    turn: u32,
}

/// The first Call of a connection that waits in the pool.
pub(crate) struct First {
    /// The Calls before it that have waited; wraps around.
    pub(crate) turn: u32,
    /// The pages that it needs, or 0 if the connection has others.
    pub(crate) wanted: usize,
}

/// The judgement on the progress of a connection's RDMA Reads, when pages are short. The endpoint
/// keeps it under a spinlock.
#[derive(Default)]
pub(crate) struct Progress {
    /// The progress in the last looks.
    pub(crate) holder: Holder,
    /// Pages under RDMA Read at the last look, for each line.
    pub(crate) under_read: [u32; 2],
    /// True if the peer has served its Reads too slowly for too long.
    pub(crate) is_unserved: bool,
    /// The wait of the first waiting Call.
    pub(crate) wait: Wait,
    /// Successive looks at which that Call waited.
    pub(crate) waited_looks: u32,
    /// The pages that it needs, or 0 if the connection has others.
    pub(crate) wanted: u32,
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
            is_busy: false,
            turn: 0,
        };
        Ok(pin_init!(Self {
            used: Atomic::new(0),
            has_waiting: AtomicFlag::new(false),
            line <- new_spinlock!(line, "svcrdma quota"),
        }))
    }

    /// Charges `pages` for a Call. Returns false if the Call must wait, behind Calls that wait already
    /// or for others of the connection. `share` returns the most pages of the connection; it is
    /// called only if the connection has pages.
    pub(crate) fn take(&self, pages: usize, share: impl Fn() -> usize) -> bool {
        !self.has_waiting.load(Relaxed) && self.charge(pages, share)
    }

    /// Releases the `pages` of a Call that has found none in the pool and will wait.
    #[cold]
    pub(crate) fn untake(&self, pages: usize) {
        self.used.fetch_sub(count(pages), Full);
    }

    /// Makes `call` wait. Returns true if the caller must admit the waiting Calls, with
    /// [`Self::next`].
    ///
    /// # Errors
    ///
    /// Returns the Call if too many wait.
    pub(crate) fn wait(&self, call: Call) -> Result<bool, Call> {
        let mut line = self.line.lock();
        line.calls.push(call)?;
        // A full barrier: a thread that released pages before is seen by the next charge.
        self.has_waiting.xchg(true, Full);
        Ok(!core::mem::replace(&mut line.is_busy, true))
    }

    /// Releases `pages`. Returns true if the caller must admit the waiting Calls, with
    /// [`Self::next`].
    pub(crate) fn put(&self, pages: usize) -> bool {
        // A full barrier: a Call that waits is seen below.
        self.used.fetch_sub(count(pages), Full);
        self.has_waiting.load(Relaxed) && self.start()
    }

    /// Returns true if no thread admits the waiting Calls; then the caller must.
    #[cold]
    #[inline(never)]
    fn start(&self) -> bool {
        !core::mem::replace(&mut self.line.lock().is_busy, true)
    }

    /// Charges the pages of the first waiting Call and returns their number. After None the caller
    /// stops, and the thread that releases pages next admits the Calls.
    pub(crate) fn next(&self, share: impl Fn() -> usize) -> Option<usize> {
        let mut line = self.line.lock();
        let pages = line.calls.front_mut().map(|call| call.sink_pages());
        let pages = pages.filter(|pages| self.charge(*pages, share));
        line.is_busy = pages.is_some();
        pages
    }

    /// Takes the first waiting Call: it has got pages, or it will never be read.
    pub(crate) fn pop(&self) -> Option<Call> {
        let mut line = self.line.lock();
        let call = line.calls.pop();
        line.turn = line.turn.wrapping_add(1);
        self.has_waiting.store(!line.calls.is_empty(), Relaxed);
        call
    }

    /// Returns the first waiting Call, if the connection waits in the pool.
    pub(crate) fn first(&self) -> Option<First> {
        let mut line = self.line.lock();
        if !line.is_busy {
            return None;
        }
        let pages = line.calls.front_mut()?.sink_pages();
        Some(First {
            turn: line.turn,
            wanted: if self.used() <= pages { pages } else { 0 },
        })
    }

    /// Returns the number of charged pages.
    pub(crate) fn used(&self) -> usize {
        usize::try_from(self.used.load(Relaxed)).unwrap_or(0)
    }

    /// Charges `pages`. Returns false, and charges nothing, if the connection has no room for them.
    /// A connection without pages may have any number, so that it always makes progress.
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
fn count(pages: usize) -> i32 {
    i32::try_from(pages).unwrap_or(i32::MAX)
}

// SPDX-License-Identifier: GPL-2.0

//! Quota: the pages of a connection's Calls that nfsd has not taken, and the Calls that wait for
//! the quota.
//!
//! Pages count until nfsd takes the Call, so a peer whose Calls nfsd leaves in the inbox gets no
//! more pages. The most pages of a connection are its share of the budget of its standing (proto's
//! `shares`). Shares shrink as a budget fills, because peers that hang keep theirs until they are
//! closed.

use super::call::Call;
use kernel::prelude::*;
use support::ring::Ring;
use svcrdma_proto::shortage::Holder;

/// The quota of a connection. The endpoint owns it and keeps it under a spinlock.
pub(crate) struct Quota {
    /// Pages of Calls that are read and of Calls that nfsd has not taken.
    used: usize,
    /// The Calls that wait for the quota.
    waiting: Ring<Call>,
    /// True while a thread starts the waiting Calls. Starting a Call may end it, which must not
    /// start the next one recursively.
    starting: bool,
    /// The progress of the connection's Reads in the last looks for a shortage.
    pub(crate) holder: Holder,
    /// Pages under RDMA Read at the last look, for each line.
    pub(crate) unserved: [u32; 2],
    /// Successive looks at which the peer served its Reads too slowly.
    pub(crate) unserved_looks: u32,
}

impl Quota {
    /// Creates the quota of a connection with at most `calls` Calls at a time. May sleep.
    pub(crate) fn new(calls: usize) -> Result<Self> {
        Ok(Self {
            used: 0,
            waiting: Ring::with_capacity(calls)?,
            starting: false,
            holder: Holder::default(),
            unserved: [0; 2],
            unserved_looks: 0,
        })
    }

    /// Charges `pages` for `call`. Returns the Call if it may be read now, or None if it waits
    /// until others of the connection have ended. `share` returns the most pages of the connection;
    /// it is called only if the connection has pages.
    ///
    /// # Errors
    ///
    /// Returns the Call if too many wait.
    pub(crate) fn take(
        &mut self,
        call: Call,
        pages: usize,
        share: impl FnOnce() -> usize,
    ) -> Result<Option<Call>, Call> {
        // Not before the Calls that wait already.
        if !self.waiting.is_empty() || !self.has_room(pages, share) {
            return self.waiting.push(call).map(|()| None);
        }
        self.used = self.used.saturating_add(pages);
        Ok(Some(call))
    }

    /// Releases `pages`. Returns true if the caller must start the waiting Calls, with
    /// [`Self::next`].
    pub(crate) fn put(&mut self, pages: usize) -> bool {
        self.used = self.used.saturating_sub(pages);
        !core::mem::replace(&mut self.starting, true)
    }

    /// Returns the next waiting Call that may be read, and charges its pages. After None the caller
    /// stops, and the thread that releases pages next starts the Calls.
    pub(crate) fn next(&mut self, share: impl FnOnce() -> usize) -> Option<Call> {
        let call = self.next_with_room(share);
        self.starting = call.is_some();
        call
    }

    /// Takes the first waiting Call, if the quota has room for it.
    fn next_with_room(&mut self, share: impl FnOnce() -> usize) -> Option<Call> {
        let pages = self.waiting.front_mut()?.sink_pages();
        if !self.has_room(pages, share) {
            return None;
        }
        self.used = self.used.saturating_add(pages);
        self.waiting.pop()
    }

    /// Returns the number of charged pages.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Takes a waiting Call that will never be read.
    pub(crate) fn give_up(&mut self) -> Option<Call> {
        self.waiting.pop()
    }

    /// Returns true if `pages` more pages may be charged. A connection without pages may have any
    /// number, so that it always makes progress.
    fn has_room(&self, pages: usize, share: impl FnOnce() -> usize) -> bool {
        self.used == 0 || self.used.saturating_add(pages) <= share()
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Quota: how many pages a connection may have for Calls that are read, and the Calls that wait for
//! theirs. Pages count until nfsd takes the Call: it may be busy, or may not go on with this
//! connection, and what it has not taken yet is the peer's share.
//!
//! How many a connection may have is its share of the budget that its standing has (proto's
//! `shares`): clients that hang keep theirs until they are closed, and must leave some to the others.

use super::call::Call;
use kernel::prelude::*;
use support::ring::Ring;
use svcrdma_proto::shortage::Holder;

/// The quota of a connection; an endpoint has it under a lock.
pub(crate) struct Quota {
    /// Pages under RDMA Read, and those of Calls that nfsd has not taken.
    used: usize,
    /// Calls that wait for others to be read.
    waiting: Ring<Call>,
    /// Whether somebody starts these: starting one may end it, and must not start the next.
    starting: bool,
    /// What the looks for a shortage have found of it.
    pub(crate) holder: Holder,
    /// What it keeps from others now, of each line.
    pub(crate) unserved: [u32; 2],
    /// For how many successive looks that was so.
    pub(crate) unserved_looks: u32,
}

impl Quota {
    /// Makes it for a connection that has up to `calls` Calls. May sleep.
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

    /// Takes `pages` for `call`; `share` says how many the connection may have, which is asked only if it
    /// has some. Gives the Call back if it may go on, keeps it until others
    /// have ended if these are too many, and refuses it if too many wait.
    pub(crate) fn take(
        &mut self,
        call: Call,
        pages: usize,
        share: impl FnOnce() -> usize,
    ) -> Result<Option<Call>, Call> {
        // Not before those that wait already.
        if !self.waiting.is_empty() || !self.has_room(pages, share) {
            return self.waiting.push(call).map(|()| None);
        }
        self.used = self.used.saturating_add(pages);
        Ok(Some(call))
    }

    /// Gives `pages` back; whether the caller is to start what waits, with [`Self::next`].
    pub(crate) fn put(&mut self, pages: usize) -> bool {
        self.used = self.used.saturating_sub(pages);
        !core::mem::replace(&mut self.starting, true)
    }

    /// The next Call that may go on. With the last one the caller ceases to start them, and who
    /// comes later starts them himself.
    pub(crate) fn next(&mut self, share: impl FnOnce() -> usize) -> Option<Call> {
        let call = self.next_with_room(share);
        self.starting = call.is_some();
        call
    }

    fn next_with_room(&mut self, share: impl FnOnce() -> usize) -> Option<Call> {
        let pages = self.waiting.front_mut()?.sink_pages();
        if !self.has_room(pages, share) {
            return None;
        }
        self.used = self.used.saturating_add(pages);
        self.waiting.pop()
    }

    /// Pages that count.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Takes out a Call that will not go on.
    pub(crate) fn give_up(&mut self) -> Option<Call> {
        self.waiting.pop()
    }

    /// A connection without pages may always have some, so that each goes on.
    fn has_room(&self, pages: usize, share: impl FnOnce() -> usize) -> bool {
        self.used == 0 || self.used.saturating_add(pages) <= share()
    }
}

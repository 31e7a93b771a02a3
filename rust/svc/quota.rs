// SPDX-License-Identifier: GPL-2.0

//! Quota: how many pages a connection may have for Calls that are read, and the Calls that wait for
//! theirs. Pages count until nfsd takes the Call: it may be busy, or may not go on with this
//! connection, and what it has not taken yet is the peer's share.
//!
//! The more of the device's pages are lent, the fewer a connection may have: clients that hang keep
//! theirs until their Reads fail, and must leave some to the others.

use super::{
    call::Call,
    stats, //
};
use crate::abstractions::ring::Ring;
use kernel::prelude::*;

/// The quota of a connection; an endpoint has it under a lock.
pub(super) struct Quota {
    /// Pages under RDMA Read, and those of Calls that nfsd has not taken.
    used: usize,
    /// Calls that wait for others to be read.
    waiting: Ring<Call>,
    /// Whether somebody starts these: starting one may end it, and must not start the next.
    starting: bool,
}

impl Quota {
    /// Makes it for a connection that has up to `calls` Calls. May sleep.
    pub(super) fn new(calls: usize) -> Result<Self> {
        Ok(Self {
            used: 0,
            waiting: Ring::with_capacity(calls)?,
            starting: false,
        })
    }

    /// Takes `pages` for `call`; `left` counts those of the device that are not lent, which only a
    /// connection that has some needs. Gives the Call back if it may go on, keeps it until others
    /// have ended if these are too many, and refuses it if too many wait.
    pub(super) fn take(
        &mut self,
        call: Call,
        pages: usize,
        left: impl FnOnce() -> usize,
    ) -> Result<Option<Call>, Call> {
        // Not before those that wait already.
        if !self.waiting.is_empty() || !self.has_room(pages, left) {
            return self.waiting.push(call).map(|()| None);
        }
        self.used = self.used.saturating_add(pages);
        Ok(Some(call))
    }

    /// Gives `pages` back; whether the caller is to start what waits, with [`Self::next`].
    pub(super) fn put(&mut self, pages: usize) -> bool {
        self.used = self.used.saturating_sub(pages);
        !core::mem::replace(&mut self.starting, true)
    }

    /// The next Call that may go on. With the last one the caller ceases to start them, and who
    /// comes later starts them himself.
    pub(super) fn next(&mut self, left: impl FnOnce() -> usize) -> Option<Call> {
        let call = self.next_with_room(left);
        self.starting = call.is_some();
        call
    }

    fn next_with_room(&mut self, left: impl FnOnce() -> usize) -> Option<Call> {
        let pages = self.waiting.front_mut()?.sink_pages();
        if !self.has_room(pages, left) {
            return None;
        }
        self.used = self.used.saturating_add(pages);
        self.waiting.pop()
    }

    /// Pages that count.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Takes out a Call that will not go on.
    pub(super) fn give_up(&mut self) -> Option<Call> {
        self.waiting.pop()
    }

    /// A connection without pages may always have some, so that each goes on.
    fn has_room(&self, pages: usize, left: impl FnOnce() -> usize) -> bool {
        if self.used == 0 {
            return true;
        }
        let limit = stats::READ_PAGES_CONNECTION.get() as usize;
        let most = share(limit, stats::READ_PAGES.get() as usize, left());
        self.used.saturating_add(pages) <= most
    }
}

/// The pages that a connection may have when `left` of the `device`'s are not lent: `limit` as long
/// as it is alone, and of `n` that take all they may, each leaves the next one the same part of what
/// it found.
fn share(limit: usize, device: usize, left: usize) -> usize {
    let others = device.saturating_sub(limit);
    let most = limit.saturating_mul(left).checked_div(others);
    most.map_or(limit, |most| most.min(limit))
}

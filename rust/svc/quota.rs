// SPDX-License-Identifier: GPL-2.0

//! Quota: how many pages a connection may have under RDMA Read, and the Calls that wait for theirs.

use super::{
    call::Call,
    stats, //
};
use crate::abstractions::ring::Ring;
use kernel::prelude::*;

/// The quota of a connection; an endpoint has it under a lock.
pub(super) struct Quota {
    /// Pages under RDMA Read.
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

    /// Takes `pages` for `call`. Gives the Call back if it may go on, keeps it until others have
    /// ended if these are too many, and refuses it if too many wait.
    pub(super) fn take(&mut self, call: Call, pages: usize) -> Result<Option<Call>, Call> {
        // Not before those that wait already.
        if !self.waiting.is_empty() || !self.has_room(pages) {
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
    pub(super) fn next(&mut self) -> Option<Call> {
        let call = self.next_with_room();
        self.starting = call.is_some();
        call
    }

    fn next_with_room(&mut self) -> Option<Call> {
        let pages = self.waiting.front_mut()?.sink_pages();
        if !self.has_room(pages) {
            return None;
        }
        self.used = self.used.saturating_add(pages);
        self.waiting.pop()
    }

    /// Pages under RDMA Read.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Takes out a Call that will not go on.
    pub(super) fn give_up(&mut self) -> Option<Call> {
        self.waiting.pop()
    }

    fn has_room(&self, pages: usize) -> bool {
        let limit = stats::READ_PAGES_CONNECTION.get() as usize;
        self.used == 0 || self.used.saturating_add(pages) <= limit
    }
}

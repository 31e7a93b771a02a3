// SPDX-License-Identifier: GPL-2.0

//! Stock: what is in the pools of a device, and who waits for it.
//!
//! Nothing here allocates, frees or sleeps, as it is done under the pools' spinlock: what there is
//! no room for is given back to the caller.

use super::{
    call::Call,
    pool::{
        KEEP,
        SMALL, //
    },
    reply::Reply, //
};
use crate::abstractions::{
    page::FreshPage,
    rdma::{
        device::Pd,
        registration::{
            Kind,
            Registration, //
        },
        transfer::Transfer, //
    },
    ring::Ring,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What the lock of the pools protects.
pub(super) struct Stock {
    pub(super) pages: KVVec<FreshPage>,
    /// Pages that exist for this pool, lent ones included.
    pub(super) total: usize,
    /// The least number of pages that were here since the last tick.
    pub(super) spare: usize,
    pub(super) small: KVec<KBox<Transfer>>,
    pub(super) large: KVec<KBox<Transfer>>,
    pub(super) replies: KVec<KBox<Reply>>,
    pub(super) waiting: Ring<Call>,
    /// Pages that these are going to have.
    pub(super) wanted: usize,
    /// Whether the last refill has found no memory.
    pub(super) no_memory: bool,
    /// Whether the log says so.
    pub(super) told: bool,
    /// Whether somebody serves these: serving one may give pages back, and must not serve the next.
    pub(super) serving: bool,
    /// Where send buffers are made; gone when the device is.
    pub(super) pd: Option<Arc<Pd>>,
    /// How memory is registered for a device that reads into such only.
    pub(super) registers: Option<Kind>,
    pub(super) small_registrations: KVec<KBox<Registration>>,
    pub(super) large_registrations: KVec<KBox<Registration>>,
}

/// What is in the pools.
pub(super) struct Count {
    /// Pages that exist for Read chunks.
    pub(super) pages: usize,
    /// Those of them that nobody uses.
    pub(super) pages_free: usize,
    /// Calls that wait for pages.
    pub(super) waiting: usize,
    /// Send contexts that nobody uses.
    pub(super) replies: usize,
}

impl Stock {
    /// How much there is.
    pub(super) fn count(&self) -> Count {
        Count {
            pages: self.total,
            pages_free: self.pages.len(),
            waiting: self.waiting.len(),
            replies: self.replies.len(),
        }
    }

    /// Pages that Calls have, or are going to have as soon as there are some: who asks how many are
    /// left must not find more because the refill is slow.
    pub(super) fn lent(&self) -> usize {
        let lent = self.total.saturating_sub(self.pages.len());
        lent.saturating_add(self.wanted)
    }

    /// Has `call` wait for pages; gives it back when too many do.
    pub(super) fn wait(&mut self, call: Call) -> Result<(), Call> {
        let pages = call.sink_pages();
        self.waiting.push(call)?;
        self.wanted = self.wanted.saturating_add(pages);
        Ok(())
    }

    /// Takes the Call that waits longest.
    pub(super) fn next_waiting(&mut self) -> Option<Call> {
        let call = self.waiting.pop()?;
        self.wanted = self.wanted.saturating_sub(call.sink_pages());
        Some(call)
    }

    pub(super) fn transfers(&mut self, pages: usize) -> &mut KVec<KBox<Transfer>> {
        match pages <= SMALL {
            true => &mut self.small,
            false => &mut self.large,
        }
    }

    pub(super) fn registrations(&mut self, pages: usize) -> &mut KVec<KBox<Registration>> {
        match pages <= SMALL {
            true => &mut self.small_registrations,
            false => &mut self.large_registrations,
        }
    }

    /// Whether all that a sink of `pages` pages needs is here, but for the pages.
    pub(super) fn has_transfer(&mut self, pages: usize) -> bool {
        !self.transfers(pages).is_empty()
            && (self.registers.is_none() || !self.registrations(pages).is_empty())
    }

    /// A transfer with `pages` pages in it, if there is all that it needs.
    pub(super) fn take_sink(&mut self, pages: usize) -> Option<KBox<Transfer>> {
        let left = self.pages.len().checked_sub(pages)?;
        if !self.has_transfer(pages) {
            return None;
        }
        let mut sink = self.transfers(pages).pop()?;
        if self.registers.is_some() {
            sink.set_registration(self.registrations(pages).pop()?);
        }
        for _ in 0..pages {
            if let Some(page) = self.pages.pop() {
                // `sink` has room for as many.
                let _ = sink.stream_mut().push(page);
            }
        }
        self.spare = self.spare.min(left);
        Some(sink)
    }

    pub(super) fn take_served(&mut self) -> Option<(Call, Option<KBox<Transfer>>)> {
        let call = self.waiting.front_mut()?;
        let sink = match call.is_worthwhile() {
            true => {
                let pages = call.sink_pages();
                Some(self.take_sink(pages)?)
            }
            false => None,
        };
        self.next_waiting().map(|call| (call, sink))
    }

    /// Keeps a registration for the next user, or gives it back when there are enough.
    pub(super) fn keep_registration(
        &mut self,
        registration: KBox<Registration>,
    ) -> Option<KBox<Registration>> {
        if self.pd.is_none() {
            return Some(registration);
        }
        let kept = self.registrations(registration.capacity());
        kept.push_within_capacity(registration).err().map(|e| e.0)
    }

    /// Keeps an empty transfer for the next user, or gives it back when there are enough.
    pub(super) fn keep(&mut self, transfer: KBox<Transfer>) -> Option<KBox<Transfer>> {
        let kept = self.transfers(transfer.capacity());
        match kept.len() < KEEP {
            true => kept.push_within_capacity(transfer).err().map(|e| e.0),
            false => Some(transfer),
        }
    }
}

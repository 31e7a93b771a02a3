// SPDX-License-Identifier: GPL-2.0

//! Lines: the parked Calls of peers of one class, and the number of pages that such Calls hold.
//!
//! The stock of a pool has a line for each [`PeerClass`], under its lock. Each line has a budget of
//! its own, so unvalidated peers take neither pages nor places from validated ones. A Call belongs
//! to the line of the class that its peer has when the Call asks for pages. The [`ReadBuffer`] keeps
//! that class until the pages come back, even if the peer is validated meanwhile.

use super::{
    read_buffer::ReadBuffer,
    sizes::LARGE,
    waiter::Waiter, //
};
use crate::svc::settings::{
    self,
    ReadPages, //
};
use kernel::prelude::*;
use rdma::mem::page_region::PageRegion;
use support::ring::WaitQueue;
use svcrdma_proto::{
    shares::{
        Budget,
        PeerClass, //
    },
    shortage, //
};

/// The most Calls in a line: more than the credits of any one connection.
const MAX_PARKED: usize = 4 * settings::MAX_CREDITS as usize;

/// Returns the budget of the line of `class`.
fn budget(class: PeerClass, limits: ReadPages) -> Budget {
    Budget::new(class, limits.device, limits.connection, LARGE)
}

/// A parked Call.
pub(crate) struct Parked<W> {
    call: W,
    /// The number of the last mark of `lateness` when the Call was parked.
    marks: u32,
}

/// The line of one class.
pub(crate) struct Line<W> {
    class: PeerClass,
    /// The parked Calls, the oldest first. Their owners are the numbers of their connections.
    parked: WaitQueue<Parked<W>>,
    /// Pages that the parked Calls need.
    pub(super) demand: usize,
    /// Pages that are lent to Calls.
    lent: usize,
    /// Pages among these that no Call has, because lanes keep them, as of the last look.
    pub(super) idle: usize,
    /// The time for which the parked Calls have waited, in looks.
    pub(super) lateness: shortage::Queue,
}

impl<W: Waiter> Line<W> {
    /// Returns a line that has no room for Calls.
    pub(crate) fn new(class: PeerClass) -> Self {
        Self {
            class,
            parked: WaitQueue::none(),
            demand: 0,
            lent: 0,
            idle: 0,
            lateness: shortage::Queue::default(),
        }
    }

    /// Allocates the room for the Calls of a line. May sleep.
    pub(crate) fn room() -> Result<WaitQueue<Parked<W>>> {
        WaitQueue::with_capacity(MAX_PARKED)
    }

    /// Gives the line `room` for Calls. Returns the room that it had, which the caller drops
    /// outside the lock.
    pub(crate) fn open(&mut self, room: WaitQueue<Parked<W>>) -> WaitQueue<Parked<W>> {
        core::mem::replace(&mut self.parked, room)
    }

    /// Parks `call`.
    ///
    /// # Errors
    ///
    /// Returns the Call if the line is full.
    pub(crate) fn park(&mut self, call: W) -> Result<(), W> {
        let (user, pages) = (call.user(), call.pages());
        let marks = self.lateness.marks();
        let parked = self.parked.push(user, Parked { call, marks });
        parked.map_err(|refused| refused.call)?;
        self.demand = self.demand.saturating_add(pages);
        Ok(())
    }

    /// Takes the oldest parked Call.
    pub(crate) fn pop(&mut self) -> Option<W> {
        let call = self.parked.pop()?.call;
        let pages = call.pages();
        self.demand = self.demand.saturating_sub(pages);
        self.lateness.leave(count(pages));
        Some(call)
    }

    /// Takes the oldest parked Call of connection `user` out of its turn.
    pub(crate) fn remove(&mut self, user: u64) -> Option<W> {
        let Parked { call, marks } = self.parked.remove(user)?;
        let pages = call.pages();
        self.demand = self.demand.saturating_sub(pages);
        self.lateness.remove(marks, count(pages));
        Some(call)
    }

    /// Returns the oldest parked Call.
    pub(crate) fn front(&self) -> Option<&W> {
        Some(&self.parked.front()?.call)
    }

    /// Returns the number of parked Calls.
    pub(crate) fn len(&self) -> usize {
        self.parked.len()
    }

    /// Returns true if no Call is parked.
    pub(crate) fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// Returns the number of the connection that all parked Calls belong to, if they belong to one.
    pub(crate) fn only_user(&self) -> Option<u64> {
        let mut users = self.parked.owners();
        let first = users.next()?;
        users.all(|user| user == first).then_some(first)
    }

    /// Returns true if the budget has `pages` pages left.
    pub(crate) fn fits(&self, limits: ReadPages, pages: usize) -> bool {
        budget(self.class, limits).fits(self.lent, pages)
    }

    /// Returns true if the oldest parked Call exceeds what is left of the budget.
    pub(crate) fn is_blocked(&mut self, limits: ReadPages) -> bool {
        let pages = self.front().map(|call| call.pages());
        pages.is_some_and(|pages| !self.fits(limits, pages))
    }

    /// Lends `sink` with `pages` pages.
    pub(crate) fn lend(&mut self, sink: KBox<PageRegion>, pages: usize) -> ReadBuffer {
        self.lent = self.lent.saturating_add(pages);
        ReadBuffer::new(sink, self.class, pages)
    }

    /// Counts `pages` pages of a [`ReadBuffer`] as returned.
    pub(crate) fn release(&mut self, pages: usize) {
        self.lent = self.lent.saturating_sub(pages);
    }

    /// Returns the number of lent pages.
    pub(crate) fn lent(&self) -> usize {
        self.lent
    }

    /// Returns the most pages that a connection may have. Pages for parked Calls count as lent, so
    /// that the share of a connection does not grow while the refill makes them.
    ///
    /// When none are left, each connection still gets some small Calls into the line, but only while
    /// the line is less than half full. The other half is for one Call of each connection.
    pub(crate) fn share(&self, limits: ReadPages) -> usize {
        let budget = budget(self.class, limits);
        let lent = self.lent.saturating_sub(self.idle);
        let share = budget.share(lent.saturating_add(self.demand));
        if self.parked.len() < MAX_PARKED / 2 {
            share.max(budget.least())
        } else {
            share
        }
    }
}

/// The lines of a pool.
pub(crate) struct Lines<W> {
    /// The number of the last look at the lines; wraps around.
    pub(super) looks: u32,
    /// The line of validated peers.
    pub(super) validated: Line<W>,
    /// The line of unvalidated peers.
    unvalidated: Line<W>,
}

impl<W: Waiter> Lines<W> {
    /// Returns lines that have no room for Calls.
    pub(crate) fn new() -> Self {
        Self {
            looks: 0,
            validated: Line::new(PeerClass::Validated),
            unvalidated: Line::new(PeerClass::Unvalidated),
        }
    }

    /// Returns the line of `class`.
    pub(crate) fn of(&mut self, class: PeerClass) -> &mut Line<W> {
        match class {
            PeerClass::Validated => &mut self.validated,
            PeerClass::Unvalidated => &mut self.unvalidated,
        }
    }

    /// Returns true if a parked Call may start when lanes return what they keep. A Call of an
    /// unvalidated peer that waits for the budget of its own line may not.
    pub(crate) fn wait_for_others(&mut self, limits: ReadPages) -> bool {
        let unvalidated = &mut self.unvalidated;
        !self.validated.is_empty() || !unvalidated.is_empty() && !unvalidated.is_blocked(limits)
    }

    /// Returns true if no Call is parked in any line.
    pub(crate) fn are_empty(&self) -> bool {
        self.validated.is_empty() && self.unvalidated.is_empty()
    }

    /// Returns the number of parked Calls.
    pub(crate) fn len(&self) -> usize {
        let validated = self.validated.len();
        validated.saturating_add(self.unvalidated.len())
    }
}

/// Converts a number of pages for proto's `shortage`. The number never exceeds `u32::MAX`.
pub(crate) fn count(pages: usize) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

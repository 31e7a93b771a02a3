// SPDX-License-Identifier: GPL-2.0

//! Lines: the Calls of peers of one standing that wait for pages, and the pages that such Calls have.
//!
//! A lane's stock has a line for each [`Standing`], under its lock. The budgets of lines do not
//! overlap: peers that nfsd has not validated take no pages from the others, nor a place in their
//! line. A Call counts as what its peer was when it asked for pages until these come back, whatever
//! becomes of the peer meanwhile: the [`Loan`] remembers.

use super::{
    loan::Loan,
    sizes::LARGE,
    waiter::Waiter, //
};
use crate::svc::settings::{
    self,
    ReadPages, //
};
use kernel::prelude::*;
use rdma::page_region::PageRegion;
use support::ring::Ring;
use svcrdma_proto::{
    shares::{
        Budget,
        Standing, //
    },
    shortage::Queue, //
};

/// Calls that can wait for pages in a line: no connection fills it alone.
const WAITING: usize = 4 * settings::MAX_CREDITS as usize;

/// Returns the budget of the peers of `standing`.
fn budget(standing: Standing, limits: ReadPages) -> Budget {
    Budget::new(standing, limits.device, limits.connection, LARGE)
}

/// The pages that Calls wait for.
#[derive(Clone, Copy)]
pub(crate) enum Awaited {
    /// Those that Calls in the line of that standing have.
    Of(Standing),
    /// Those of any line, as there is no memory for more.
    Any,
    /// New ones.
    New,
}

/// The line of the peers of one standing.
pub(crate) struct Line<W> {
    standing: Standing,
    waiting: Ring<W>,
    /// Pages that these are going to have.
    pub(super) wanted: usize,
    /// Pages that Calls have.
    lent: usize,
    /// For how long the Calls have waited.
    pub(super) queue: Queue,
}

impl<W: Waiter> Line<W> {
    /// Makes a line without room.
    pub(crate) fn new(standing: Standing) -> Self {
        Self {
            standing,
            waiting: Ring::none(),
            wanted: 0,
            lent: 0,
            queue: Queue::default(),
        }
    }

    /// Makes room for Calls. May sleep.
    pub(crate) fn room() -> Result<Ring<W>> {
        Ring::with_capacity(WAITING)
    }

    /// Opens the line with that room; returns what it had.
    pub(crate) fn open(&mut self, room: Ring<W>) -> Ring<W> {
        core::mem::replace(&mut self.waiting, room)
    }

    /// Has `call` wait for pages; gives it back when too many do.
    pub(crate) fn wait(&mut self, call: W) -> Result<(), W> {
        let pages = call.pages();
        self.waiting.push(call)?;
        self.wanted = self.wanted.saturating_add(pages);
        Ok(())
    }

    /// Takes the Call that waits longest.
    pub(crate) fn pop(&mut self) -> Option<W> {
        let call = self.waiting.pop()?;
        let pages = call.pages();
        self.wanted = self.wanted.saturating_sub(pages);
        self.queue.leave(count(pages));
        Some(call)
    }

    /// Returns the Call that waits longest.
    pub(crate) fn front(&mut self) -> Option<&mut W> {
        self.waiting.front_mut()
    }

    /// Returns how many Calls wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if none do.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns true if the budget allows for a Call of `pages` pages.
    pub(crate) fn fits(&self, limits: ReadPages, pages: usize) -> bool {
        budget(self.standing, limits).fits(self.lent, pages)
    }

    /// Returns true if a Call waits for the budget.
    pub(crate) fn is_blocked(&mut self, limits: ReadPages) -> bool {
        let pages = self.front().map(|call| call.pages());
        pages.is_some_and(|pages| !self.fits(limits, pages))
    }

    /// Lends a sink with `pages` pages.
    pub(crate) fn lend(&mut self, sink: KBox<PageRegion>, pages: usize) -> Loan {
        self.lent = self.lent.saturating_add(pages);
        Loan::new(sink, self.standing, pages)
    }

    /// A [`Loan`] of `pages` pages has ended.
    pub(crate) fn put(&mut self, pages: usize) {
        self.lent = self.lent.saturating_sub(pages);
    }

    /// Returns how many pages Calls have.
    pub(crate) fn lent(&self) -> usize {
        self.lent
    }

    /// Returns how many pages a connection may have. What waits counts as lent: a connection that asks
    /// must not find more because the refill is slow.
    pub(crate) fn share(&self, limits: ReadPages) -> usize {
        let lent = self.lent.saturating_add(self.wanted);
        budget(self.standing, limits).share(lent)
    }
}

/// The lines of a device.
pub(crate) struct Lines<W> {
    /// The number of looks at the lines; wraps around.
    pub(super) looks: u32,
    pub(super) validated: Line<W>,
    unvalidated: Line<W>,
}

impl<W: Waiter> Lines<W> {
    /// Makes lines without room.
    pub(crate) fn new() -> Self {
        Self {
            looks: 0,
            validated: Line::new(Standing::Validated),
            unvalidated: Line::new(Standing::Unvalidated),
        }
    }

    /// Returns that of the peers of `standing`.
    pub(crate) fn of(&mut self, standing: Standing) -> &mut Line<W> {
        match standing {
            Standing::Validated => &mut self.validated,
            Standing::Unvalidated => &mut self.unvalidated,
        }
    }

    /// Returns true if no Call waits.
    pub(crate) fn are_empty(&self) -> bool {
        self.validated.is_empty() && self.unvalidated.is_empty()
    }

    /// Returns how many Calls wait.
    pub(crate) fn waiting(&self) -> usize {
        let validated = self.validated.len();
        validated.saturating_add(self.unvalidated.len())
    }
}

/// Returns a number of pages as the watch of a line counts it: there are never more.
pub(crate) fn count(pages: usize) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

// SPDX-License-Identifier: GPL-2.0

//! Lines: the Calls of peers of one standing that wait for pages, and the pages that such Calls have.
//!
//! A device's [`Stock`] has a line for each [`Standing`], under its lock. The budgets of lines do not
//! overlap: peers that nfsd has not validated take no pages from the others, nor a place in their
//! line. A Call counts as what its peer was when it asked for pages until these come back, whatever
//! becomes of the peer meanwhile: the [`Loan`] remembers.

use super::{
    pool::{
        Pool,
        LARGE, //
    },
    stock::Stock, //
};
use crate::svc::{
    flow::receive::Call, //
    settings,
};
use core::ops::{
    Deref,
    DerefMut, //
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
const WAITING: usize = 4 * settings::MOST_CREDITS as usize;

/// Returns what peers of `standing` may have of a device's pages.
fn budget(standing: Standing) -> Budget {
    let device = settings::READ_PAGES.get() as usize;
    let alone = settings::READ_PAGES_CONNECTION.get() as usize;
    Budget::new(standing, device, alone, LARGE)
}

/// A sink whose pages count in a line until [`Pool`] has it back.
pub(crate) struct Loan {
    sink: KBox<PageRegion>,
    standing: Standing,
    pages: usize,
}

impl Loan {
    /// Takes the sink out, for the line's [`Line::put`].
    pub(crate) fn end(self) -> (KBox<PageRegion>, Standing, usize) {
        (self.sink, self.standing, self.pages)
    }

    /// Returns the pages that count, and in which line.
    pub(crate) fn charge(&self) -> (Standing, usize) {
        (self.standing, self.pages)
    }
}

impl Deref for Loan {
    type Target = PageRegion;

    fn deref(&self) -> &PageRegion {
        &self.sink
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut PageRegion {
        &mut self.sink
    }
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
pub(crate) struct Line {
    standing: Standing,
    waiting: Ring<Call>,
    /// Pages that these are going to have.
    wanted: usize,
    /// Pages that Calls have.
    lent: usize,
    /// For how long the Calls have waited.
    queue: Queue,
}

impl Line {
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
    pub(crate) fn room() -> Result<Ring<Call>> {
        Ring::with_capacity(WAITING)
    }

    /// Opens the line with that room; returns what it had.
    pub(crate) fn open(&mut self, room: Ring<Call>) -> Ring<Call> {
        core::mem::replace(&mut self.waiting, room)
    }

    /// Has `call` wait for pages; gives it back when too many do.
    pub(crate) fn wait(&mut self, call: Call) -> Result<(), Call> {
        let pages = call.sink_pages();
        self.waiting.push(call)?;
        self.wanted = self.wanted.saturating_add(pages);
        Ok(())
    }

    /// Takes the Call that waits longest.
    pub(crate) fn pop(&mut self) -> Option<Call> {
        let call = self.waiting.pop()?;
        let pages = call.sink_pages();
        self.wanted = self.wanted.saturating_sub(pages);
        self.queue.leave(count(pages));
        Some(call)
    }

    /// Returns the Call that waits longest.
    pub(crate) fn front(&mut self) -> Option<&mut Call> {
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
    pub(crate) fn fits(&self, pages: usize) -> bool {
        budget(self.standing).fits(self.lent, pages)
    }

    /// Returns true if a Call waits for the budget.
    pub(crate) fn is_blocked(&mut self) -> bool {
        let pages = self.front().map(|call| call.sink_pages());
        pages.is_some_and(|pages| !self.fits(pages))
    }

    /// Lends a sink with `pages` pages.
    pub(crate) fn lend(&mut self, sink: KBox<PageRegion>, pages: usize) -> Loan {
        self.lent = self.lent.saturating_add(pages);
        Loan {
            sink,
            standing: self.standing,
            pages,
        }
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
    fn share(&self) -> usize {
        let lent = self.lent.saturating_add(self.wanted);
        budget(self.standing).share(lent)
    }
}

/// The lines of a device.
pub(crate) struct Lines {
    /// How often they were looked at; wraps around.
    looks: u32,
    validated: Line,
    unvalidated: Line,
}

impl Lines {
    /// Makes lines without room.
    pub(crate) fn new() -> Self {
        Self {
            looks: 0,
            validated: Line::new(Standing::Validated),
            unvalidated: Line::new(Standing::Unvalidated),
        }
    }

    /// Returns that of the peers of `standing`.
    pub(crate) fn of(&mut self, standing: Standing) -> &mut Line {
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

impl Stock {
    /// Returns true if a Call of `standing` and `pages` pages need not wait for another one: those of
    /// validated peers have precedence in what there is.
    pub(crate) fn is_first(&mut self, standing: Standing, pages: usize) -> bool {
        let line = self.lines.of(standing);
        let may_go = line.is_empty() && line.fits(pages);
        let first = &mut self.lines.validated;
        may_go && (standing == Standing::Validated || first.is_empty() || first.is_blocked())
    }

    /// Returns true if Calls wait for pages of the line of `standing`: no more of it may be lent, or none
    /// can be made, for whatever line.
    fn is_short(&mut self, standing: Standing) -> bool {
        let no_memory = self.no_memory && !self.lines.are_empty();
        no_memory || self.lines.of(standing).is_blocked()
    }

    /// Returns whose pages Calls of `standing` wait for.
    fn awaited(&mut self, standing: Standing) -> Awaited {
        // No more pages can be made: there is no memory, or the limit was lowered while others had them.
        let is_exhausted = self.no_memory || self.total >= settings::READ_PAGES.get() as usize;
        match (self.lines.of(standing).is_blocked(), is_exhausted) {
            (true, _) => Awaited::Of(standing),
            (false, true) => Awaited::Any,
            (false, false) => Awaited::New,
        }
    }
}

impl Pool {
    /// Returns how many pages a connection of `standing` may have.
    pub(crate) fn share(&self, standing: Standing) -> usize {
        self.inner.lock().lines.of(standing).share()
    }

    /// Returns true if Calls wait until those of `standing` give pages back.
    pub(crate) fn is_short(&self, standing: Standing) -> bool {
        self.inner.lock().is_short(standing)
    }

    /// Returns the number of a new look at the lines.
    pub(crate) fn number_look(&self) -> u32 {
        let lines = &mut self.inner.lock().lines;
        lines.looks = lines.looks.wrapping_add(1);
        lines.looks
    }

    /// Looks at the line of `standing`; returns what is late, or none if no Call waits.
    pub(crate) fn look_at_line(&self, standing: Standing) -> Option<Late> {
        let mut inner = self.inner.lock();
        let line = inner.lines.of(standing);
        let pages = line.queue.look(count(line.wanted));
        let patience = line.queue.patience();
        if line.is_empty() {
            return None;
        }
        Some(Late {
            pages,
            awaited: inner.awaited(standing),
            patience,
        })
    }

    /// Gives what was done about Calls of `standing` that were late some time to work.
    pub(crate) fn restart_line(&self, standing: Standing) {
        self.inner.lock().lines.of(standing).queue.restart();
    }
}

/// The Calls of a line that have waited for too long.
#[derive(Clone, Copy)]
pub(crate) struct Late {
    /// The pages that they want.
    pub(crate) pages: u32,
    /// Whose pages they wait for.
    pub(crate) awaited: Awaited,
    /// Successive looks at which a connection may be unserved.
    pub(crate) patience: u32,
}

/// Returns a number of pages as the watch of a line counts it: there are never more.
pub(crate) fn count(pages: usize) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

// SPDX-License-Identifier: GPL-2.0

//! Loans: page regions that Calls borrow from a pool.

use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::prelude::*;
use rdma::page_region::PageRegion;
use svcrdma_proto::shares::Standing;

/// A page region for the Read chunks of a Call: its sink. Its pages count in a line until the pool has it
/// back.
pub(crate) struct Loan {
    sink: KBox<PageRegion>,
    standing: Standing,
    pages: usize,
}

impl Loan {
    /// Lends `sink`, whose `pages` pages count in the line of `standing`.
    pub(super) fn new(sink: KBox<PageRegion>, standing: Standing, pages: usize) -> Self {
        Self {
            sink,
            standing,
            pages,
        }
    }

    /// Ends the loan. Returns the sink, and the line in which its pages counted with their number.
    pub(super) fn end(self) -> (KBox<PageRegion>, Standing, usize) {
        (self.sink, self.standing, self.pages)
    }

    /// Returns the line in which the pages count, and their number.
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

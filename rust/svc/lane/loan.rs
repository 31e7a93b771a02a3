// SPDX-License-Identifier: GPL-2.0

//! Loans: page regions that Calls borrow from the pool.

use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::prelude::*;
use rdma::page_region::PageRegion;
use svcrdma_proto::shares::Standing;

/// The sink of a Call: a page region with pages for its Read chunks.
///
/// The pages count as lent in the line of `standing` until the pool takes the loan back.
pub(crate) struct Loan {
    sink: KBox<PageRegion>,
    /// The line in which the pages count, whatever the standing of the peer is now.
    standing: Standing,
    /// The number of pages that count.
    pages: usize,
}

impl Loan {
    /// Returns a loan of `sink`, whose `pages` pages count as lent in the line of `standing`.
    pub(super) fn new(sink: KBox<PageRegion>, standing: Standing, pages: usize) -> Self {
        Self {
            sink,
            standing,
            pages,
        }
    }

    /// Ends the loan. Returns the sink, the line in which the pages counted, and their number.
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

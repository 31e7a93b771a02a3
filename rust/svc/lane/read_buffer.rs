// SPDX-License-Identifier: GPL-2.0

//! Read buffers: the sinks that the pool has lent to Calls.

use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::prelude::*;
use rdma::mem::page_region::PageRegion;
use svcrdma_proto::shares::PeerClass;

/// The sink of a Call, with pages that its RDMA Reads fill.
///
/// The pages count as lent in the line of `class` until the pool takes the Read buffer back.
pub(crate) struct ReadBuffer {
    sink: KBox<PageRegion>,
    /// The line in which the pages count, whatever the class of the peer is now.
    class: PeerClass,
    /// The number of pages that count.
    pages: usize,
}

impl ReadBuffer {
    /// Returns a Read buffer of `sink`, whose `pages` pages count as lent in the line of `class`.
    pub(super) fn new(sink: KBox<PageRegion>, class: PeerClass, pages: usize) -> Self {
        Self { sink, class, pages }
    }

    /// Ends the use of the Read buffer. Returns the sink, the line in which the pages counted, and their number.
    pub(super) fn end(self) -> (KBox<PageRegion>, PeerClass, usize) {
        (self.sink, self.class, self.pages)
    }

    /// Returns the line in which the pages count, and their number.
    pub(crate) fn charge(&self) -> (PeerClass, usize) {
        (self.class, self.pages)
    }
}

impl Deref for ReadBuffer {
    type Target = PageRegion;

    fn deref(&self) -> &PageRegion {
        &self.sink
    }
}

impl DerefMut for ReadBuffer {
    fn deref_mut(&mut self) -> &mut PageRegion {
        &mut self.sink
    }
}

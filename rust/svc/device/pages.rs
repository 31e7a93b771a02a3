// SPDX-License-Identifier: GPL-2.0

//! Pages of a device: lends pages and regions to Calls and Replies, from their lane or from the
//! pool.

use super::{
    device::Device,
    lane::Lane, //
};
use crate::svc::{
    pages::{
        line::{
            Seat,
            Waiter, //
        },
        read_buffer::ReadBuffer,
        stock::Count,
        turns::Wait, //
    },
    settings::ReadPages, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    workqueue::WorkItem, //
};
use rdma::mem::page_region::PageRegion;
use svcrdma_proto::shares::PeerClass;

impl WorkItem for Device {
    type Pointer = Arc<Self>;

    /// Refills the pool.
    fn run(this: Arc<Self>) {
        this.reclaim();
        this.pool.refill();
    }
}

impl Device {
    /// Lends a sink of `pages` pages to a Call of connection `user` in `lane`, unless the Call must
    /// wait. In any process context.
    pub(crate) fn sink(
        &self,
        lane: &Lane,
        class: PeerClass,
        user: u64,
        pages: usize,
    ) -> Option<ReadBuffer> {
        self.idle_sink(lane, class, pages)
            .or_else(|| self.pool.sink(class, user, pages))
    }

    /// Lends a sink of `pages` pages to the first waiting Call of a connection, or makes the connection
    /// wait in the pool. In any process context.
    pub(crate) fn wait(&self, waiter: Waiter, pages: usize) -> Wait {
        match self.idle_sink(&waiter.lane, waiter.connection.class(), pages) {
            Some(sink) => Wait::Ready(sink),
            None => self.pool.wait(waiter, pages),
        }
    }

    /// Lends an idle sink of `lane`.
    #[inline]
    fn idle_sink(&self, lane: &Lane, class: PeerClass, pages: usize) -> Option<ReadBuffer> {
        // Waiting Calls come first, and the pool alone counts what unvalidated peers have.
        if class == PeerClass::Validated && !self.pool.has_parked() {
            lane.take_sink(pages)
        } else {
            None
        }
    }

    /// Takes back a sink whose pages nobody else uses, and starts waiting Calls that need
    /// them. In any process context.
    pub(crate) fn put_sink(self: &Arc<Self>, lane: &Lane, sink: ReadBuffer) {
        // A connection that waits after this check reclaims what the lane has kept.
        let pages = || {
            if self.pool.has_parked() {
                0
            } else {
                ReadPages::now().device
            }
        };
        if let Some(sink) = lane.keep_sink(sink, pages) {
            self.return_sink(sink);
        }
    }

    /// Returns a sink to the pool and starts waiting Calls. The budget may have
    /// room for another waiting Call now; the refill makes the pages that this Call lacks. In any
    /// process context.
    #[inline(never)]
    pub(crate) fn return_sink(self: &Arc<Self>, sink: ReadBuffer) {
        self.pool.put_sink(sink);
        if self.pool.has_parked() {
            self.refill_if_needed();
        }
    }

    /// Queues the refill if a waiting Call only lacks new pages or regions. In any process context.
    #[cold]
    #[inline(never)]
    fn refill_if_needed(self: &Arc<Self>) {
        if self.pool.lacks_objects() {
            self.want_refill();
        }
    }

    /// Returns an empty page region for `pages` pages, allocating one if there is none. In an nfsd
    /// thread; may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn page_region(&self, lane: &Lane, pages: usize) -> Result<KBox<PageRegion>> {
        match lane.take_empty(pages) {
            Some(page_region) => Ok(page_region),
            None => self.pool.page_region(pages),
        }
    }

    /// Takes back a page region without pages, and starts waiting Calls that need it. In any process
    /// context.
    pub(crate) fn put_page_region(self: &Arc<Self>, lane: &Lane, page_region: KBox<PageRegion>) {
        if let Some(page_region) = lane.keep_empty(&self.pool, page_region) {
            self.pool.put_page_region(page_region);
            if self.pool.has_parked() {
                self.refill_if_needed();
            }
        }
    }

    /// Returns what all lanes keep to the pool, if Calls wait there. The refill starts them. May sleep.
    fn reclaim(&self) {
        if self.pool.has_parked() {
            self.lanes.for_each(|lane| lane.reclaim(&self.pool));
        }
    }

    /// Begins another look at the waiting connections and returns its number. May sleep.
    pub(crate) fn begin_look(&self) -> u32 {
        let mut idle = 0usize;
        self.lanes
            .for_each(|lane| idle = idle.saturating_add(lane.idle_pages()));
        self.pool.number_look(idle)
    }

    /// Returns the numbers of objects of the pool, the number of live lanes, and the pages of their
    /// idle sinks, which count as free. For debugfs; may sleep.
    pub(crate) fn count(&self) -> (Count, usize, usize) {
        let mut count = self.pool.count();
        let (mut lanes, mut idle) = (0usize, 0usize);
        self.lanes.for_each(|lane| {
            lanes = lanes.saturating_add(1);
            idle = idle.saturating_add(lane.idle_pages());
        });
        count.pages_free = count.pages_free.saturating_add(idle);
        (count, lanes, idle)
    }
}

/// The place of a connection in the lines of the pool, which it leaves when this is dropped.
pub(crate) struct Place {
    device: Arc<Device>,
    seat: Seat,
}

impl Place {
    /// Adds connection `number` of `host` to the lines of `device`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(device: Arc<Device>, number: u64, host: u64) -> Result<Self> {
        let seat = device.pool.join(number, host)?;
        Ok(Self { device, seat })
    }

    /// Returns the place.
    pub(crate) fn seat(&self) -> Seat {
        self.seat
    }

    /// Leaves the lines. In any process context.
    pub(crate) fn leave(&self) {
        self.device.pool.leave(self.seat);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

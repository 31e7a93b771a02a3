// SPDX-License-Identifier: GPL-2.0

//! Domains: the objects that all connections of a device share.

use super::{
    lanes::Lanes,
    table::{
        Table,
        Tenant, //
    },
    Lane,
};
use crate::svc::pages::{
    held::Held,
    host::Hosts,
    line::Seat,
    pool::Pool,
    read_buffer::ReadBuffer,
    stock::Count,
    turns::Wait,
    waiter::Waiter, //
};
use crate::svc::{
    history::History,
    settings::ReadPages, //
};
use kernel::{
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};
use rdma::{
    device::{
        Limits,
        Pd, //
    },
    mem::page_region::PageRegion,
    recv::budget::Budget, //
};
use support::workqueue::OwnedQueue;
use svcrdma_proto::shares::PeerClass;

/// The objects that the connections of a device share.
///
/// # Locking
///
/// The mutex of the table is taken in process context only, and only spinlocks are taken under it.
/// The pool has a spinlock, a leaf.
#[pin_data]
pub(crate) struct Domain<C: Tenant> {
    #[pin]
    table: Mutex<Table<C>>,
    /// The live lanes.
    pub(crate) lanes: Lanes,
    /// The pages, page regions and reply contexts.
    pub(crate) pool: Pool,
    /// The budget of Receive buffers.
    pub(crate) receives: Arc<Budget>,
    /// The number of pages in Replies.
    pub(crate) held: Arc<Held>,
    /// The hosts that have connections.
    pub(crate) hosts: Arc<Hosts>,
    /// The connections that closed last.
    pub(crate) history: History,
    /// True if a peer may confirm a disconnect after the queue pair is destroyed. False on iWARP.
    pub(crate) has_confirmations: bool,
    /// The queue that runs the refill.
    queue: Arc<OwnedQueue>,
    #[pin]
    refill: Work<Domain<C>>,
}

impl_has_work! {
    impl{C: Tenant} HasWork<Self> for Domain<C> { self.refill }
}

impl<C: Tenant> WorkItem for Domain<C> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.reclaim();
        this.pool.refill();
    }
}

impl<C: Tenant> Domain<C> {
    /// Creates a domain without connections. The refill will run on `queue`. May sleep.
    pub(crate) fn new(queue: Arc<OwnedQueue>, has_confirmations: bool) -> Result<Arc<Self>> {
        let table = Table::new()?;
        let (lanes, pool) = (Lanes::new()?, Pool::new()?);
        let history = History::new()?;
        let receives = Arc::new(Budget::new(), GFP_KERNEL)?;
        let held = Arc::new(Held::new(), GFP_KERNEL)?;
        let hosts = Hosts::new(held.clone(), receives.clone())?;
        Arc::pin_init(
            pin_init!(Self {
                table <- new_mutex!(table, "svcrdma connections"),
                lanes,
                pool,
                receives,
                held,
                hosts,
                history,
                has_confirmations,
                queue,
                refill <- new_work!("svcrdma refill work"),
            }),
            GFP_KERNEL,
        )
    }

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

    /// Lends a sink of `pages` pages to the first waiting Call of a connection in `lane`, or makes the
    /// connection wait in the pool. In any process context.
    pub(crate) fn wait(
        &self,
        lane: &Lane,
        waiter: Arc<dyn Waiter>,
        seat: Seat,
        pages: usize,
    ) -> Wait {
        match self.idle_sink(lane, waiter.class(), pages) {
            Some(sink) => Wait::Ready(sink),
            None => self.pool.wait(waiter, seat, pages),
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
        let left = if self.pool.has_parked() {
            Some(page_region)
        } else {
            lane.keep_empty(page_region)
        };
        if let Some(page_region) = left {
            self.pool.put_page_region(page_region);
            if self.pool.has_parked() {
                self.refill_if_needed();
            }
        }
    }

    /// Returns what all lanes keep to the pool, if Calls wait there. May sleep.
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

    /// Returns the lane of a new connection, see [`Lanes::choose`]. May sleep.
    pub(crate) fn choose_lane(
        &self,
        pd: &Arc<Pd>,
        limits: &Limits,
        keeps_sinks: bool,
    ) -> Result<Arc<Lane>> {
        self.lanes.choose(pd, limits, keeps_sinks)
    }

    /// Returns what lanes have not used since the last call to the pool, and retires lanes that no
    /// connection uses. May sleep. No connection may be choosing its lane.
    pub(crate) fn trim_lanes(&self) {
        self.lanes.trim(&self.pool);
    }

    /// Retires all lanes, because the device is being removed. May sleep.
    pub(crate) fn close_lanes(&self) {
        self.lanes.close(&self.pool);
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

    /// Queues the refill of the pool, because a Call waits. In any process context.
    pub(crate) fn want_refill(self: &Arc<Self>) {
        // An error means that the refill is queued already.
        let _ = self.queue.enqueue(self.clone());
    }

    /// Adds a connection to the table, until [`Self::forget`]. May sleep.
    ///
    /// # Errors
    ///
    /// - `ENODEV` if the device is being removed.
    /// - `ENOMEM`.
    pub(crate) fn remember(&self, connection: &Arc<C>) -> Result {
        self.table.lock().add(connection)
    }

    /// Records that connection `number` waits for its peer to confirm the disconnect. If too many
    /// connections wait, hangs up the one that has waited longest; if the device is being removed,
    /// this one. May sleep.
    pub(crate) fn leave(&self, number: u64) {
        let late = self.table.lock().leave(number);
        if let Some(connection) = late {
            connection.hang_up();
        }
    }

    /// Removes connection `number` from the table. May sleep.
    pub(crate) fn forget(&self, number: u64) {
        let connection = self.table.lock().take(number);
        drop(connection);
    }

    /// Calls `f` for each connection, under the mutex of the table, which `f` must not take. May
    /// sleep.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<C>)) {
        for connection in self.table.lock().iter() {
            f(connection);
        }
    }

    /// Refuses further connections. May sleep.
    pub(crate) fn close(&self) {
        self.table.lock().close();
    }

    /// Returns true if the table holds no connection. May sleep.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.lock().is_empty()
    }
}

/// The place of a connection in the lines of the pool, which it leaves when this is dropped.
pub(crate) struct Place<C: Tenant> {
    domain: Arc<Domain<C>>,
    seat: Seat,
}

impl<C: Tenant> Place<C> {
    /// Adds `connection` to the lines of `domain`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(domain: Arc<Domain<C>>, connection: &C) -> Result<Self> {
        let seat = domain.pool.join(connection.number(), connection.host())?;
        Ok(Self { domain, seat })
    }

    /// Returns the place.
    pub(crate) fn seat(&self) -> Seat {
        self.seat
    }

    /// Leaves the lines. In any process context.
    pub(crate) fn leave(&self) {
        self.domain.pool.leave(self.seat);
    }
}

impl<C: Tenant> Drop for Place<C> {
    fn drop(&mut self) {
        self.leave();
    }
}

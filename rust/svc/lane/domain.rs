// SPDX-License-Identifier: GPL-2.0

//! Domains: the objects that all connections of a device share.

use super::{
    held::Held,
    pool::Pool,
    table::{
        Table,
        Tenant, //
    },
};
use crate::svc::history::History;
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
    device::Pd,
    receive_budget::Budget, //
};
use support::workqueue::OwnedQueue;

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
    /// The pages, page regions and reply contexts.
    pub(crate) pool: Pool<C::Read>,
    /// The budget of Receive buffers.
    pub(crate) receives: Arc<Budget>,
    /// The number of pages in Replies.
    pub(crate) held: Arc<Held>,
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
        this.pool.refill();
    }
}

impl<C: Tenant> Domain<C> {
    /// Creates a domain without connections. The refill will run on `queue`. May sleep.
    pub(crate) fn new(queue: Arc<OwnedQueue>, has_confirmations: bool) -> Result<Arc<Self>> {
        let table = Table::new()?;
        let pool = Pool::new()?;
        let history = History::new()?;
        let receives = Arc::new(Budget::new(), GFP_KERNEL)?;
        let held = Arc::new(Held::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                table <- new_mutex!(table, "svcrdma connections"),
                pool,
                receives,
                held,
                history,
                has_confirmations,
                queue,
                refill <- new_work!("svcrdma refill"),
            }),
            GFP_KERNEL,
        )
    }

    /// Calls `f` with the protection domain. In any process context.
    ///
    /// # Errors
    ///
    /// - `ENODEV` if the device was removed.
    /// - Any error of `f`.
    pub(crate) fn with_pd<R>(&self, f: impl FnOnce(&Arc<Pd>) -> Result<R>) -> Result<R> {
        f(&self.pool.pd().ok_or(ENODEV)?)
    }

    /// Queues the refill of the pool, because a Call is parked. In any process context.
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

// SPDX-License-Identifier: GPL-2.0

//! Lanes: what the connections of a device share on the path of a Call.
//!
//! | file | object |
//! |---|---|
//! | `pool` | what connections borrow while a Call runs; `stock` is its content, under its lock |
//! | `refill` | makes and frees what the pool lends |
//! | `line` | the Calls that wait for pages; each is a `waiter` and gets a `loan` |
//! | `watch` | Calls that have waited for too long |
//! | `reply` | the contexts that Replies are sent with |
//! | `held` | the pages of all Replies |
//! | `table` | the connections |
//!
//! A device has one lane. Nothing here knows what a connection is but what [`Tenant`] says.

pub(crate) mod held;
pub(crate) mod line;
pub(crate) mod loan;
pub(crate) mod pool;
mod refill;
pub(crate) mod reply;
mod sizes;
mod stock;
pub(crate) mod table;
pub(crate) mod waiter;
pub(crate) mod watch;

use crate::svc::history::History;
use held::Held;
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
use pool::Pool;
use rdma::{
    device::Pd,
    receive_budget::Budget, //
};
use support::workqueue::OwnedQueue;
use table::{
    Table,
    Tenant, //
};

/// What the connections of a device share.
///
/// # Locking
///
/// The mutex of the table is taken in process context only, and nothing else is taken under it but locks of
/// connections. The pool has a spinlock, a leaf.
#[pin_data]
pub(crate) struct Lane<C: Tenant> {
    #[pin]
    table: Mutex<Table<C>>,
    /// Pages, page regions and reply contexts.
    pub(crate) pool: Pool<C::Read>,
    /// Receive buffers of all connections.
    pub(crate) receives: Arc<Budget>,
    /// Pages of Replies of all connections.
    pub(crate) held: Held,
    /// Connections that have closed.
    pub(crate) history: History,
    /// True if peers may confirm a disconnect after the queue pair is gone.
    pub(crate) has_confirmations: bool,
    queue: Arc<OwnedQueue>,
    #[pin]
    refill: Work<Lane<C>>,
}

impl_has_work! {
    impl{C: Tenant} HasWork<Self> for Lane<C> { self.refill }
}

impl<C: Tenant> WorkItem for Lane<C> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.pool.refill();
    }
}

impl<C: Tenant> Lane<C> {
    /// Creates a lane without connections; `queue` runs its refill. May sleep.
    pub(crate) fn new(queue: Arc<OwnedQueue>, has_confirmations: bool) -> Result<Arc<Self>> {
        let table = Table::new()?;
        let pool = Pool::new()?;
        let history = History::new()?;
        let receives = Arc::new(Budget::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                table <- new_mutex!(table, "svcrdma connections"),
                pool,
                receives,
                held: Held::new(),
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
    /// `ENODEV` if the device is gone, or that of `f`.
    pub(crate) fn with_pd<R>(&self, f: impl FnOnce(&Arc<Pd>) -> Result<R>) -> Result<R> {
        f(&self.pool.pd().ok_or(ENODEV)?)
    }

    /// Queues the refill of the pool, because a Call waits for pages. In any process context.
    pub(crate) fn want_refill(self: &Arc<Self>) {
        // An error means that it is queued already.
        let _ = self.queue.enqueue(self.clone());
    }

    /// Adds a connection to the table until [`Self::forget`]. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed, `ENOMEM`.
    pub(crate) fn remember(&self, connection: &Arc<C>) -> Result {
        self.table.lock().add(connection)
    }

    /// Notes that the connection with this number waits for its peer to confirm the disconnect. Hangs up
    /// the connection that has waited longest if there are too many, or this one if the device is being
    /// removed. May sleep.
    pub(crate) fn leave(&self, number: u64) {
        let late = self.table.lock().leave(number);
        if let Some(connection) = late {
            connection.hang_up();
        }
    }

    /// Removes the connection from the table. May sleep.
    pub(crate) fn forget(&self, number: u64) {
        let connection = self.table.lock().take(number);
        drop(connection);
    }

    /// Calls `f` for each connection. `f` must not use the table. May sleep.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<C>)) {
        for connection in self.table.lock().iter() {
            f(connection);
        }
    }

    /// Admits no more connections. May sleep.
    pub(crate) fn close(&self) {
        self.table.lock().close();
    }

    /// Returns true if no connection is left. May sleep.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.lock().is_empty()
    }
}

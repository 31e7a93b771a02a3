// SPDX-License-Identifier: GPL-2.0

//! Receives: the Receive buffers of a connection, whose number follows its credits.
//!
//! No Call allocates: when a grant comes near the credits that buffers back, work on our queue makes
//! the next ones, within the budget of the device. The watchdog frees what a client no longer needs,
//! and tries again what has failed. Buffers for replies to callbacks are made when nfsd binds a
//! backchannel, and no callback goes out before.
//!
//! Locking: a mutex lets one thread change the number at a time. The connection's lock is taken under
//! it, so that what is asked for is not older than what there is.

use super::connection::Connection;
use crate::svc::{
    device::hardware::Hardware,
    flow::receive::CallState, //
    settings,
};
use kernel::{
    impl_has_work, new_mutex, new_work, pr_warn_once,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            AtomicFlag,
            Full,
            Release, //
        },
        Arc,
        Mutex, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};
use rdma::receive_pool::ReceivePool;
use sunrpc::backchannel::SLOTS;
use svcrdma_proto::receives::backed;

/// The Receive buffers of a connection.
#[pin_data]
pub(crate) struct Receives {
    connection: Arc<Connection>,
    pool: Arc<ReceivePool<CallState>>,
    /// Whether there are buffers for replies to callbacks.
    takes_callbacks: AtomicFlag,
    /// Set by the watchdog's tick.
    is_due: AtomicFlag,
    #[pin]
    resizing: Mutex<()>,
    #[pin]
    work: Work<Receives>,
}

impl_has_work! {
    impl HasWork<Self> for Receives { self.work }
}

impl WorkItem for Receives {
    type Pointer = Arc<Receives>;

    /// Makes buffers that were asked for; after a tick, gives back those that are not needed. Sleeps.
    fn run(this: Arc<Receives>) {
        if this.is_due.xchg(false, Full) {
            this.resize(Connection::look);
            this.pool.trim();
        } else {
            this.resize(Connection::wanted_credits);
        }
    }
}

impl Receives {
    /// Makes it without buffers. May sleep.
    pub(crate) fn new(hardware: &Hardware, connection: &Arc<Connection>) -> Result<Arc<Self>> {
        let max = hardware.max_receives(connection.max_credits) as usize;
        let pool = ReceivePool::new(&hardware.pd, max, connection.device.receives.clone())?;
        Arc::pin_init(
            pin_init!(Self {
                connection: connection.clone(),
                pool,
                takes_callbacks: AtomicFlag::new(false),
                is_due: AtomicFlag::new(false),
                resizing <- new_mutex!((), "svcrdma resizing"),
                work <- new_work!("svcrdma receives"),
            }),
            GFP_KERNEL,
        )
    }

    /// The buffers.
    pub(crate) fn pool(&self) -> &Arc<ReceivePool<CallState>> {
        &self.pool
    }

    /// The most credits that the device could take buffers for.
    pub(crate) fn most_credits(&self) -> u32 {
        let max = u32::try_from(self.pool.max()).unwrap_or(u32::MAX);
        backed(max, SLOTS)
    }

    /// Posts the buffers that a connection begins with, also when the budget is used up. The queue pair
    /// was just made. May sleep.
    pub(crate) fn begin(&self) -> Result {
        let _resizing = self.resizing.lock();
        let (_, made) = self.pool.resize(self.connection.backed(), 0, None);
        made
    }

    /// Makes more buffers soon. In any context.
    pub(crate) fn grow_later(self: &Arc<Self>) {
        // An error means that it is queued already.
        let _ = self.connection.queue.enqueue(self.clone());
    }

    /// A backchannel was bound: makes buffers for replies to callbacks. May sleep.
    pub(crate) fn bind(&self) {
        self.resize(Connection::backed);
    }

    /// Returns true if there are buffers for replies to callbacks. In any context.
    pub(crate) fn takes_callbacks(&self) -> bool {
        self.takes_callbacks.load(Acquire)
    }

    /// Has the buffers looked after, as is done every now and then. On the workqueue: the watchdog holds
    /// the mutex of the table of connections, which connect requests wait for.
    pub(crate) fn tick(self: &Arc<Self>) {
        self.is_due.store(true, Release);
        self.grow_later();
    }

    /// Makes as many buffers as `wanted` credits need, or lets those be spare that are more. May sleep.
    // Out of line: its frame would be that of the watchdog's tick.
    #[inline(never)]
    fn resize(&self, wanted: impl FnOnce(&Connection) -> u32) {
        let _resizing = self.resizing.lock();
        let callbacks = self.callbacks();
        let limit = Some(settings::RECEIVE_BUFFERS.get());
        let (backed, made) = self.pool.resize(wanted(&self.connection), callbacks, limit);
        self.connection.set_backed(backed);
        warn_if_short(made);
    }

    /// Returns how many replies to callbacks there are buffers for; makes them, also when the budget is
    /// used up, if a backchannel is bound. Under the mutex; may sleep.
    fn callbacks(&self) -> u32 {
        if self.takes_callbacks() {
            return SLOTS;
        }
        if !self.connection.has_channel() {
            return 0;
        }
        let (_, made) = self.pool.resize(self.connection.backed(), SLOTS, None);
        let is_made = made.is_ok();
        warn_if_short(made);
        if !is_made {
            return 0;
        }
        self.takes_callbacks.store(true, Release);
        SLOTS
    }
}

fn warn_if_short(made: Result) {
    if made == Err(ENOMEM) {
        pr_warn_once!("no memory for more Receive buffers, clients get fewer credits\n");
    }
}

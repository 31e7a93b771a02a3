// SPDX-License-Identifier: GPL-2.0

//! Receives: the Receive buffers of a connection, whose number follows its credits.
//!
//! No Call allocates: when a grant comes near the credits that buffers back, work on our queue makes
//! the next ones, within the budget of the device. The watchdog frees what a client no longer needs,
//! and tries again what has failed. Buffers for replies to callbacks are made when nfsd binds a
//! backchannel, and no callback goes out before.
//!
//! # Locking
//!
//! A mutex lets one thread change the number at a time. The lock of the credits is taken under it, so that
//! the number that is asked for is not older than the number of buffers.

use super::{
    call::CallState,
    credits::CreditAccount, //
};
use crate::svc::settings;
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
use sunrpc::callback::SLOTS;
use support::workqueue::OwnedQueue;
use svcrdma_proto::receives::backed;

/// The Receive buffers of a connection.
#[pin_data]
pub(crate) struct Receives {
    credits: Arc<CreditAccount>,
    pool: Arc<ReceivePool<CallState>>,
    /// True once nfsd has bound a backchannel.
    is_bound: AtomicFlag,
    /// True if there are buffers for replies to callbacks.
    takes_callbacks: AtomicFlag,
    /// Set by the watchdog's tick.
    is_due: AtomicFlag,
    queue: Arc<OwnedQueue>,
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
            this.resize(CreditAccount::look);
            this.pool.trim();
        } else {
            this.resize(CreditAccount::wanted);
        }
    }
}

impl Receives {
    /// Creates them without buffers. `pool` is the pool that they will be in, and `queue` makes and frees
    /// them. May sleep.
    pub(crate) fn new(
        pool: Arc<ReceivePool<CallState>>,
        credits: Arc<CreditAccount>,
        queue: Arc<OwnedQueue>,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                credits,
                pool,
                is_bound: AtomicFlag::new(false),
                takes_callbacks: AtomicFlag::new(false),
                is_due: AtomicFlag::new(false),
                queue,
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
        let (_, made) = self.pool.resize(self.credits.backed(), 0, None);
        made
    }

    /// Makes more buffers soon. In any context.
    pub(crate) fn grow_later(self: &Arc<Self>) {
        // An error means that it is queued already.
        let _ = self.queue.enqueue(self.clone());
    }

    /// A backchannel was bound: makes buffers for replies to callbacks. May sleep.
    pub(crate) fn bind(&self) {
        self.is_bound.store(true, Release);
        self.resize(CreditAccount::backed);
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
    fn resize(&self, wanted: impl FnOnce(&CreditAccount) -> u32) {
        let _resizing = self.resizing.lock();
        let callbacks = self.callbacks();
        let limit = Some(settings::RECEIVE_BUFFERS.get());
        let (backed, made) = self.pool.resize(wanted(&self.credits), callbacks, limit);
        self.credits.set_backed(backed);
        warn_if_short(made);
    }

    /// Returns how many replies to callbacks there are buffers for; makes them, also when the budget is
    /// used up, if a backchannel is bound. Under the mutex; may sleep.
    fn callbacks(&self) -> u32 {
        if self.takes_callbacks() {
            return SLOTS;
        }
        if !self.is_bound.load(Acquire) {
            return 0;
        }
        let (_, made) = self.pool.resize(self.credits.backed(), SLOTS, None);
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
        pr_warn_once!("Receive buffers: no memory for more, granting fewer credits\n");
    }
}

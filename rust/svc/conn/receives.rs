// SPDX-License-Identifier: GPL-2.0

//! Receives: the Receive buffers of a connection, whose number follows its credits.
//!
//! The path of a Call never allocates buffers. When a grant comes near the number of backed
//! credits, work on the workqueue makes more buffers within the budget of the device. The watchdog
//! frees the buffers that a client no longer needs and repeats failed allocations. Buffers for
//! replies to callbacks are made when nfsd binds a backchannel; no callback is sent before they
//! exist.
//!
//! # Locking
//!
//! A mutex serialises changes of the number of buffers. The credits are read and updated under that
//! mutex, so that no change is based on a stale number. The lock of the credits is a leaf.

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

/// The Receive buffers of a connection. The endpoint owns them.
#[pin_data]
pub(crate) struct Receives {
    credits: Arc<CreditAccount>,
    pool: Arc<ReceivePool<CallState>>,
    /// True once nfsd has bound a backchannel.
    is_bound: AtomicFlag,
    /// True if there are buffers for replies to callbacks.
    takes_callbacks: AtomicFlag,
    /// True if the next run of the work must do what the watchdog asks for. Set by [`Self::tick`].
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

    /// Makes the buffers that the credits ask for. After a tick of the watchdog, also frees buffers
    /// that are not needed. May sleep.
    fn run(this: Arc<Receives>) {
        if this.is_due.xchg(false, Full) {
            this.resize(CreditAccount::tick);
            this.pool.trim();
        } else {
            this.resize(CreditAccount::wanted);
        }
    }
}

impl Receives {
    /// Creates an empty set of buffers, which will be in `pool`. `queue` runs the work that makes
    /// and frees buffers. May sleep.
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

    /// Returns the pool of the buffers.
    pub(crate) fn pool(&self) -> &Arc<ReceivePool<CallState>> {
        &self.pool
    }

    /// Returns the most credits that the largest possible number of buffers backs.
    pub(crate) fn most_credits(&self) -> u32 {
        let max = u32::try_from(self.pool.max()).unwrap_or(u32::MAX);
        backed(max, SLOTS)
    }

    /// Makes and posts the first buffers of a new queue pair, regardless of the budget. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or an error of the DMA mapping.
    pub(crate) fn begin(&self) -> Result {
        let _resizing = self.resizing.lock();
        let (_, made) = self.pool.resize(self.credits.backed(), 0, None);
        made
    }

    /// Queues the work that makes more buffers. In any context.
    pub(crate) fn grow_later(self: &Arc<Self>) {
        // An error means that the work is queued already.
        let _ = self.queue.enqueue(self.clone());
    }

    /// Makes buffers for replies to callbacks, because nfsd has bound a backchannel. May sleep.
    pub(crate) fn bind(&self) {
        self.is_bound.store(true, Release);
        self.resize(CreditAccount::backed);
    }

    /// Returns true if there are buffers for replies to callbacks. In any context.
    pub(crate) fn takes_callbacks(&self) -> bool {
        self.takes_callbacks.load(Acquire)
    }

    /// Queues the work that adjusts the number of buffers. The watchdog calls this under the mutex
    /// of the table of connections, which connect requests need, so the work itself must not run
    /// here.
    pub(crate) fn tick(self: &Arc<Self>) {
        self.is_due.store(true, Release);
        self.grow_later();
    }

    /// Changes the number of buffers to what `wanted` credits need. Surplus buffers are freed
    /// later. May sleep.
    // Out of line, to keep the frame out of the watchdog's tick.
    #[inline(never)]
    fn resize(&self, wanted: impl FnOnce(&CreditAccount) -> u32) {
        let _resizing = self.resizing.lock();
        let callbacks = self.callbacks();
        let limit = Some(settings::RECEIVE_BUFFERS.get());
        let (backed, made) = self.pool.resize(wanted(&self.credits), callbacks, limit);
        self.credits.set_backed(backed);
        warn_if_short(made);
    }

    /// Returns the number of replies to callbacks that buffers exist for. Makes the buffers,
    /// regardless of the budget, if a backchannel is bound. Under the mutex; may sleep.
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

/// Warns once if buffers could not be made for lack of memory.
fn warn_if_short(made: Result) {
    if made == Err(ENOMEM) {
        pr_warn_once!("Receive buffers: no memory for more, granting fewer credits\n");
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Receives: the Receive buffers of a connection, whose number follows its credits.
//!
//! The path of a Call never allocates buffers. When a grant comes near the number of backed
//! credits, work on the workqueue makes more buffers within the host's share of those of the device. The watchdog
//! frees the buffers that a client no longer needs and repeats failed allocations. Buffers for
//! replies to callbacks are made when nfsd binds a backchannel; no callback is sent before they
//! exist.
//!
//! # Locking
//!
//! A mutex serialises changes of the number of buffers. The endpoint reads and updates the credits
//! under that mutex, so that no change is based on a stale number.

use super::call::CallState;
use crate::svc::{
    pages::host::Host,
    settings, //
};
use kernel::{
    new_mutex, pr_warn_once,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            AtomicFlag,
            Full,
            Release, //
        },
        Arc,
        Mutex,
        MutexGuard, //
    },
};
use rdma::recv::pool::ReceivePool;
use sunrpc::callback::SLOTS;
use svcrdma_proto::{
    credits::START,
    receives::backed, //
};

/// The Receive buffers of a connection. The endpoint owns them.
#[pin_data]
pub(crate) struct Receives {
    pool: Arc<ReceivePool<CallState>>,
    /// The host, whose budget counts the buffers.
    host: Arc<Host>,
    /// True once nfsd has bound a backchannel.
    is_bound: AtomicFlag,
    /// True if there are buffers for replies to callbacks.
    takes_callbacks: AtomicFlag,
    /// True if the watchdog has asked for a change of the buffers.
    is_due: AtomicFlag,
    #[pin]
    resizing: Mutex<()>,
}

/// The right to change the number of buffers.
pub(crate) struct Resizing<'a> {
    receives: &'a Receives,
    _guard: MutexGuard<'a, ()>,
}

impl Receives {
    /// Creates an empty set of buffers, which will be in `pool` and count for `host`. May sleep.
    pub(crate) fn new(pool: Arc<ReceivePool<CallState>>, host: Arc<Host>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                pool,
                host,
                is_bound: AtomicFlag::new(false),
                takes_callbacks: AtomicFlag::new(false),
                is_due: AtomicFlag::new(false),
                resizing <- new_mutex!((), "svcrdma resizing"),
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

    /// Makes and posts the first buffers of a new queue pair with up to `limit` credits, regardless
    /// of the budget. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or an error of the DMA mapping. `EIO` if the driver has not taken all: a message that
    /// finds no Receive ends a connection over iWARP.
    pub(crate) fn begin(&self, limit: u32) -> Result {
        let _resizing = self.resizing.lock();
        let (_, made) = self.pool.resize(START.min(limit).max(1), 0, None);
        made
    }

    /// Records that nfsd has bound a backchannel. The next change makes buffers for replies to
    /// callbacks.
    pub(crate) fn bind(&self) {
        self.is_bound.store(true, Release);
    }

    /// Returns true if there are buffers for replies to callbacks. In any context.
    pub(crate) fn takes_callbacks(&self) -> bool {
        self.takes_callbacks.load(Acquire)
    }

    /// Records that the watchdog asks for a change.
    pub(crate) fn set_due(&self) {
        self.is_due.store(true, Release);
    }

    /// Returns true once after [`Self::set_due`].
    pub(crate) fn is_due(&self) -> bool {
        self.is_due.xchg(false, Full)
    }

    /// Waits for the right to change the number of buffers. May sleep.
    pub(crate) fn lock(&self) -> Resizing<'_> {
        Resizing {
            receives: self,
            _guard: self.resizing.lock(),
        }
    }
}

impl Resizing<'_> {
    /// Changes the number of buffers to what `wanted` credits and `callbacks` replies to callbacks
    /// need. Surplus buffers are freed later. Returns the number of credits that buffers back. May
    /// sleep.
    pub(crate) fn resize(&self, wanted: u32, callbacks: u32) -> u32 {
        let Receives { pool, host, .. } = self.receives;
        let limit = host.receives_share(settings::RECEIVE_BUFFERS.get());
        let (backed, made) = pool.resize(wanted, callbacks, Some(limit));
        warn_if_short(made);
        backed
    }

    /// Returns the number of replies to callbacks that buffers exist for. Makes the buffers,
    /// regardless of the budget, if a backchannel is bound; `backed` credits stay backed. May sleep.
    pub(crate) fn callbacks(&self, backed: u32) -> u32 {
        let receives = self.receives;
        if receives.takes_callbacks() {
            return SLOTS;
        }
        if !receives.is_bound.load(Acquire) {
            return 0;
        }
        let (_, made) = receives.pool.resize(backed, SLOTS, None);
        let is_made = made.is_ok();
        warn_if_short(made);
        if !is_made {
            return 0;
        }
        receives.takes_callbacks.store(true, Release);
        SLOTS
    }
}

/// Warns once if buffers could not be made for lack of memory.
fn warn_if_short(made: Result) {
    if made == Err(ENOMEM) {
        pr_warn_once!("Receive buffers: no memory for more, granting fewer credits\n");
    }
}

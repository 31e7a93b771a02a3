// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! Completions are handled by the RDMA core's own workqueue (`IB_POLL_WORKQUEUE`): in process
//! context, in parallel with everything else, and they must not sleep for long.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::device::Pd;
use crate::abstractions::bindings;
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::Arc, //
};

/// How a completion queue came to be.
enum Origin {
    /// Allocated.
    Owned,
    /// So many entries of a queue that the RDMA core shares between users.
    Pool(u32),
}

/// A completion queue, or a share of one.
///
/// # Invariants
///
/// `cq` is a live queue of the device of `pd`, made as `origin` says.
pub(crate) struct Cq {
    cq: NonNull<bindings::ib_cq>,
    origin: Origin,
    _pd: Arc<Pd>,
}

// SAFETY: Verbs may be called on any thread.
unsafe impl Send for Cq {}
// SAFETY: As above.
unsafe impl Sync for Cq {}

impl Cq {
    /// Allocates a queue of `entries` on completion vector `vector`. May sleep.
    pub(crate) fn new(pd: &Arc<Pd>, entries: u32, vector: u32) -> Result<Self> {
        // SAFETY: `pd` holds the device.
        let cq = unsafe { bindings::ib_alloc_cq(pd.device_ptr(), entries, vector) };
        Self::from_result(cq, Origin::Owned, pd)
    }

    /// Takes a share of `entries` of one of the device's shared queues. May sleep.
    pub(crate) fn share(pd: &Arc<Pd>, entries: u32, vector: u32) -> Result<Self> {
        let context = bindings::ib_poll_context_IB_POLL_WORKQUEUE;
        // CAST: There are less than 2^31 completion vectors.
        // SAFETY: `pd` holds the device.
        let cq =
            unsafe { bindings::ib_cq_pool_get(pd.device_ptr(), entries, vector as c_int, context) };
        Self::from_result(cq, Origin::Pool(entries), pd)
    }

    fn from_result(cq: *mut bindings::ib_cq, origin: Origin, pd: &Arc<Pd>) -> Result<Self> {
        // INVARIANT: The queue was just made.
        Ok(Self {
            cq: NonNull::new(from_err_ptr(cq)?).ok_or(ENOMEM)?,
            origin,
            _pd: pd.clone(),
        })
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::ib_cq {
        self.cq.as_ptr()
    }

    /// Waits until the completions that are being handled are done. Sleeps; not from a handler.
    pub(super) fn flush(&self) {
        // SAFETY: By the type invariant; the queue has work as its context is the workqueue.
        unsafe { bindings::flush_cq(self.as_ptr()) };
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        match self.origin {
            // SAFETY: By the type invariant; queue pairs hold the queues they use.
            Origin::Owned => unsafe { bindings::ib_free_cq(self.as_ptr()) },
            // SAFETY: As above.
            Origin::Pool(entries) => unsafe { bindings::ib_cq_pool_put(self.as_ptr(), entries) },
        }
    }
}

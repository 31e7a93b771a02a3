// SPDX-License-Identifier: GPL-2.0

//! Receive queues: shared ones, where the messages of all connections of a device arrive, and
//! those of one queue pair.
//!
//! [`Receives`] has a queue and its buffers, which live in a [`ReceivePool`].
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    device::Pd,
    qp::Handler,
    receive_pool::ReceivePool, //
};
use crate::abstractions::{
    bindings,
    workqueue::OwnedQueue, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

/// The queue; when the last reference goes it is destroyed, and then all buffers are with nobody,
/// or with a [`Receive`](super::receive::Receive). Dropping it sleeps.
///
/// # Invariants
///
/// `srq` is a live queue whose context is `pool`, made of the `pd` that the pool has until then.
pub(super) struct Srq<H: Handler> {
    srq: NonNull<bindings::ib_srq>,
    pool: Arc<ReceivePool<H>>,
}

// SAFETY: Verbs may be called on any thread, and the pool is `Send` and `Sync`.
unsafe impl<H: Handler> Send for Srq<H> {}
// SAFETY: As above.
unsafe impl<H: Handler> Sync for Srq<H> {}

impl<H: Handler> Srq<H> {
    /// Makes a queue for as many buffers as `pool` may have, all of the pool's `pd`.
    fn new(pool: &Arc<ReceivePool<H>>, pd: &Pd) -> Result<Arc<Self>> {
        let mut attr: bindings::ib_srq_init_attr = super::zeroed();
        attr.event_handler = Some(Self::event);
        attr.srq_context = Arc::as_ptr(pool).cast_mut().cast();
        // CAST: The caller has cut `max` to the device's limit.
        attr.attr.max_wr = pool.max as u32;
        attr.attr.max_sge = 1;
        attr.srq_type = bindings::ib_srq_type_IB_SRQT_BASIC;
        // SAFETY: `pd` is live, and `attr` is filled in; `Self` keeps the pool.
        let srq = from_err_ptr(unsafe { bindings::ib_create_srq(pd.as_ptr(), &mut attr) })?;
        // INVARIANT: As just made.
        let srq = Self {
            srq: NonNull::new(srq).ok_or(ENOMEM)?,
            pool: pool.clone(),
        };
        Ok(Arc::new(srq, GFP_KERNEL)?)
    }

    /// Asks the device to say when fewer than `limit` buffers are on the queue. May sleep.
    pub(super) fn watch(&self, limit: u32) -> Result {
        let mut attr: bindings::ib_srq_attr = pin_init::zeroed();
        attr.srq_limit = limit;
        // SAFETY: By the type invariant; `attr` is only read.
        to_result(unsafe {
            bindings::ib_modify_srq(
                self.as_ptr(),
                &mut attr,
                bindings::ib_srq_attr_mask_IB_SRQ_LIMIT,
            )
        })
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::ib_srq {
        self.srq.as_ptr()
    }

    /// # Safety
    ///
    /// The RDMA core calls this for a queue that [`Self::new`] has made, in any context.
    unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
        // CAST: `new` has set it to this type.
        // SAFETY: The queue keeps the pool.
        let pool = unsafe { ArcBorrow::from_raw(context.cast::<ReceivePool<H>>().cast_const()) };
        // SAFETY: By the safety requirements of this function.
        match unsafe { (*event).event } {
            bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED => pool.grow_later(),
            bindings::ib_event_type_IB_EVENT_SRQ_ERR => pool.set_broken(),
            _ => {}
        }
    }
}

impl<H: Handler> Drop for Srq<H> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; queue pairs hold the queue they use.
        unsafe { bindings::ib_destroy_srq(self.as_ptr()) };
        self.pool.unmap_all();
    }
}

/// Buffers that a shared queue begins with at least.
const LEAST: usize = 16;

/// A receive queue and its buffers. Dropping it ends posting; the queue goes with the last queue
/// pair that uses it, and the buffers with the last [`Receive`](super::receive::Receive).
pub(crate) struct Receives<H: Handler>(Arc<ReceivePool<H>>);

impl<H: Handler> Receives<H> {
    /// Makes a shared queue for `max` buffers and posts `count` of them, or, if there is no memory
    /// for all, at least [`LEAST`], and the rest later. More are made on `queue` when the device says
    /// that these run low. May sleep.
    pub(crate) fn shared(
        pd: &Arc<Pd>,
        count: usize,
        max: usize,
        queue: Arc<OwnedQueue>,
    ) -> Result<Self> {
        let pool = ReceivePool::new(pd, count, max, queue)?;
        let srq = Srq::new(&pool, pd)?;
        pool.set_srq(srq);
        let this = Self(pool);
        this.0.begin(LEAST)?;
        Ok(this)
    }

    /// Makes buffers, up to `max`, for the receive queue of a queue pair that is made later. May
    /// sleep.
    pub(crate) fn own(pd: &Arc<Pd>, max: usize, queue: Arc<OwnedQueue>) -> Result<Self> {
        Ok(Self(ReceivePool::new(pd, 0, max, queue)?))
    }

    pub(super) fn pool(&self) -> &Arc<ReceivePool<H>> {
        &self.0
    }

    /// Makes and posts up to `count` more buffers. May sleep.
    pub(crate) fn grow(&self, count: usize) -> Result {
        self.0.grow(count)
    }

    /// Tries again what has failed: to post buffers, and to make more.
    pub(crate) fn retry(&self) {
        self.0.retry();
    }

    /// The most buffers that there may ever be.
    pub(crate) fn max(&self) -> usize {
        self.0.max
    }

    /// The number of buffers that there are.
    pub(crate) fn count(&self) -> usize {
        self.0.count()
    }

    /// Whether the device says that the queue has failed: no message comes in any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.0.is_broken()
    }

    /// The number of those that messages can come in, or are in: some may wait to be posted, as the
    /// driver or the IOMMU had no room.
    pub(crate) fn usable(&self) -> usize {
        self.0.usable()
    }
}

impl<H: Handler> Drop for Receives<H> {
    fn drop(&mut self) {
        self.0.close();
    }
}

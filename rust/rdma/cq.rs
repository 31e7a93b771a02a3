// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! Completions are handled by the RDMA core's own workqueue (`IB_POLL_WORKQUEUE`): in process
//! context, in parallel with everything else, and they must not sleep for long.
//!
//! The queues are our own, and not from the RDMA core's pool (`ib_cq_pool_get`): whoever drains a
//! queue pair there with `ib_drain_qp` may copy completions of ours and handle them when our queue
//! pair is long gone.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::device::Pd;
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    ffi::c_void,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        Arc, //
    },
};

/// The work that completes in a queue: one kind, so that the queues of Receives and of all else are handled at
/// the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Completes {
    /// Sends, RDMA Reads and Writes, and the like.
    Sends,
    /// Receives.
    Receives,
}

/// Says if a completion queue works, also when the queue is gone.
pub struct Health(AtomicFlag);

impl Health {
    /// Returns true if the device has reported that the queue has failed: nothing completes any more.
    pub fn is_broken(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// A completion queue.
///
/// # Invariants
///
/// `cq` is a live queue of the device of `pd`, whose context is `health`.
pub struct Cq {
    cq: NonNull<bindings::ib_cq>,
    completes: Completes,
    vector: u32,
    /// Entries, and those that are not shared out.
    entries: i32,
    room: Atomic<i32>,
    health: Arc<Health>,
    pd: Arc<Pd>,
}

// SAFETY: Verbs may be called on any thread.
unsafe impl Send for Cq {}
// SAFETY: As above.
unsafe impl Sync for Cq {}

impl Cq {
    /// Allocates a queue of `entries` on completion vector `vector`. May sleep.
    pub fn new(pd: &Arc<Pd>, completes: Completes, entries: u32, vector: u32) -> Result<Arc<Self>> {
        let room = i32::try_from(entries).map_err(|_| EINVAL)?;
        let health = Arc::new(Health(AtomicFlag::new(false)), GFP_KERNEL)?;
        // SAFETY: `pd` holds the device.
        let cq = unsafe { bindings::ib_alloc_cq(pd.device_ptr(), entries, vector) };
        // INVARIANT: The queue was just made; its context is set below.
        let this = Self {
            cq: NonNull::new(from_err_ptr(cq)?).ok_or(ENOMEM)?,
            completes,
            vector,
            entries: room,
            room: Atomic::new(room),
            health,
            pd: pd.clone(),
        };
        let context = Arc::as_ptr(&this.health).cast_mut().cast();
        // Drivers look at the handler first, so it is set last.
        // SAFETY: The queue is live, and goes before `health`.
        unsafe { (&raw mut (*cq).cq_context).write_volatile(context) };
        // SAFETY: As above.
        unsafe { (&raw mut (*cq).event_handler).write_volatile(Some(Self::event)) };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// # Safety
    ///
    /// The RDMA core calls this for a queue that [`Self::new`] has made, in any context.
    unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: By the safety requirements of this function.
        if unsafe { (*event).event } == bindings::ib_event_type_IB_EVENT_CQ_ERR {
            // CAST: `new` has set it to this type.
            // SAFETY: The queue goes before its health.
            unsafe { (*context.cast::<Health>()).0.store(true, Relaxed) };
        }
    }

    /// Returns true if the device has reported that the queue has failed.
    pub fn is_broken(&self) -> bool {
        self.health.is_broken()
    }

    /// Returns true if nobody has a share of it.
    pub fn is_idle(&self) -> bool {
        self.room.load(Relaxed) == self.entries
    }

    /// The completion vector that it is on.
    pub fn vector(&self) -> u32 {
        self.vector
    }

    /// Sets `entries` of the queue aside for one user; none if there are not as many.
    pub fn share(self: &Arc<Self>, entries: u32) -> Option<Share> {
        let wanted = i32::try_from(entries).ok()?;
        // INVARIANT: `wanted` was taken off `room`, or is given back at once by dropping this.
        let share = Share {
            cq: self.clone(),
            entries: wanted,
        };
        (self.room.fetch_sub(wanted, Full) >= wanted).then_some(share)
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::ib_cq {
        self.cq.as_ptr()
    }

    /// Waits until the worker has handled what it has taken. Sleeps; not from a handler.
    pub(super) fn flush(&self) {
        // SAFETY: By the type invariant; the queue has work as its context is the workqueue.
        unsafe { bindings::flush_cq(self.as_ptr()) };
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; queue pairs hold the queues they use.
        unsafe { bindings::ib_free_cq(self.as_ptr()) };
    }
}

/// Entries of a queue that are one user's.
///
/// # Invariants
///
/// `entries` were taken off the `room` of `cq`.
pub struct Share {
    cq: Arc<Cq>,
    entries: i32,
}

impl Share {
    /// The queue.
    pub(super) fn cq(&self) -> &Cq {
        &self.cq
    }

    /// Says if the queue works.
    pub fn health(&self) -> Arc<Health> {
        self.cq.health.clone()
    }

    /// Whether this is what queue pairs of `pd` need: of their device, for such work, and with at
    /// least `entries`.
    pub(super) fn fits(&self, pd: &Pd, completes: Completes, entries: u32) -> bool {
        self.cq.pd.device_ptr() == pd.device_ptr()
            && self.cq.completes == completes
            && i64::from(self.entries) >= i64::from(entries)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.cq.room.add(self.entries, Relaxed);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! The RDMA core's workqueue polls completion queues (`IB_POLL_WORKQUEUE`): handlers of completions
//! run in process context, and one worker at a time serves a queue.
//!
//! The queues are not taken from the RDMA core's pool (`ib_cq_pool_get`). Another user of a pooled
//! queue may drain its own queue pair there with `ib_drain_qp`, which polls the queue: it may take
//! completions of this crate's queue pairs off the queue and handle them after those queue pairs
//! are destroyed.
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

/// The kind of work that completes in a queue. Receives and other work have separate queues, which
/// are polled in parallel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Completes {
    /// Work of send queues: Sends, RDMA Reads, RDMA Writes, registrations and invalidations.
    Sends,
    /// Work of receive queues.
    Receives,
}

/// The health of a completion queue. It outlives the queue; may be read in any context.
pub struct Health(AtomicFlag);

impl Health {
    /// Returns true if the device has reported an error of the queue. No work completes any more.
    pub fn is_broken(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// A completion queue that several queue pairs share.
///
/// Each queue pair has a [`Share`] of the entries, so the queue cannot overflow. Lock-free; queue
/// pairs hold references through their shares.
///
/// # Invariants
///
/// - `cq` is a live queue of the device of `pd`, and its context is `health`.
/// - `room` plus the entries of all shares is `entries`.
pub struct Cq {
    cq: NonNull<bindings::ib_cq>,
    completes: Completes,
    /// Entries of the queue.
    entries: i32,
    /// Entries that belong to no share.
    room: Atomic<i32>,
    health: Arc<Health>,
    pd: Arc<Pd>,
}

// SAFETY: Verbs may be called on any thread.
unsafe impl Send for Cq {}
// SAFETY: Verbs may be called on several threads at once, and all other state is atomic or
// constant.
unsafe impl Sync for Cq {}

impl Cq {
    /// Allocates a queue of `entries` entries on completion vector `vector`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too many entries, `ENOMEM`, or the driver's error.
    pub fn new(pd: &Arc<Pd>, completes: Completes, entries: u32, vector: u32) -> Result<Arc<Self>> {
        let room = i32::try_from(entries).map_err(|_| EINVAL)?;
        let health = Arc::new(Health(AtomicFlag::new(false)), GFP_KERNEL)?;
        // SAFETY: `pd` holds the device.
        let cq = unsafe { bindings::ib_alloc_cq(pd.device_ptr(), entries, vector) };
        // INVARIANT: The queue was just allocated; its context is set below. There are no shares.
        let this = Self {
            cq: NonNull::new(from_err_ptr(cq)?).ok_or(ENOMEM)?,
            completes,
            entries: room,
            room: Atomic::new(room),
            health,
            pd: pd.clone(),
        };
        let context = Arc::as_ptr(&this.health).cast_mut().cast();
        // Drivers check the handler before they use the context, so the handler is set last.
        // SAFETY: The queue is live. `drop` frees it before `health`.
        unsafe { (&raw mut (*cq).cq_context).write_volatile(context) };
        // SAFETY: The queue is live, and its context is set.
        unsafe { (&raw mut (*cq).event_handler).write_volatile(Some(Self::event)) };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// Marks the queue broken if the event is an error of the queue. In any context.
    ///
    /// # Safety
    ///
    /// The RDMA core calls this with the context of a queue that [`Self::new`] has allocated.
    unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: By the safety requirements of this function.
        if unsafe { (*event).event } == bindings::ib_event_type_IB_EVENT_CQ_ERR {
            // CAST: `new` has set the context to a `Health`.
            // SAFETY: The queue is freed before its `Health`.
            unsafe { (*context.cast::<Health>()).0.store(true, Relaxed) };
        }
    }

    /// Returns true if the device has reported an error of the queue. In any context.
    pub fn is_broken(&self) -> bool {
        self.health.is_broken()
    }

    /// Returns true if the queue has no shares.
    pub fn is_idle(&self) -> bool {
        self.room.load(Relaxed) == self.entries
    }

    /// Returns the number of entries that belong to shares.
    pub fn used(&self) -> i32 {
        self.entries.saturating_sub(self.room.load(Relaxed))
    }

    /// Reserves `entries` entries. Returns `None` if the queue has fewer left. In any context.
    pub fn share(self: &Arc<Self>, entries: u32) -> Option<Share> {
        let wanted = i32::try_from(entries).ok()?;
        // INVARIANT: `wanted` is taken off `room` below. If `room` was smaller, the share is
        // dropped at once, which gives it back.
        let share = Share {
            cq: self.clone(),
            entries: wanted,
        };
        (self.room.fetch_sub(wanted, Full) >= wanted).then_some(share)
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::ib_cq {
        self.cq.as_ptr()
    }

    /// Waits until the worker has handled the completions that it has polled. Sleeps. Must not be
    /// called by a handler of a completion.
    pub(super) fn flush(&self) {
        // SAFETY: The queue is live by the type invariant. It is polled by a workqueue, so its
        // `work` is initialised.
        unsafe { bindings::flush_cq(self.as_ptr()) };
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: The queue is live by the type invariant. Queue pairs hold shares, which hold this
        // value, so no queue pair uses the queue.
        unsafe { bindings::ib_free_cq(self.as_ptr()) };
    }
}

/// Entries of a completion queue that are reserved for one queue pair. Dropping it gives them back.
///
/// # Invariants
///
/// `entries` entries were taken off the `room` of `cq`.
pub struct Share {
    cq: Arc<Cq>,
    entries: i32,
}

impl Share {
    /// Returns the queue.
    pub(super) fn cq(&self) -> &Cq {
        &self.cq
    }

    /// Returns the health of the queue, which outlives it.
    pub fn health(&self) -> Arc<Health> {
        self.cq.health.clone()
    }

    /// Returns true if a queue pair of `pd` can use this share for `completes` work of up to
    /// `entries` entries.
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

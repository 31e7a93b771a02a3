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
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};
use support::{
    figure::Figure,
    RateLimit, //
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
pub struct Health {
    is_broken: AtomicFlag,
    /// Handled completions of Receives and of work of send queues; wraps around. The worker of the
    /// queue writes it.
    handled: Figure<u32>,
}

impl Health {
    /// Returns true if the device has reported an error of the queue, or if a drain has found that
    /// the queue completes no work any more.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Relaxed)
    }

    /// Counts a completion.
    ///
    /// # Safety
    ///
    /// The worker of `cq` calls this, a queue that [`Cq::new`] has allocated.
    #[inline]
    pub(super) unsafe fn count(cq: *mut bindings::ib_cq) {
        // CAST: `new` has passed a `Health` as the context.
        // SAFETY: The queue is live while its worker runs, and is freed before its `Health`.
        let handled = unsafe { &(*(*cq).cq_context.cast::<Self>()).handled };
        handled.add(1);
    }
}

/// Memory that completions may still name. It stays in its box.
pub(super) type Remains = KBox<dyn Send>;

/// The fields of [`Cq`] protected by its mutex.
struct Reservations {
    /// Entries that belong to no reservation.
    room: u32,
    /// The number of reservations.
    count: usize,
    /// Memory that completions of queue pairs with a failed drain may still name. Freed after the
    /// queue.
    remains: KVec<Remains>,
}

/// A completion queue that several queue pairs share.
///
/// Each queue pair has a [`CqReservation`], so the queue cannot overflow. Queue pairs hold
/// references through their reservations.
///
/// # Locking
///
/// A mutex protects the reservations. It is a leaf.
///
/// # Invariants
///
/// - `cq` is a live queue of the device of `pd`, and its context is `health`.
/// - The `room` of `reservations` plus the entries of all reservations is `entries`. `count` is
///   their number, and `remains` has room for one item of each.
#[pin_data(PinnedDrop)]
pub struct Cq {
    cq: NonNull<bindings::ib_cq>,
    completes: Completes,
    /// Entries of the queue.
    entries: u32,
    #[pin]
    reservations: Mutex<Reservations>,
    health: Arc<Health>,
    pd: Arc<Pd>,
}

// SAFETY: Verbs may be called on any thread.
unsafe impl Send for Cq {}
// SAFETY: Verbs may be called on several threads at once, and all other state is constant or under a
// mutex.
unsafe impl Sync for Cq {}

impl Cq {
    /// Allocates a queue of `entries` entries on completion vector `vector`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the driver's error.
    pub fn new(pd: &Arc<Pd>, completes: Completes, entries: u32, vector: u32) -> Result<Arc<Self>> {
        let health = Health {
            is_broken: AtomicFlag::new(false),
            handled: Figure::default(),
        };
        let health = Arc::new(health, GFP_KERNEL)?;
        let context = Arc::as_ptr(&health).cast_mut().cast();
        let handler =
            Some(Self::event as unsafe extern "C" fn(*mut bindings::ib_event, *mut c_void));
        // SAFETY: `pd` holds the device. The queue is freed before `health`, which is its context.
        let cq =
            unsafe { bindings::ib_alloc_cq(pd.device_ptr(), context, handler, entries, vector) };
        let cq = NonNull::new(from_err_ptr(cq)?).ok_or(ENOMEM)?;
        let reservations = Reservations {
            room: entries,
            count: 0,
            remains: KVec::new(),
        };
        // INVARIANT: The queue was just allocated; its context is `health`. There are no
        // reservations.
        let made = Arc::pin_init(
            pin_init!(Self {
                cq,
                completes,
                entries,
                reservations <- new_mutex!(reservations, "svcrdma completion queue"),
                health: health.clone(),
                pd: pd.clone(),
            }),
            GFP_KERNEL,
        );
        made.inspect_err(|_| {
            // `health` is still alive, because the device may report an event until then.
            // SAFETY: The queue was just allocated, and no queue pair uses it.
            unsafe { bindings::ib_free_cq(cq.as_ptr()) };
        })
    }

    /// Marks the queue broken if the event is an error of the queue. In any context.
    ///
    /// # Safety
    ///
    /// The RDMA core calls this with the context of a queue that [`Self::new`] has allocated.
    unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: By the safety requirements of this function.
        if unsafe { (*event).event } == bindings::ib_event_type_IB_EVENT_CQ_ERR {
            // CAST: `new` has passed a `Health` as the context.
            // SAFETY: The queue is freed before its `Health`.
            unsafe { (*context.cast::<Health>()).is_broken.store(true, Relaxed) };
        }
    }

    /// As [`Health::is_broken`]. In any context.
    pub fn is_broken(&self) -> bool {
        self.health.is_broken()
    }

    /// Returns true if the queue has no reservations. May sleep.
    pub fn is_idle(&self) -> bool {
        self.reservations.lock().count == 0
    }

    /// Returns the number of entries that belong to reservations. May sleep.
    pub fn used(&self) -> u32 {
        self.entries.saturating_sub(self.reservations.lock().room)
    }

    /// Returns true if the queue gets no more queue pairs: it is broken, or it keeps memory of a queue
    /// pair that could not be drained, and has to be freed for that. May sleep.
    pub fn is_retired(&self) -> bool {
        self.is_broken() || !self.reservations.lock().remains.is_empty()
    }

    /// Reserves `entries` entries. Returns `None` if the queue has fewer left, or keeps memory of a
    /// queue pair that could not be drained. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn reserve(self: &Arc<Self>, entries: u32) -> Result<Option<CqReservation>> {
        let mut reservations = self.reservations.lock();
        // Otherwise the queue might never become idle, and would keep ever more memory.
        if !reservations.remains.is_empty() {
            return Ok(None);
        }
        let Some(room) = reservations.room.checked_sub(entries) else {
            return Ok(None);
        };
        let count = reservations.count.saturating_add(1);
        reservations.remains.reserve(count, GFP_KERNEL)?;
        // INVARIANT: The reservation has these entries, and room for its remains.
        (reservations.room, reservations.count) = (room, count);
        Ok(Some(CqReservation {
            cq: self.clone(),
            entries,
        }))
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::ib_cq {
        self.cq.as_ptr()
    }

    /// Makes the worker poll the queue, as if the device had signalled a completion. In any context.
    pub(super) fn poll(&self) {
        // SAFETY: The queue is live by the type invariant, and is polled by a workqueue.
        unsafe { bindings::poll_cq(self.as_ptr()) };
    }

    /// Waits until the worker has handled the completions that it has polled. Sleeps. Must not be
    /// called by a handler of a completion.
    pub(super) fn flush(&self) {
        // SAFETY: The queue is live by the type invariant. It is polled by a workqueue, so its
        // `work` is initialised.
        unsafe { bindings::flush_cq(self.as_ptr()) };
    }

    /// Returns the number of handled completions, which wraps around. In any context.
    pub(super) fn handled(&self) -> u32 {
        self.health.handled.get()
    }

    /// Marks the queue broken because it completes no work any more. In process context.
    pub(super) fn stop(&self) {
        if !self.health.is_broken.xchg(true, Relaxed) {
            pr_err!(
                "{}: completion queue stopped, closing its connections\n",
                self.pd.device().name()
            );
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Cq {
    fn drop(self: Pin<&mut Self>) {
        // Waits for the worker. No handler of a completion runs afterwards, so the remains may go.
        // SAFETY: The queue is live by the type invariant. Queue pairs hold reservations, which hold
        // this value, so no queue pair uses the queue.
        unsafe { bindings::ib_free_cq(self.as_ptr()) };
    }
}

/// Entries of a completion queue that are reserved for one queue pair. Dropping it gives them back,
/// and may sleep.
///
/// # Invariants
///
/// The reservation counts in the `reservations` of `cq`, with `entries` entries.
pub struct CqReservation {
    cq: Arc<Cq>,
    entries: u32,
}

impl CqReservation {
    /// Returns the queue.
    pub(super) fn cq(&self) -> &Cq {
        &self.cq
    }

    /// Returns the health of the queue, which outlives it.
    pub fn health(&self) -> Arc<Health> {
        self.cq.health.clone()
    }

    /// Returns true if a queue pair of `pd` can use this reservation for `completes` work of up to
    /// `entries` entries.
    pub(super) fn fits(&self, pd: &Pd, completes: Completes, entries: u32) -> bool {
        self.cq.pd.device_ptr() == pd.device_ptr()
            && self.cq.completes == completes
            && self.entries >= entries
    }

    /// Keeps `remains` until the queue is freed, which gets no more queue pairs. May sleep.
    pub(super) fn keep(&self, remains: Remains) {
        let (is_first, refused) = {
            let mut reservations = self.cq.reservations.lock();
            (
                reservations.remains.is_empty(),
                reservations.remains.push_within_capacity(remains),
            )
        };
        if is_first && !self.cq.is_broken() && RateLimit::Others.allows() {
            pr_warn!(
                "{}: a queue pair does not complete its work, keeping its memory until the other \
                 connections of its completion queue end\n",
                self.cq.pd.device().name()
            );
        }
        if let Err(refused) = refused {
            // Not reached: the reservation has room for it. Memory that completions may name is
            // lost rather than freed.
            core::mem::forget(refused);
        }
    }
}

impl Drop for CqReservation {
    fn drop(&mut self) {
        let mut reservations = self.cq.reservations.lock();
        // INVARIANT: The entries of this reservation are free again.
        reservations.room = reservations.room.saturating_add(self.entries);
        reservations.count = reservations.count.saturating_sub(1);
    }
}

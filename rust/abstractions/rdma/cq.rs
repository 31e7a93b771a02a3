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

use super::device::Pd;
use crate::abstractions::bindings;
use core::{
    pin::Pin,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    ffi::c_void,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};

/// What completes in a queue. Not both: completions of Sends are handled in order by one worker,
/// while whoever drains a queue handles those of Receives beside it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completes {
    /// Sends, RDMA Reads and Writes, and the like.
    Sends,
    /// Receives.
    Receives,
}

/// A completion queue.
///
/// # Invariants
///
/// `cq` is a live queue of the device of `pd`.
#[pin_data(PinnedDrop)]
pub(crate) struct Cq {
    cq: NonNull<bindings::ib_cq>,
    completes: Completes,
    vector: u32,
    /// Entries that are not shared out.
    room: Atomic<i32>,
    /// Whether the device says that it has failed.
    is_broken: AtomicFlag,
    /// Held while completions are handled out of turn, see [`Cq::drain`].
    #[pin]
    direct: Mutex<()>,
    pd: Arc<Pd>,
}

// SAFETY: Verbs may be called on any thread.
unsafe impl Send for Cq {}
// SAFETY: As above.
unsafe impl Sync for Cq {}

impl Cq {
    /// Allocates a queue of `entries` on completion vector `vector`. May sleep.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        completes: Completes,
        entries: u32,
        vector: u32,
    ) -> Result<Arc<Self>> {
        let room = i32::try_from(entries).map_err(|_| EINVAL)?;
        // SAFETY: `pd` holds the device.
        let cq = unsafe { bindings::ib_alloc_cq(pd.device_ptr(), entries, vector) };
        let cq = NonNull::new(from_err_ptr(cq)?).ok_or(ENOMEM)?;
        let pd = pd.clone();
        // INVARIANT: The queue was just made.
        let made = Arc::pin_init(
            pin_init!(Self {
                cq,
                completes,
                vector,
                room: Atomic::new(room),
                is_broken: AtomicFlag::new(false),
                direct <- new_mutex!((), "svcrdma drain"),
                pd,
            }),
            GFP_KERNEL,
        );
        // SAFETY: The queue was just made, and nobody else has it if there is no memory for its
        // owner.
        let made = made.inspect_err(|_| unsafe { bindings::ib_free_cq(cq.as_ptr()) })?;
        // Drivers look at the handler first, so it is set last.
        // SAFETY: The queue is live, and goes before `made`.
        unsafe {
            (&raw mut (*cq.as_ptr()).cq_context)
                .write_volatile(Arc::as_ptr(&made).cast_mut().cast());
        }
        // SAFETY: As above.
        unsafe { (&raw mut (*cq.as_ptr()).event_handler).write_volatile(Some(Self::event)) };
        Ok(made)
    }

    /// # Safety
    ///
    /// The RDMA core calls this for a queue that [`Self::new`] has made, in any context.
    unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: By the safety requirements of this function.
        if unsafe { (*event).event } == bindings::ib_event_type_IB_EVENT_CQ_ERR {
            // CAST: `new` has set it to this type.
            // SAFETY: The queue goes before its owner.
            unsafe { (*context.cast::<Self>()).is_broken.store(true, Relaxed) };
        }
    }

    /// Whether the device says that it has failed: nothing completes any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Relaxed)
    }

    /// The completion vector that it is on.
    pub(crate) fn vector(&self) -> u32 {
        self.vector
    }

    /// Sets `entries` of the queue aside for one user; none if there are not as many.
    pub(crate) fn share(self: &Arc<Self>, entries: u32) -> Option<Share> {
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

    /// Handles all completions that are in the queue now, and waits until those that others have
    /// taken are handled. Sleeps; not from a handler.
    pub(super) fn drain(&self) {
        {
            // Who handles completions directly has copies of them on his stack.
            let _direct = self.direct.lock();
            self.poll();
        }
        self.flush();
    }

    /// Handles completions, as many as the queue takes: those that were there before are among
    /// them.
    fn poll(&self) {
        // SAFETY: By the type invariant.
        let mut left = unsafe { (*self.as_ptr()).cqe };
        while left > 0 {
            // SAFETY: By the type invariant.
            match unsafe { bindings::ib_process_cq_direct(self.as_ptr(), left) } {
                done if done > 0 => left = left.saturating_sub(done),
                _ => return,
            }
        }
    }

    /// Waits until the worker has handled what it has taken. Sleeps; not from a handler.
    pub(super) fn flush(&self) {
        // SAFETY: By the type invariant; the queue has work as its context is the workqueue.
        unsafe { bindings::flush_cq(self.as_ptr()) };
    }
}

#[pinned_drop]
impl PinnedDrop for Cq {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant; queue pairs hold the queues they use.
        unsafe { bindings::ib_free_cq(self.as_ptr()) };
    }
}

/// Entries of a queue that are one user's.
///
/// # Invariants
///
/// `entries` were taken off the `room` of `cq`.
pub(crate) struct Share {
    cq: Arc<Cq>,
    entries: i32,
}

impl Share {
    /// The queue.
    pub(super) fn cq(&self) -> &Cq {
        &self.cq
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

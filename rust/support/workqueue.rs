// SPDX-License-Identifier: GPL-2.0

//! Workqueues that the module owns, and periodic work.
//!
//! `kernel::workqueue` queues work, but has no function that creates a workqueue.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)
//!
//! # Context
//!
//! Process context. Creating, flushing and dropping may sleep.

use core::{
    pin::Pin,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    types::Opaque,
    workqueue::{
        Queue,
        RawWorkItem, //
    },
};

/// An unbound workqueue with a rescuer (`WQ_MEM_RECLAIM`).
///
/// The rescuer is needed because memory reclaim may wait for the work: a client on the same host
/// writes its pages to this server. Dropping the queue waits for its work and destroys it.
///
/// # Invariants
///
/// The pointer is to a workqueue that lives as long as this value.
pub struct OwnedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: A workqueue may be used and destroyed on any thread.
unsafe impl Send for OwnedQueue {}
// SAFETY: The operations on a shared workqueue may be used on any thread.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Creates a workqueue.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        // SAFETY: The function has no preconditions.
        let queue = unsafe { bindings::alloc_workqueue() };
        // INVARIANT: The workqueue lives until `drop` destroys it.
        NonNull::new(queue).map(Self).ok_or(ENOMEM)
    }

    /// Queues `work`. Any context. The work of an object runs once for each time it is queued while it
    /// is not queued.
    ///
    /// # Errors
    ///
    /// `work`, if it is queued already.
    pub fn enqueue<W, const ID: u64>(&self, work: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        // SAFETY: By the type invariant the workqueue is valid for as long as `self` is.
        unsafe { Queue::from_raw(self.0.as_ptr().cast()) }.enqueue(work)
    }

    /// Waits until all work that was queued before the call has run. Sleeps. Must not be called in
    /// work of this queue, which would wait for itself.
    pub fn flush(&self) {
        // SAFETY: By the type invariant the workqueue is live.
        unsafe { bindings::flush_workqueue(self.0.as_ptr()) };
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the workqueue is live. Nothing can queue work any more, as
        // this value is exclusively borrowed.
        unsafe { kernel::bindings::destroy_workqueue(self.0.as_ptr().cast()) };
    }
}

/// A task that [`Periodic`] runs.
pub trait Tick: Send + Sync {
    /// The time from the end of one run to the start of the next, in milliseconds.
    const MSECS: u32;

    /// Runs the task once, in a worker. May sleep.
    fn tick(self: &Arc<Self>);
}

/// Periodic work: runs [`Tick::tick`] again and again, each time [`Tick::MSECS`] after the last run
/// has ended. Dropping it waits for a run in progress; no run follows.
///
/// # Invariants
///
/// `work` was initialised with `Self::run` and is queued on `queue` only.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub struct Periodic<T: Tick> {
    #[pin]
    work: Opaque<bindings::delayed_work>,
    queue: Arc<OwnedQueue>,
    target: Arc<T>,
}

// SAFETY: Work may be queued and disabled on any thread, and the other fields are `Send`.
unsafe impl<T: Tick> Send for Periodic<T> {}
// SAFETY: A shared `Periodic` has no public operations.
unsafe impl<T: Tick> Sync for Periodic<T> {}

impl<T: Tick + 'static> Periodic<T> {
    /// Starts periodic work on `queue`. The first run is [`Tick::MSECS`] from now.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(queue: Arc<OwnedQueue>, target: Arc<T>) -> Result<Pin<KBox<Self>>> {
        let this = KBox::pin_init(
            pin_init!(Self {
                work <- Opaque::ffi_init(|slot: *mut bindings::delayed_work| {
                    // SAFETY: `slot` is valid for writes and will not move.
                    unsafe { bindings::init_delayed_work(slot.cast(), Some(Self::run)) };
                }),
                queue,
                target,
            }),
            GFP_KERNEL,
        )?;
        this.queue_again();
        Ok(this)
    }

    /// Queues the next run.
    fn queue_again(&self) {
        // SAFETY: The workqueue is live by the invariant of `OwnedQueue`. `work` is initialised,
        // and `drop` disables it before its memory is freed.
        unsafe {
            bindings::queue_delayed_work(self.queue.0.as_ptr(), self.work.get().cast(), T::MSECS)
        };
    }

    /// Runs the task, for the workqueue.
    ///
    /// # Safety
    ///
    /// - `work` is embedded in a live `Periodic<T>`.
    unsafe extern "C" fn run(work: *mut bindings::work_struct) {
        // SAFETY: By the safety requirements of this function.
        let work = unsafe { bindings::to_delayed_work(work) };
        // CAST: `work` is the first field and `Self` is `repr(C)`.
        // SAFETY: `drop` waits for this function before the memory is freed.
        let this = unsafe { &*work.cast::<Self>() };
        this.target.tick();
        this.queue_again();
    }
}

#[pinned_drop]
impl<T: Tick> PinnedDrop for Periodic<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `work` is initialised. After this call `work` does not run and cannot be queued.
        unsafe { bindings::disable_delayed_work_sync(self.work.get().cast()) };
    }
}

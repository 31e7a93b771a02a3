// SPDX-License-Identifier: GPL-2.0

//! A workqueue of our own, and work that comes back.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::{
    ops::Deref,
    pin::Pin,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    types::Opaque,
    workqueue::Queue, //
};

/// An unbound workqueue with a rescuer (`WQ_MEM_RECLAIM`): a client on the same host may wait for
/// us to free memory.
///
/// # Invariants
///
/// The pointer is to a workqueue that lives as long as this value.
pub struct OwnedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: A workqueue may be used and destroyed on any thread.
unsafe impl Send for OwnedQueue {}
// SAFETY: All operations on a shared workqueue are made for use from any thread.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Makes a workqueue.
    pub fn new() -> Result<Self> {
        // SAFETY: The function has no preconditions.
        let queue = unsafe { bindings::alloc_workqueue() };
        // INVARIANT: The workqueue lives until `drop` destroys it.
        NonNull::new(queue).map(Self).ok_or(ENOMEM)
    }

    /// Waits until all that was queued before has run. Sleeps; not from work of this queue.
    pub fn flush(&self) {
        // SAFETY: By the type invariant the workqueue is live.
        unsafe { bindings::flush_workqueue(self.0.as_ptr()) };
    }
}

impl Deref for OwnedQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: By the type invariant the workqueue is valid for as long as `self` is.
        unsafe { Queue::from_raw(self.0.as_ptr().cast()) }
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the workqueue is live, and nobody else has it.
        unsafe { kernel::bindings::destroy_workqueue(self.0.as_ptr().cast()) };
    }
}

/// What is done again and again.
pub trait Tick: Send + Sync {
    /// Milliseconds from the end of one call to the next.
    const MSECS: u32;

    /// Does it once, on a workqueue; may sleep.
    fn tick(self: &Arc<Self>);
}

/// Calls [`Tick::tick`] every [`Tick::MSECS`] after the last call has ended, until dropped.
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

// SAFETY: `work` is made to be used from any thread, the rest is `Send` itself.
unsafe impl<T: Tick> Send for Periodic<T> {}
// SAFETY: A shared `Periodic` offers nothing.
unsafe impl<T: Tick> Sync for Periodic<T> {}

impl<T: Tick + 'static> Periodic<T> {
    /// Starts; the first call comes after [`Tick::MSECS`].
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

    fn queue_again(&self) {
        // SAFETY: The workqueue is live by the invariant of `OwnedQueue`, `work` is initialised,
        // and stays until `drop` has disabled it.
        unsafe {
            bindings::queue_delayed_work(self.queue.0.as_ptr(), self.work.get().cast(), T::MSECS)
        };
    }

    /// # Safety
    ///
    /// `work` is embedded in a live `Periodic<T>`: the workqueue calls this.
    unsafe extern "C" fn run(work: *mut bindings::work_struct) {
        // SAFETY: By the safety requirements of this function.
        let work = unsafe { bindings::to_delayed_work(work) };
        // CAST: `work` is the first field and `Self` is `repr(C)`.
        // SAFETY: `drop` waits for us before the memory goes.
        let this = unsafe { &*work.cast::<Self>() };
        this.target.tick();
        this.queue_again();
    }
}

#[pinned_drop]
impl<T: Tick> PinnedDrop for Periodic<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `work` is initialised; after this call it neither runs nor can be queued.
        unsafe { bindings::disable_delayed_work_sync(self.work.get().cast()) };
    }
}

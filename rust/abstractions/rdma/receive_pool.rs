// SPDX-License-Identifier: GPL-2.0

//! The buffers that messages are received in: those of all connections of a device, or, where that
//! has no shared receive queue, of one connection.
//!
//! A buffer is posted to the queue, or belongs to a `Receive`, or is kept aside because posting
//! failed. Those that are posted to a shared queue are *lent*: a message that never ends (the peer
//! dies in the middle of a Send) takes one from the queue and never completes. Hence the pool keeps
//! a table of all buffers and frees them only after the queue is destroyed. When the device says
//! that the queue runs low, or completions show it, the pool grows by half at once, up to its
//! maximum: what is lost is made up for, and other peers' messages do not have to wait for long.
//!
//! A buffer is unmapped before anybody sees its bytes, as nfsd may write to them, and mapped again
//! when it is posted.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    device::Pd,
    qp::Handler,
    receive::Buffer,
    receive_queue::Queue,
    srq::Srq,
    transfer::{
        unmap_page,
        Direction, //
    },
};
use crate::abstractions::{
    bindings,
    workqueue::OwnedQueue, //
};
use core::ptr::NonNull;
use kernel::{
    impl_has_work, new_spinlock, new_work, pr_warn_once,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Full,
            Relaxed, //
        },
        Arc,
        ArcBorrow,
        SpinLock, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

/// What the pool's lock protects.
struct Inner<H: Handler> {
    /// The queue, from when it is made until the pool is closed.
    queue: Option<Queue<H>>,
    /// What buffers are mapped with, until the queue is destroyed.
    pd: Option<Arc<Pd>>,
    /// All buffers.
    table: KVVec<NonNull<Buffer<H>>>,
    /// Buffers that are with nobody: posting them failed, or there is no queue any more.
    aside: KVVec<NonNull<Buffer<H>>>,
    /// How many are posted. Those that peers which vanished took along are among them.
    posted: usize,
}

impl<H: Handler> Inner<H> {
    /// Below how many buffers on a shared queue more are made: a quarter of them.
    fn low_mark(&self) -> usize {
        (self.table.len() / 4).max(1)
    }

    /// Whether there are so few on a shared queue, and could be more.
    fn is_low(&self, max: usize) -> bool {
        let is_shared = matches!(self.queue, Some(Queue::Shared(_)));
        is_shared && self.posted < self.low_mark() && self.table.len() < max
    }
}

// SAFETY: The pointers are to buffers that belong to the pool, and what is in them is `Send`; that
// of `Queue::Own` is a live queue pair, to which any thread may post.
unsafe impl<H: Handler> Send for Inner<H> {}

/// The buffers of a receive queue, which [`Receives`](super::srq::Receives) owns.
///
/// # Invariants
///
/// Each buffer of `table` is a live box of its own, whose `pool` is this one. Its `addr` is there
/// if and only if it is posted, and then `pd` is there; `posted` counts those. `aside` has room for all
/// of `table`.
#[pin_data(PinnedDrop)]
pub(super) struct ReceivePool<H: Handler> {
    #[pin]
    inner: SpinLock<Inner<H>>,
    /// Where the pool grows.
    queue: Arc<OwnedQueue>,
    #[pin]
    work: Work<ReceivePool<H>>,
    /// Whether there was no memory to grow, or to begin with all buffers.
    is_short: AtomicFlag,
    /// Whether the device says that the shared queue has failed.
    is_broken: AtomicFlag,
    /// Whether a queue pair has taken it for its own queue.
    is_claimed: AtomicFlag,
    /// How many buffers there are to begin with, as soon as there is memory.
    begins_with: usize,
    /// The most buffers that there may ever be.
    pub(super) max: usize,
}

impl_has_work! {
    impl{H: Handler} HasWork<Self> for ReceivePool<H> { self.work }
}

impl<H: Handler> WorkItem for ReceivePool<H> {
    type Pointer = Arc<Self>;

    /// Grows. Sleeps.
    fn run(this: Arc<Self>) {
        // Running low because all buffers are with nfsd is no loss, but more of them help as well.
        let before = this.count();
        let missing = this.begins_with.saturating_sub(before);
        if this.grow((before / 2).max(missing).max(1)).is_err() {
            pr_warn_once!("no memory for more Receive buffers\n");
            this.is_short.store(true, Relaxed);
        }
        if this.count() > before {
            this.watch();
        } else if before >= this.max {
            // There is nothing more to be told of.
            pr_warn_once!("there can be no more Receive buffers\n");
        }
    }
}

impl<H: Handler> ReceivePool<H> {
    /// Makes one for up to `max` buffers, which has none yet. [`Self::begin`] makes `begins_with` of
    /// them. May sleep.
    pub(super) fn new(
        pd: &Arc<Pd>,
        begins_with: usize,
        max: usize,
        queue: Arc<OwnedQueue>,
    ) -> Result<Arc<Self>> {
        let inner = Inner {
            queue: None,
            pd: Some(pd.clone()),
            table: KVVec::with_capacity(max, GFP_KERNEL)?,
            aside: KVVec::with_capacity(max, GFP_KERNEL)?,
            posted: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_spinlock!(inner, "svcrdma receives"),
                queue,
                is_short: AtomicFlag::new(false),
                is_broken: AtomicFlag::new(false),
                is_claimed: AtomicFlag::new(false),
                work <- new_work!("svcrdma receives"),
                begins_with,
                max,
            }),
            GFP_KERNEL,
        )
    }

    /// Makes and posts the buffers that there are to begin with, `least` of them at once, and what
    /// there is no memory for later. May sleep.
    pub(super) fn begin(self: &Arc<Self>, least: usize) -> Result {
        if let Err(e) = self.grow(self.begins_with) {
            if self.count() < least {
                return Err(e);
            }
            self.is_short.store(true, Relaxed);
        }
        self.watch();
        Ok(())
    }

    /// Whether it maps its buffers for `pd`.
    pub(super) fn is_of(&self, pd: &Arc<Pd>) -> bool {
        let inner = self.inner.lock();
        inner.pd.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, pd))
    }

    /// Takes the pool for the queue of one queue pair, for good; whether nobody has done so.
    pub(super) fn claim(&self) -> bool {
        !self.is_claimed.xchg(true, Full)
    }

    /// Lets buffers be posted to `srq`, which was made for this pool.
    pub(super) fn set_srq(&self, srq: Arc<Srq<H>>) {
        self.inner.lock().queue = Some(Queue::Shared(srq));
    }

    /// Lets buffers be posted to `qp`.
    ///
    /// # Safety
    ///
    /// The queue pair is live, has a receive queue of its own for all buffers of this pool, and
    /// calls [`Self::close_own`] before it is destroyed.
    pub(super) unsafe fn set_own(&self, qp: NonNull<bindings::ib_qp>) {
        self.inner.lock().queue = Some(Queue::Own(qp));
    }

    pub(super) fn srq(&self) -> Option<Arc<Srq<H>>> {
        match &self.inner.lock().queue {
            Some(Queue::Shared(srq)) => Some(srq.clone()),
            _ => None,
        }
    }

    /// Lets nothing more be posted.
    pub(super) fn close(&self) {
        let queue = self.inner.lock().queue.take();
        drop(queue);
    }

    /// Lets nothing more be posted to a queue pair's own queue.
    pub(super) fn close_own(&self) {
        let mut inner = self.inner.lock();
        if matches!(inner.queue, Some(Queue::Own(_))) {
            inner.queue = None;
        }
    }

    /// The number of buffers that there are.
    pub(super) fn count(&self) -> usize {
        self.inner.lock().table.len()
    }

    /// Whether the device says that the shared queue has failed: no message comes in any more.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Relaxed)
    }

    /// The number of those that are posted, or in use until they are posted again.
    pub(super) fn usable(&self) -> usize {
        let inner = self.inner.lock();
        inner.table.len().saturating_sub(inner.aside.len())
    }

    /// Makes and posts up to `count` more buffers, as many as there is room for. May sleep.
    pub(super) fn grow(self: &Arc<Self>, count: usize) -> Result {
        for _ in 0..count {
            {
                let inner = self.inner.lock();
                if inner.queue.is_none() || inner.table.len() >= self.max {
                    return Ok(());
                }
            }
            let buffer = Buffer::new(Arc::as_ptr(self))?;
            {
                let mut inner = self.inner.lock();
                if inner.table.len() < self.max && inner.table.push_within_capacity(buffer).is_ok()
                {
                    self.post(&mut inner, buffer);
                    continue;
                }
            }
            // SAFETY: The box was just made, and the table did not take it.
            drop(unsafe { KBox::from_raw(buffer.as_ptr()) });
            return Ok(());
        }
        Ok(())
    }

    /// Has the device say when few buffers are on the queue. It need not say so if they have become few
    /// before it was asked, see [`Self::take_off`]. May sleep.
    pub(super) fn watch(&self) {
        let limit = u32::try_from(self.inner.lock().low_mark()).unwrap_or(1);
        let watched = self.srq().map_or(Ok(()), |srq| srq.watch(limit));
        // What such a device loses are the buffers that peers which vanish in a Send take with them.
        if watched.is_err() {
            pr_warn_once!("the device does not say when Receive buffers run low\n");
        }
    }

    /// Makes more buffers soon. In any context.
    pub(super) fn grow_later(self: ArcBorrow<'_, Self>) {
        // An error means that it is queued already.
        let _ = self.queue.enqueue(Arc::from(self));
    }

    /// No message comes in any more, as the shared queue has failed.
    pub(super) fn set_broken(&self) {
        self.is_broken.store(true, Relaxed);
    }

    /// Maps and posts `buffer`, which is with nobody, or keeps it aside.
    fn post(&self, inner: &mut Inner<H>, buffer: NonNull<Buffer<H>>) {
        if self.try_post(inner, buffer).is_err() {
            // There is room by the type invariant; if not, the table still frees the buffer.
            let _ = inner.aside.push_within_capacity(buffer);
        }
    }

    fn try_post(&self, inner: &mut Inner<H>, buffer: NonNull<Buffer<H>>) -> Result {
        let (Some(queue), Some(pd)) = (&inner.queue, &inner.pd) else {
            return Err(ENODEV);
        };
        // SAFETY: The buffer is live by the type invariant, with nobody, and stays until the queue is
        // destroyed, which keeps the pool; a queue pair is live as `close_own` takes the lock that we
        // hold.
        unsafe { Buffer::post(buffer, queue, pd)? };
        inner.posted = inner.posted.saturating_add(1);
        Ok(())
    }

    /// Tries again what has failed: to post buffers, and to grow.
    pub(super) fn retry(self: &Arc<Self>) {
        self.repost();
        if self.is_short.xchg(false, Full) {
            self.as_arc_borrow().grow_later();
        }
    }

    /// Posts the buffers that could not be posted before, until that fails again.
    fn repost(&self) {
        let mut inner = self.inner.lock();
        while let Some(buffer) = inner.aside.pop() {
            if self.try_post(&mut inner, buffer).is_err() {
                // It was in there just now, so there is room.
                let _ = inner.aside.push_within_capacity(buffer);
                return;
            }
        }
    }

    /// Unmaps what was posted to the queue, which is destroyed.
    pub(super) fn unmap_all(&self) {
        let mut inner = self.inner.lock();
        let Some(pd) = inner.pd.take() else {
            return;
        };
        inner.posted = 0;
        for buffer in &inner.table {
            // SAFETY: The buffer is live by the type invariant; if it was posted, the device and
            // completions are done with it, otherwise `addr` is not there.
            if let Some(addr) = unsafe { (*buffer.as_ptr()).addr.take() } {
                // SAFETY: By the type invariant; the queue is gone.
                unsafe { unmap_page(&pd, addr, Direction::FromDevice) };
            }
        }
        // The device may go with it: not under the lock.
        drop(inner);
        drop(pd);
    }

    /// Unmaps a buffer that the device has filled, or given up. In a completion; no lock is held.
    ///
    /// If few are left on a shared queue, more are made: the device has not said so if they were used
    /// faster than it was asked to say it again, or if it never does.
    ///
    /// # Safety
    ///
    /// A completion says that `buffer` of this pool is not posted any more; nobody else has it.
    pub(super) unsafe fn take_off(self: ArcBorrow<'_, Self>, buffer: NonNull<Buffer<H>>) {
        let raw = buffer.as_ptr();
        let (addr, pd, is_low) = {
            let mut inner = self.inner.lock();
            inner.posted = inner.posted.saturating_sub(1);
            // SAFETY: By the safety requirements of this function.
            let addr = unsafe { (*raw).addr.take() };
            (addr, inner.pd.clone(), inner.is_low(self.max))
        };
        // Without memory it is for the watchdog to try again.
        if is_low && !self.is_short.load(Relaxed) {
            self.grow_later();
        }
        // Not under the lock, which all completions of a device take: an IOMMU may take its time.
        if let (Some(addr), Some(pd)) = (addr, pd) {
            // SAFETY: The device is done with it.
            unsafe { unmap_page(&pd, addr, Direction::FromDevice) };
        }
        // SAFETY: By the safety requirements of this function.
        unsafe { (*raw).len = 0 };
    }

    /// Takes back a buffer from a `Receive`.
    pub(super) fn recycle(&self, buffer: NonNull<Buffer<H>>) {
        self.post(&mut self.inner.lock(), buffer);
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for ReceivePool<H> {
    fn drop(self: Pin<&mut Self>) {
        for buffer in &self.inner.lock().table {
            // SAFETY: By the type invariant. Nobody has the buffer: a `Receive` holds the pool.
            drop(unsafe { KBox::from_raw(buffer.as_ptr()) });
        }
    }
}

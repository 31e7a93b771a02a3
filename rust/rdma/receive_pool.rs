// SPDX-License-Identifier: GPL-2.0

//! The Receive buffers of one connection.
//!
//! A [`ReceivePool`] is made without buffers; a queue pair takes it for its receive queue. A buffer is
//! posted, waits in a chain to be posted, is spare, or belongs to a [`Receive`](super::receive::Receive).
//! When the queue pair goes, all but the latter are freed, and these when they come back.
//! [`Supply`] decides how many there are, and when the chain is posted.
//!
//! # Locking
//!
//! One spinlock for each connection, a leaf. Buffers are made, mapped, unmapped and freed outside.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    receive_budget::Budget,
    receive_buffer::{
        Buffer,
        Done,
        State, //
    },
    receive_chain::ReceiveChain, //
};
use core::ptr::NonNull;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
};
use support::compat;
use svcrdma_proto::receives::{
    Next,
    Supply, //
};

/// Where buffers are posted.
enum Queue {
    /// No queue pair has taken the pool yet.
    None,
    /// To the receive queue of this queue pair, which closes the pool before it goes, with the function that
    /// handles their completions.
    Open(NonNull<bindings::ib_qp>, Done),
    /// Nowhere any more.
    Closed,
}

/// A buffer that nobody else has, and the domain that it is mapped for.
type Mapped<S> = (NonNull<Buffer<S>>, Option<Arc<Pd>>);

/// What the pool's lock protects.
struct Inner<S: State> {
    queue: Queue,
    /// The domain that buffers are mapped for, until the queue pair is gone.
    pd: Option<Arc<Pd>>,
    supply: Supply,
    /// All buffers.
    table: KVec<NonNull<Buffer<S>>>,
    /// Buffers that wait to be posted.
    chain: ReceiveChain<S>,
    /// Buffers that are not needed any more.
    spare: ReceiveChain<S>,
}

// SAFETY: The pointers are to buffers that belong to the pool, and what is in them is `Send`; that
// of `Queue::Open` is to a live queue pair, to which any thread may post.
unsafe impl<S: State> Send for Inner<S> {}

impl<S: State> Inner<S> {
    /// Gives a new buffer a place; returns false when there is none, or no queue.
    fn add(&mut self, buffer: NonNull<Buffer<S>>) -> bool {
        let index = self.table.len();
        let is_open = matches!(self.queue, Queue::Open(..));
        if !is_open || self.table.push_within_capacity(buffer).is_err() {
            return false;
        }
        // SAFETY: The caller has just made the buffer.
        unsafe { (*buffer.as_ptr()).index = index };
        true
    }

    /// Queues a buffer that was made, or was spare, to be posted.
    ///
    /// # Safety
    ///
    /// `buffer` has a place in the table and is in no list.
    unsafe fn wait(&mut self, buffer: NonNull<Buffer<S>>) {
        // SAFETY: By the safety requirements of this function.
        unsafe { self.chain.push(buffer) };
        self.supply.on_made();
    }

    /// Takes a buffer out of the table, whose last buffer gets its place.
    fn remove(&mut self, buffer: NonNull<Buffer<S>>) {
        // SAFETY: By the invariant of the pool; `index` changes under the lock only.
        let index = unsafe { (*buffer.as_ptr()).index };
        let Some(last) = self.table.pop() else {
            return;
        };
        if let Some(place) = self.table.get_mut(index) {
            *place = last;
            // SAFETY: As above.
            unsafe { (*last.as_ptr()).index = index };
        }
    }
}

/// The buffers of a connection.
///
/// # Invariants
///
/// Each buffer of `table` is a live box of its own, whose `pool` is this one and whose `index` is its
/// place there. It is mapped for `pd`. It is posted, in `chain`, in `spare`, or it is `lent` and belongs
/// to a `Receive`. A buffer without a place is `lent` and not mapped.
#[pin_data(PinnedDrop)]
pub struct ReceivePool<S: State> {
    #[pin]
    inner: SpinLock<Inner<S>>,
    /// Buffers that are posted.
    posted: Atomic<i32>,
    budget: Arc<Budget>,
    /// The most buffers that there may ever be.
    max: usize,
}

impl<S: State> ReceivePool<S> {
    /// Makes one for up to `max` buffers, which count against `budget`. It has none yet. May sleep.
    pub fn new(pd: &Arc<Pd>, max: usize, budget: Arc<Budget>) -> Result<Arc<Self>> {
        let inner = Inner {
            queue: Queue::None,
            pd: Some(pd.clone()),
            supply: Supply::new(),
            table: KVec::with_capacity(max, GFP_KERNEL)?,
            chain: ReceiveChain::new(),
            spare: ReceiveChain::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_spinlock!(inner, "svcrdma receives"),
                posted: Atomic::new(0),
                budget,
                max,
            }),
            GFP_KERNEL,
        )
    }

    /// The most buffers that there may ever be.
    pub fn max(&self) -> usize {
        self.max
    }

    /// The number of buffers that there are, spare ones included.
    pub fn count(&self) -> usize {
        self.inner.lock().table.len()
    }

    /// The number of those that are posted.
    pub fn posted(&self) -> usize {
        usize::try_from(self.posted.load(Relaxed)).unwrap_or(0)
    }

    /// Asks for buffers for `credits` credits and `callbacks` replies to callbacks, and makes and posts
    /// what is missing, as far as memory and the budget go, which is used up when the device has `limit`
    /// buffers. Returns the credits that there are posted buffers for, no more than asked for, and the
    /// error for which they are fewer. Buffers beyond that become spare when they come back. The caller
    /// sees to it that this does not run twice at a time. May sleep.
    pub fn resize(
        self: &Arc<Self>,
        credits: u32,
        callbacks: u32,
        limit: Option<u32>,
    ) -> (u32, Result) {
        let missing = self.inner.lock().supply.aim(credits, callbacks);
        let made = (0..missing).try_for_each(|_| self.make(limit));
        let mut inner = self.inner.lock();
        self.post(&mut inner);
        (inner.supply.settle(), made)
    }

    /// Makes a buffer, which then waits to be posted. May sleep.
    fn make(self: &Arc<Self>, limit: Option<u32>) -> Result {
        let (pd, done) = {
            let mut inner = self.inner.lock();
            if let Some(buffer) = inner.spare.pop() {
                // SAFETY: It was in the list of spare ones until now.
                unsafe { inner.wait(buffer) };
                return Ok(());
            }
            let Queue::Open(_, done) = inner.queue else {
                return Err(ENODEV);
            };
            (inner.pd.clone().ok_or(ENODEV)?, done)
        };
        if !self.budget.take(limit) {
            return Err(compat::enobufs());
        }
        let pool = Arc::as_ptr(self).cast();
        let buffer = Buffer::new(pool, &pd, done).inspect_err(|_| self.budget.put())?;
        let mut inner = self.inner.lock();
        if inner.add(buffer) {
            // SAFETY: The buffer was just made.
            unsafe { inner.wait(buffer) };
            return Ok(());
        }
        drop(inner);
        // SAFETY: The buffer was just made, and the table has not taken it.
        unsafe { self.free(buffer, Some(&pd)) };
        Err(ENODEV)
    }

    /// Posts what waits.
    fn post(&self, inner: &mut Inner<S>) {
        let Queue::Open(qp, _) = inner.queue else {
            return;
        };
        // SAFETY: The queue pair is live, as it closes the pool under the lock that we hold. By the type
        // invariant the buffers are mapped for its device; they stay until `give_back`.
        let count = unsafe { inner.chain.post(qp) };
        inner.supply.on_posted(count);
        self.posted.add(i32::try_from(count).unwrap_or(0), Relaxed);
    }

    /// Frees buffers that are not needed any more. May sleep.
    pub fn trim(&self) {
        while let Some((buffer, pd)) = self.take_spare() {
            // SAFETY: Nobody has the buffer any more; it is mapped for `pd`.
            unsafe { self.free(buffer, pd.as_deref()) };
        }
    }

    fn take_spare(&self) -> Option<Mapped<S>> {
        let mut inner = self.inner.lock();
        let buffer = inner.spare.pop()?;
        inner.remove(buffer);
        Some((buffer, inner.pd.clone()))
    }

    /// Unmaps and frees a buffer.
    ///
    /// # Safety
    ///
    /// Nobody else has `buffer`, and it has no place in the table. If it is mapped, that is for `pd`.
    unsafe fn free(&self, buffer: NonNull<Buffer<S>>, pd: Option<&Pd>) {
        if let Some(pd) = pd {
            // SAFETY: By the safety requirements of this function.
            unsafe { Buffer::unmap(buffer, pd) };
        }
        // SAFETY: By the safety requirements of this function; `Buffer::new` has made the box.
        drop(unsafe { KBox::from_raw(buffer.as_ptr()) });
        self.budget.put();
    }

    /// Returns true if buffers are mapped for `pd`.
    pub(super) fn is_of(&self, pd: &Arc<Pd>) -> bool {
        let inner = self.inner.lock();
        inner.pd.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, pd))
    }

    /// Lets buffers be posted to `qp`. Returns false if another queue pair has taken the pool.
    ///
    /// # Safety
    ///
    /// - The queue pair is live, of the device of the pool's domain, and its receive queue has room for
    ///   [`Self::max`] buffers. It calls [`Self::close`] before it is destroyed.
    /// - `done` is a function for completions of `Buffer<S>` of this queue pair.
    pub(super) unsafe fn open(&self, qp: NonNull<bindings::ib_qp>, done: Done) -> bool {
        let mut inner = self.inner.lock();
        let is_free = matches!(inner.queue, Queue::None);
        if is_free {
            inner.queue = Queue::Open(qp, done);
        }
        is_free
    }

    /// Lets nothing more be posted.
    pub(super) fn close(&self) {
        self.inner.lock().queue = Queue::Closed;
    }

    /// Unmaps all buffers, and frees those that belong to no `Receive`. May sleep.
    ///
    /// # Safety
    ///
    /// The pool is closed, its queue pair is destroyed, and all of its completions were handled.
    pub(super) unsafe fn give_back(&self) {
        {
            let mut inner = self.inner.lock();
            inner.chain = ReceiveChain::new();
            inner.spare = ReceiveChain::new();
        }
        self.posted.store(0, Relaxed);
        // SAFETY: By the safety requirements of this function.
        while let Some((buffer, pd)) = unsafe { self.take_any() } {
            // SAFETY: Nobody has the buffer: the queue pair and both lists are gone. It is mapped for
            // `pd`.
            unsafe { self.free(buffer, pd.as_deref()) };
        }
        let pd = self.inner.lock().pd.take();
        drop(pd);
    }

    /// Takes a buffer that belongs to no `Receive` out of the table; unmaps others on the way, which
    /// are without a place then.
    ///
    /// # Safety
    ///
    /// As for [`Self::give_back`].
    unsafe fn take_any(&self) -> Option<Mapped<S>> {
        let mut inner = self.inner.lock();
        loop {
            let buffer = inner.table.pop()?;
            let raw = buffer.as_ptr();
            // SAFETY: By the type invariant; no completion sets `lent` any more, and it is cleared
            // under the lock that we hold.
            if !unsafe { (*raw).lent } {
                return Some((buffer, inner.pd.clone()));
            }
            // SAFETY: As above; the `Receive` does not look at it.
            unsafe { (*raw).index = Buffer::<S>::NOWHERE };
            if let Some(pd) = &inner.pd {
                // SAFETY: It is mapped for `pd` by the type invariant, and not posted.
                unsafe { Buffer::unmap(buffer, pd) };
            }
        }
    }

    /// A completion says that a buffer is posted no more.
    pub(super) fn on_completed(&self) {
        self.posted.add(-1, Relaxed);
    }

    /// Takes a buffer back from a `Receive`.
    ///
    /// # Safety
    ///
    /// `buffer` is of this pool, is `lent`, and nobody uses it any more.
    pub(super) unsafe fn recycle(&self, buffer: NonNull<Buffer<S>>) {
        let raw = buffer.as_ptr();
        let mut inner = self.inner.lock();
        // SAFETY: By the safety requirements of this function; the index changes under the lock.
        if unsafe { (*raw).index } == Buffer::<S>::NOWHERE {
            drop(inner);
            // SAFETY: As above. It is not mapped any more by the type invariant.
            unsafe { self.free(buffer, None) };
            return;
        }
        // SAFETY: As above.
        unsafe { (*raw).lent = false };
        let Queue::Open(qp, _) = inner.queue else {
            // `give_back` finds it in the table.
            return;
        };
        // SAFETY: The queue pair is live, and the buffer is mapped for its device.
        unsafe { Buffer::sync_for_device(buffer, qp) };
        let next = inner.supply.on_returned();
        let list = match next {
            Next::Spare => &mut inner.spare,
            Next::Wait | Next::Post => &mut inner.chain,
        };
        // SAFETY: The buffer is in no list, and with nobody else.
        unsafe { list.push(buffer) };
        if next == Next::Post {
            self.post(&mut inner);
        }
    }
}

#[pinned_drop]
impl<S: State> PinnedDrop for ReceivePool<S> {
    fn drop(self: Pin<&mut Self>) {
        // A queue pair has emptied the table, and without one there were no buffers.
        let mut inner = self.inner.lock();
        while let Some(buffer) = inner.table.pop() {
            let pd = inner.pd.clone();
            // SAFETY: Nobody has the buffer: a `Receive` holds the pool, and so does a queue pair.
            unsafe { self.free(buffer, pd.as_deref()) };
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Receive pools: the Receive buffers of one connection.
//!
//! # States of a buffer
//!
//! | state | owner | next state |
//! |---|---|---|
//! | waiting | the chain of buffers to post | posted, once the chain is posted |
//! | posted | the receive queue of the queue pair | lent, when its Receive completes |
//! | lent | a [`Receive`](crate::recv::receive::Receive) | returned, when that is dropped |
//! | returned | the list of returned buffers | waiting or spare, when a batch was returned |
//! | spare | the list of spare buffers | waiting, if needed; freed by [`ReceivePool::trim`] |
//!
//! [`Supply`](svcrdma_proto::receives::Supply) decides the number of buffers, and the size of a batch.
//! When the queue pair is destroyed, buffers that are not lent are freed. A lent buffer is unmapped
//! then, and freed when its `Receive` is dropped.
//!
//! # References
//!
//! Each buffer has a reference to its pool as long as it exists, so that a message takes none. The
//! pool has pointers to its buffers, and the destruction of the queue pair breaks this cycle: only an
//! attached pool makes buffers, and none is left in the table afterwards.
//!
//! # Locking
//!
//! One spinlock for each pool, under which no other lock is taken. Buffers are allocated, mapped
//! and freed outside of it. The list of returned buffers needs no lock to add one, so that most
//! messages take none.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    recv::{
        budget::Budget,
        buffer::{
            Buffer,
            Receiver,
            State, //
        },
        inner::{
            Inner,
            Queue, //
        },
        returns::{
            Closed,
            Returns, //
        },
    },
};
use core::ptr::NonNull;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow,
        SpinLock, //
    },
};
use support::{
    compat,
    figure::Figure, //
};

/// A buffer that nobody else uses, and the protection domain that it is mapped for.
pub(crate) type Mapped<S> = (NonNull<Buffer<S>>, Option<Arc<Pd>>);

/// The Receive buffers of one connection.
///
/// A ULP makes an empty pool and passes it to [`Qp::new`](crate::qp::Qp::new), which attaches it to
/// the receive queue. The ULP then asks for buffers with [`Self::resize`]. Queue pair and buffers
/// hold references to the pool. Functions that do not sleep may be called in any process
/// context.
///
/// # Examples
///
/// Backs the credits that a peer is granted with Receive buffers. [`Self::resize`] says how many
/// credits are backed, and only these are granted. The ULP holds a mutex, as calls must not
/// overlap.
///
#[doc = "```ignore"]
#[doc = include_str!("../examples/uses/pool.rs")]
#[doc = "```"]
///
/// # Invariants
///
/// - Each buffer of this pool is in a separate allocation, and owns a reference to this pool, which
///   its `pool` points to.
/// - Each buffer in `table` is live, and its `index` is its index in `table`.
/// - It is mapped for `pd`.
/// - It is posted, in `chain`, in `spare`, in `returns`, owned by a `Receive`, or, once the pool is
///   closed, none of these. Those in `returns` and those of a `Receive` are `lent`.
/// - A buffer of this pool that is not in `table` is `lent` and not mapped.
#[pin_data]
pub struct ReceivePool<S: State> {
    #[pin]
    pub(crate) inner: SpinLock<Inner<S>>,
    /// The returned buffers. Closed once the queue pair is destroyed.
    pub(crate) returns: Returns<S>,
    /// Returned buffers that are taken together. Changed under the lock.
    batch: Figure<u32>,
    /// Receives that have completed; wraps around. The worker of the completion queue counts them.
    pub(crate) completed: Figure<u32>,
    pub(crate) budget: Arc<Budget>,
    /// The largest number of buffers.
    max: usize,
}

impl<S: State> ReceivePool<S> {
    /// Creates a pool without buffers, for up to `max` buffers that are mapped for `pd` and count
    /// against `budget`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(pd: &Arc<Pd>, max: usize, budget: Arc<Budget>) -> Result<Arc<Self>> {
        let inner = Inner::new(pd, max)?;
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_spinlock!(inner, "svcrdma receives"),
                returns: Returns::new(),
                batch: Figure::default(),
                completed: Figure::default(),
                budget,
                max,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the largest number of buffers, for which the receive queue has room.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns the number of buffers in all states.
    pub fn count(&self) -> usize {
        self.inner.lock().table.len()
    }

    /// Returns the number of posted buffers.
    pub fn posted(&self) -> usize {
        let inner = self.inner.lock();
        // Read under the lock: the completions of buffers that are posted later do not count.
        // CAST: Fewer buffers are posted than a receive queue has entries.
        inner.posted.wrapping_sub(self.completed.get()) as usize
    }

    /// Sets the target number of buffers: those that `credits` credits need, and those for
    /// `callbacks` replies to callbacks, which are messages of the peer beside its credits.
    /// Allocates missing buffers until the budget has `limit` buffers, and posts them. Surplus
    /// buffers become spare when they are given back.
    ///
    /// Returns the number of credits that buffers back, at most `credits`, and the error that kept
    /// it from being larger. Besides the buffers for its credits a pool has some for messages that
    /// are being handled and for a batch that waits to be posted
    /// ([`svcrdma_proto::receives::needed`]).
    ///
    /// May sleep. Calls for one pool must not overlap.
    ///
    /// # Errors
    ///
    /// - `ENOMEM` if there is no memory or no DMA address for a buffer.
    /// - `ENOBUFS` if the budget is used up.
    /// - `EIO` if the driver has not taken all buffers. The next return or change posts the others.
    /// - `ENODEV` if the pool has no queue pair, or that is being destroyed.
    pub fn resize(
        self: &Arc<Self>,
        credits: u32,
        callbacks: u32,
        limit: Option<u32>,
    ) -> (u32, Result) {
        let missing = {
            let mut inner = self.inner.lock();
            let missing = inner.supply.aim(credits, callbacks);
            self.batch.set(inner.supply.batch());
            missing
        };
        let made = (0..missing).try_for_each(|_| self.make(limit));
        let mut inner = self.inner.lock();
        self.post(&mut inner);
        let backed = inner.supply.settle();
        self.batch.set(inner.supply.batch());
        // Buffers that came back before may be a batch now.
        self.post(&mut inner);
        let posted = inner.chain.is_empty().then_some(()).ok_or(EIO);
        (backed, made.and(posted))
    }

    /// Takes a spare buffer or allocates one, and makes it wait to be posted. May sleep. Errors are
    /// those of [`Self::resize`].
    fn make(self: &Arc<Self>, limit: Option<u32>) -> Result {
        let (pd, receiver) = {
            let mut inner = self.inner.lock();
            if let Some(buffer) = inner.spare.pop() {
                // SAFETY: The buffer was in the list of spare buffers until now, so it is in the
                // table and nobody else uses it.
                unsafe { inner.wait(buffer) };
                return Ok(());
            }
            let Queue::Open(_, receiver) = inner.queue else {
                return Err(ENODEV);
            };
            (inner.pd.clone().ok_or(ENODEV)?, receiver)
        };
        if !self.budget.take(limit) {
            return Err(compat::enobufs());
        }
        let pool = Arc::into_raw(self.clone());
        // SAFETY: The buffer gets the reference of `pool`; `open` has got `receiver` for this pool.
        let made = unsafe { Buffer::new(pool.cast(), &pd, receiver) };
        let buffer = made.inspect_err(|_| {
            self.budget.put();
            // SAFETY: No buffer has got the reference.
            drop(unsafe { Arc::from_raw(pool) });
        })?;
        let mut inner = self.inner.lock();
        // SAFETY: The buffer was just made, so it is live, is in no table, and nobody else uses it.
        if unsafe { inner.add(buffer) } {
            // SAFETY: The buffer is new and was just added to the table.
            unsafe { inner.wait(buffer) };
            return Ok(());
        }
        drop(inner);
        // SAFETY: The buffer is new, is mapped for `pd`, and the table has not taken it.
        unsafe { Self::free(buffer, Some(&pd)) };
        Err(ENODEV)
    }

    /// Takes the returned buffers, and posts all that wait. Does nothing unless the pool is open:
    /// [`Self::give_back`] takes the returned buffers then.
    fn post(&self, inner: &mut Inner<S>) {
        let Queue::Open(qp, _) = inner.queue else {
            return;
        };
        // SAFETY: The queue pair is live: it closes the pool before it is destroyed, under the lock
        // that the caller holds. The list has given the buffers up. They are in the table, as
        // `give_back` alone removes those that are lent, so they are mapped for its device.
        unsafe { inner.take_back(self.returns.take(), qp) };
        // SAFETY: The queue pair is live, as above. By the type invariant the buffers are mapped for
        // its device. They are freed by `give_back`, after the queue pair is destroyed.
        let count = unsafe { inner.chain.post(qp) };
        inner.supply.on_posted(count);
        inner.posted = inner.posted.wrapping_add(count);
    }

    /// Frees spare buffers. May sleep.
    pub fn trim(&self) {
        while let Some((buffer, pd)) = self.take_spare() {
            // SAFETY: `take_spare` has removed the buffer from list and table, so nobody else uses
            // it. It is mapped for `pd`.
            unsafe { Self::free(buffer, pd.as_deref()) };
        }
    }

    /// Removes a spare buffer from the pool.
    fn take_spare(&self) -> Option<Mapped<S>> {
        let mut inner = self.inner.lock();
        let buffer = inner.spare.pop()?;
        // SAFETY: Spare buffers are in the table, whose buffers are live by the type invariant. The
        // lock is held.
        unsafe { inner.remove(buffer) };
        Some((buffer, inner.pd.clone()))
    }

    /// Returns true if buffers are mapped for `pd`.
    pub(crate) fn is_of(&self, pd: &Arc<Pd>) -> bool {
        let inner = self.inner.lock();
        inner.pd.as_ref().is_some_and(|ours| ours.is(pd))
    }

    /// Attaches the pool to the receive queue of `qp`. Returns false if another queue pair has
    /// taken the pool.
    ///
    /// # Safety
    ///
    /// - `qp` is live and uses the protection domain of the pool.
    /// - Its receive queue has room for [`Self::max`] buffers.
    /// - [`Self::close`] is called before it is destroyed.
    /// - `receiver` is the context of `qp`, and handles completions of a `Buffer<S>` that was posted to
    ///   `qp`.
    pub(crate) unsafe fn open(&self, qp: NonNull<bindings::ib_qp>, receiver: Receiver) -> bool {
        let mut inner = self.inner.lock();
        let is_free = matches!(inner.queue, Queue::None);
        if is_free {
            inner.queue = Queue::Open(qp, receiver);
        }
        is_free
    }

    /// Stops posting. Waits for the lock, so nothing is being posted when it returns.
    pub(crate) fn close(&self) {
        self.inner.lock().queue = Queue::Closed;
    }

    /// Notes that the Receive of a buffer has completed. Only the worker of the completion queue
    /// calls this, which handles one completion at a time.
    #[inline]
    pub(crate) fn on_completed(&self) {
        self.completed.add(1);
    }

    /// Takes a buffer back from a `Receive`. If it completes a batch, posts all buffers that wait.
    /// Does not sleep.
    ///
    /// # Safety
    ///
    /// `buffer` is a live buffer of a `ReceivePool<S>`, is `lent`, and nobody else uses it.
    #[inline]
    pub(crate) unsafe fn recycle(buffer: NonNull<Buffer<S>>) {
        // SAFETY: The buffer is live, and has a reference to the pool.
        let pool = unsafe { ArcBorrow::from_raw((*buffer.as_ptr()).pool.cast::<Self>()) };
        // Once the buffer is in the list, nothing but this reference keeps the pool.
        let reference = || Arc::from(pool);
        // SAFETY: By the safety requirements of this function. A lent buffer is in no list.
        match unsafe { pool.returns.push(buffer, pool.batch.get(), reference) } {
            Ok(None) => {}
            Ok(Some(pool)) => pool.post_batch(),
            // SAFETY: By the safety requirements of this function.
            Err(Closed) => unsafe { Self::end(buffer) },
        }
    }

    /// Posts the buffers that wait.
    // Out of line: for one message of a batch.
    #[inline(never)]
    fn post_batch(&self) {
        self.post(&mut self.inner.lock());
    }
}

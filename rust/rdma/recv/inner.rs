// SPDX-License-Identifier: GPL-2.0

//! The state of a receive pool that its spinlock protects.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    recv::{
        buffer::{
            Buffer,
            Receiver,
            State, //
        },
        chain::ReceiveChain,
        returns::Returned, //
    },
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use svcrdma_proto::receives::{
    Next,
    Supply, //
};

/// The receive queue that buffers are posted to.
pub(crate) enum Queue {
    /// No queue pair has taken the pool yet.
    None,
    /// The receive queue of this queue pair, and the receiver of its messages. The queue pair closes
    /// the pool before it is destroyed.
    Open(NonNull<bindings::ib_qp>, Receiver),
    /// The queue pair is being destroyed or has failed. Nothing is posted any more.
    Closed,
}

/// The fields of [`ReceivePool`](crate::recv::pool::ReceivePool) protected by its spinlock.
pub(crate) struct Inner<S: State> {
    pub(crate) queue: Queue,
    /// The protection domain that buffers are mapped for, until the queue pair is destroyed.
    pub(crate) pd: Option<Arc<Pd>>,
    pub(crate) supply: Supply,
    /// Buffers that were posted so far; wraps around.
    pub(crate) posted: u32,
    /// All mapped buffers, in any state.
    pub(crate) table: KVec<NonNull<Buffer<S>>>,
    /// Waiting buffers.
    pub(crate) chain: ReceiveChain<S>,
    /// Spare buffers.
    pub(crate) spare: ReceiveChain<S>,
}

// SAFETY: The buffers that the pointers refer to belong to the pool, and their content is `Send`.
// The pointers of `Queue::Open` refer to a live queue pair, to which any thread may post, and to its
// context.
unsafe impl<S: State> Send for Inner<S> {}

impl<S: State> Inner<S> {
    /// Creates the state of a pool without buffers, for up to `max` buffers. May sleep.
    pub(crate) fn new(pd: &Arc<Pd>, max: usize) -> Result<Self> {
        Ok(Self {
            queue: Queue::None,
            pd: Some(pd.clone()),
            supply: Supply::new(),
            posted: 0,
            table: KVec::with_capacity(max, GFP_KERNEL)?,
            chain: ReceiveChain::new(),
            spare: ReceiveChain::new(),
        })
    }

    /// Adds a new buffer to the table. Returns false if the table is full or the pool is not open.
    ///
    /// # Safety
    ///
    /// `buffer` is live, is in no table, and nobody else uses it.
    pub(crate) unsafe fn add(&mut self, buffer: NonNull<Buffer<S>>) -> bool {
        let index = self.table.len();
        let is_open = matches!(self.queue, Queue::Open(..));
        if !is_open || self.table.push_within_capacity(buffer).is_err() {
            return false;
        }
        // SAFETY: By the safety requirements of this function.
        unsafe { (*buffer.as_ptr()).index = index };
        true
    }

    /// Makes a new or a spare buffer wait to be posted.
    ///
    /// # Safety
    ///
    /// `buffer` is in the table, in no list, and nobody else uses it.
    pub(crate) unsafe fn wait(&mut self, buffer: NonNull<Buffer<S>>) {
        // SAFETY: By the safety requirements of this function. Buffers in the table are live.
        unsafe { self.chain.push(buffer) };
        self.supply.on_made();
    }

    /// Takes returned buffers, and makes them wait to be posted to `qp`, or spare.
    ///
    /// # Safety
    ///
    /// - `qp` is live.
    /// - The buffers are in the table, in no list, and nobody else uses them. They are mapped for the
    ///   device of `qp`.
    pub(crate) unsafe fn take_back(&mut self, returned: Returned<S>, qp: NonNull<bindings::ib_qp>) {
        for buffer in returned {
            // SAFETY: By the safety requirements of this function.
            unsafe { (*buffer.as_ptr()).lent = false };
            // SAFETY: By the safety requirements of this function.
            unsafe { Buffer::sync_for_device(buffer, qp) };
            let list = match self.supply.on_returned() {
                Next::Spare => &mut self.spare,
                Next::Wait | Next::Post => &mut self.chain,
            };
            // SAFETY: By the safety requirements of this function.
            unsafe { list.push(buffer) };
        }
    }

    /// Removes a buffer from the table. The last buffer of the table moves to its index.
    ///
    /// # Safety
    ///
    /// `buffer` is in the table, whose buffers are live. The caller holds the lock of the pool.
    pub(crate) unsafe fn remove(&mut self, buffer: NonNull<Buffer<S>>) {
        // SAFETY: The buffer is live by the safety requirements of this function. `index` changes
        // only under the lock, which the caller holds.
        let index = unsafe { (*buffer.as_ptr()).index };
        let Some(last) = self.table.pop() else {
            return;
        };
        if let Some(place) = self.table.get_mut(index) {
            *place = last;
            // SAFETY: `last` was in the table, so it is live; the caller holds the lock.
            unsafe { (*last.as_ptr()).index = index };
        }
    }
}

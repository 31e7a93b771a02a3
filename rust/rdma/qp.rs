// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: the hardware half of a connection.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    cm::{
        CmId,
        Events, //
    },
    completion::Completion,
    cq::{
        Completes,
        CqReservation, //
    },
    device::Pd,
    drain::Drain,
    handler::Handler,
    pair::{
        Pair,
        RawId, //
    },
    recv::{
        buffer::Receiver,
        pool::ReceivePool, //
    },
    send::{
        chain::Chain,
        chain_buffers::ChainBuffers,
        claim::Claim, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// The parameters of a queue pair.
pub struct Parts<'a, H: Handler> {
    /// The protection domain.
    pub pd: &'a Arc<Pd>,
    /// The Receive buffers of the queue pair. Its receive queue has room for
    /// [`ReceivePool::max`] of them.
    pub receives: &'a Arc<ReceivePool<H::Call>>,
    /// Entries for the completions of Receives: at least [`ReceivePool::max`] plus 1.
    pub receive_cq: CqReservation,
    /// Entries for the completions of other work: at least `depth` plus 1.
    pub send_cq: CqReservation,
    /// Work requests that can be posted to the send queue at a time.
    pub depth: u32,
    /// Work requests that one call posts at most.
    pub chain: usize,
    /// Scatter/gather entries of a work request.
    pub max_sge: u32,
    /// Scatter/gather entries of an RDMA Read; at most `max_sge` are used.
    pub max_read_sge: u32,
}

/// A queue pair on its id.
///
/// The ULP makes it, accepts the peer with [`Self::id`], and gives the queue pair to the
/// [`SendQueue`](crate::send::queue::SendQueue) of the connection, which posts to it under its lock.
///
/// Dropping a `Qp` sleeps. It
///
/// 1. closes the Receive pool,
/// 2. disconnects, and waits until all posted work has completed, for at most 17 seconds,
/// 3. destroys the queue pair, and waits until all completions were handled,
/// 4. unmaps the Receive buffers; if the wait has failed, its completion queue does so when it is
///    freed,
/// 5. destroys the id. [`SendQueue::shut`](crate::send::queue::SendQueue::shut) returns the id
///    instead.
///
/// It must not be dropped by a handler of completions, nor by a handler of the id.
///
/// # Invariants
///
/// `pair` is the queue pair of `id`, and is dropped before `id`.
pub struct Qp<H: Handler, E: Events> {
    pair: Pair<H>,
    id: CmId<E>,
}

impl<H: Handler> Parts<'_, H> {
    /// Returns the entries of the receive queue: one for each buffer, and one for the marker of
    /// its [`Drain`].
    fn receives_depth(&self) -> u32 {
        let most = u32::try_from(self.receives.max()).unwrap_or(u32::MAX);
        most.saturating_add(1)
    }

    /// Returns true if all parts belong to one device, and if each completion queue is for its kind
    /// of work and large enough. The RDMA core checks none of this.
    fn are_fit(&self) -> bool {
        let sends = self.depth.saturating_add(1);
        self.receives.is_of(self.pd)
            && self.send_cq.fits(self.pd, Completes::Sends, sends)
            && self
                .receive_cq
                .fits(self.pd, Completes::Receives, self.receives_depth())
    }

    /// Returns the attributes of the queue pair with the context `context`.
    fn attributes(&self, context: &Arc<H>) -> bindings::ib_qp_init_attr {
        let mut attr: bindings::ib_qp_init_attr = pin_init::zeroed();
        attr.event_handler = Some(Pair::<H>::event);
        attr.qp_context = Arc::as_ptr(context).cast_mut().cast();
        attr.send_cq = self.send_cq.cq().as_ptr();
        attr.recv_cq = self.receive_cq.cq().as_ptr();
        attr.cap.max_recv_wr = self.receives_depth();
        attr.cap.max_recv_sge = 1;
        // One entry more, for the marker of the drain.
        attr.cap.max_send_wr = self.depth.saturating_add(1);
        attr.cap.max_send_sge = self.max_sge;
        attr.sq_sig_type = bindings::ib_sig_type_IB_SIGNAL_REQ_WR;
        attr.qp_type = bindings::ib_qp_type_IB_QPT_RC;
        attr
    }
}

impl<H: Handler, E: Events> Qp<H, E> {
    /// Creates a queue pair on `id`. `context` handles its completions. May sleep; must not be
    /// called in a handler of the id.
    ///
    /// # Errors
    ///
    /// An error drops `id`, which rejects the peer.
    ///
    /// - `EINVAL` if the parts do not fit together.
    /// - `EBUSY` if another queue pair has taken the Receive pool, or a protection domain that is
    ///   [for one connection](Pd::for_connection).
    /// - `ENOMEM`, or the driver's error.
    pub fn new(id: CmId<E>, context: Arc<H>, parts: Parts<'_, H>) -> Result<Self> {
        if !parts.are_fit() {
            return Err(EINVAL);
        }
        if !parts.pd.claim_for_queue_pair() {
            return Err(EBUSY);
        }
        let slots = Pair::<H>::new_slots(parts.depth as usize, &context)?;
        let (send_drain, receive_drain) = (Some(Drain::new()?), Some(Drain::new()?));
        let max_sge = parts.max_sge as usize;
        let max_read_sge = parts.max_read_sge as usize;
        let buffers = ChainBuffers::new(parts.pd, slots, parts.chain, max_sge, max_read_sge)?;
        let mut attr = parts.attributes(&context);
        // SAFETY: The id is live and has a device. The RDMA core checks that it is the device of
        // the protection domain, and `are_fit` has checked that the completion queues belong to it.
        // All that `attr` refers to lives until `drop` has destroyed the queue pair.
        to_result(unsafe { bindings::rdma_create_qp(id.as_ptr(), parts.pd.as_ptr(), &mut attr) })?;
        // INVARIANT: The queue pair was just created on `id` with this context.
        let pair = Pair {
            buffers,
            context,
            send_drain,
            receive_drain,
            pool: None,
            receive_cq: parts.receive_cq,
            send_cq: parts.send_cq,
            id: RawId(id.as_ptr()),
        };
        // INVARIANT: The fields are dropped in order, and `end` drops the pair before it returns
        // the id.
        let mut this = Self { pair, id };
        let qp = NonNull::new(this.pair.as_ptr()).ok_or(EINVAL)?;
        let receiver = Receiver {
            done: Pair::<H>::received,
            context: Arc::as_ptr(&this.pair.context).cast(),
        };
        // SAFETY: The queue pair is live, has the protection domain of the pool by `are_fit`, and
        // has room for its buffers. `Pair::drop` closes the pool before it destroys the queue pair.
        // `received` handles completions of buffers of this type, and the context is an `H`.
        if !unsafe { parts.receives.open(qp, receiver) } {
            return Err(EBUSY);
        }
        this.pair.pool = Some(parts.receives.clone());
        Ok(this)
    }

    /// Returns the id, to accept the peer for example.
    pub fn id(&self) -> &CmId<E> {
        &self.id
    }

    /// Disconnects, drains and destroys the queue pair. Returns the id. Sleeps.
    pub(super) fn end(self) -> CmId<E> {
        let Self { pair, id } = self;
        drop(pair);
        id
    }

    /// Returns the protection domain.
    pub(super) fn pd(&self) -> &Arc<Pd> {
        self.pair.buffers.pd()
    }

    /// Returns the number of work requests that can be posted at a time.
    pub(super) fn depth(&self) -> usize {
        self.pair.buffers.depth()
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::ib_qp {
        self.pair.as_ptr()
    }

    /// Returns the slot of the work request that has completed, or `None` if it was not posted to this
    /// queue pair.
    #[inline]
    pub(super) fn slot_of(&self, completion: &Completion) -> Option<usize> {
        self.pair.buffers.index_of(completion.slot())
    }

    /// Begins an empty chain for the work that `claim` belongs to. It replaces the last chain. Its
    /// work requests get the slots from `slot` on, in a ring of [`Self::depth`] slots.
    #[inline]
    pub(super) fn begin<'b, 'm>(&'b mut self, claim: &'b mut Claim, slot: usize) -> Chain<'b, 'm> {
        Chain::begin(&mut self.pair.buffers, claim, slot)
    }

    /// Posts the chain that was built last. Its last work request is signalled if `signal`. Does
    /// not sleep.
    ///
    /// # Errors
    ///
    /// The driver's error. It may have posted the beginning of the chain, so the caller closes the
    /// connection.
    ///
    /// # Safety
    ///
    /// The memory that the chain names stays valid, and nobody writes to it, until one of:
    ///
    /// - the last work request of the chain, or a later one, has completed,
    /// - this `Qp` is dropped.
    #[inline]
    pub(super) unsafe fn post(&mut self, signal: bool) -> Result {
        let wr = self.pair.buffers.end(signal);
        if wr.is_null() {
            return Ok(());
        }
        let mut bad = core::ptr::null();
        // SAFETY: The queue pair is live by the type invariant. `end` has returned a chain whose
        // work requests, entries and slots are valid during the call, and the slots also until the
        // queue pair is destroyed. The memory that the chain names stays valid by the safety
        // requirements of this function.
        match unsafe { bindings::ib_post_send(self.as_ptr(), wr, &mut bad) } {
            0 => Ok(()),
            error => to_result(error),
        }
    }
}

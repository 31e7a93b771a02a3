// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: the hardware half of a connection.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    chain::Chain,
    chain_buffers::ChainBuffers,
    cm::{
        CmId,
        Events, //
    },
    completion::{
        Completion,
        Status, //
    },
    cq::{
        Completes,
        Share, //
    },
    device::Pd,
    handler::{
        Handler,
        Unfit, //
    },
    memory_region::Claim,
    receive::Receive,
    receive_buffer::Buffer,
    receive_pool::ReceivePool,
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

/// A slot of the send queue. A completion identifies its work request by the slot.
#[repr(C)]
struct Slot {
    /// The first field, so that a pointer to it points to the slot.
    cqe: bindings::ib_cqe,
    index: usize,
}

/// The parameters of a queue pair.
pub struct Parts<'a, H: Handler> {
    /// The protection domain.
    pub pd: &'a Arc<Pd>,
    /// The Receive buffers of the queue pair. Its receive queue has room for
    /// [`ReceivePool::max`] of them.
    pub receives: &'a Arc<ReceivePool<H::Call>>,
    /// Entries for the completions of Receives: at least [`ReceivePool::max`] plus 1.
    pub receive_cq: Share,
    /// Entries for the completions of other work: at least `depth` plus 1.
    pub send_cq: Share,
    /// Work requests that can be posted to the send queue at a time.
    pub depth: u32,
    /// Work requests that one call posts at most.
    pub chain: usize,
    /// Scatter/gather entries of a work request.
    pub max_sge: u32,
    /// Scatter/gather entries of an RDMA Read; at most `max_sge` are used.
    pub max_read_sge: u32,
}

/// A queue pair without its id. Dropping it disconnects, drains and destroys the queue pair.
///
/// # Invariants
///
/// - `id` is live and has a live queue pair.
/// - The context of the queue pair is `_context`.
/// - Work requests of its send queue complete to slots in `slots`, whose memory does not move.
struct Pair<H: Handler> {
    slots: KVec<Slot>,
    buffers: ChainBuffers,
    _context: Arc<H>,
    /// The Receive pool, once it is attached to this queue pair.
    pool: Option<Arc<ReceivePool<H::Call>>>,
    receive_cq: Share,
    send_cq: Share,
    id: RawId,
}

/// An id that its [`CmId`] owns.
struct RawId(*mut bindings::rdma_cm_id);

// SAFETY: Ids may be used on any thread.
unsafe impl Send for RawId {}

/// A queue pair on its id.
///
/// The ULP makes it, accepts the peer with [`Self::id`], and gives the queue pair to the
/// [`SendQueue`](crate::send_queue::SendQueue) of the connection, which posts to it under its lock.
///
/// Dropping a `Qp` sleeps. It
///
/// 1. closes the Receive pool,
/// 2. disconnects, and waits until all posted work has completed and all completions were handled,
/// 3. destroys the queue pair,
/// 4. unmaps the Receive buffers,
/// 5. destroys the id. [`SendQueue::shut`](crate::send_queue::SendQueue::shut) returns the id
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
    /// `ib_drain_rq`.
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
        // One entry more, for the marker of `ib_drain_sq`.
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
    /// - `EBUSY` if another queue pair has taken the Receive pool.
    /// - `ENOMEM`, or the driver's error.
    pub fn new(id: CmId<E>, context: Arc<H>, parts: Parts<'_, H>) -> Result<Self> {
        if !parts.are_fit() {
            return Err(EINVAL);
        }
        let slots = Pair::<H>::new_slots(parts.depth as usize)?;
        let max_sge = parts.max_sge as usize;
        let max_read_sge = parts.max_read_sge as usize;
        let buffers = ChainBuffers::new(parts.pd, parts.chain, max_sge, max_read_sge)?;
        let mut attr = parts.attributes(&context);
        // SAFETY: The id is live and has a device. The RDMA core checks that it is the device of
        // the protection domain, and `are_fit` has checked that the completion queues belong to it.
        // All that `attr` refers to lives until `drop` has destroyed the queue pair.
        to_result(unsafe { bindings::rdma_create_qp(id.as_ptr(), parts.pd.as_ptr(), &mut attr) })?;
        // INVARIANT: The queue pair was just created on `id` with this context. `slots` does not
        // change, so its memory does not move.
        let pair = Pair {
            slots,
            buffers,
            _context: context,
            pool: None,
            receive_cq: parts.receive_cq,
            send_cq: parts.send_cq,
            id: RawId(id.as_ptr()),
        };
        // INVARIANT: The fields are dropped in order, and `end` drops the pair before it returns
        // the id.
        let mut this = Self { pair, id };
        let qp = NonNull::new(this.pair.as_ptr()).ok_or(EINVAL)?;
        // SAFETY: The queue pair is live, has the protection domain of the pool by `are_fit`, and
        // has room for its buffers. `Pair::drop` closes the pool before it destroys the queue pair.
        // `received` handles completions of buffers of this type, and the context is an `H`.
        if !unsafe { parts.receives.open(qp, Pair::<H>::received) } {
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

    /// Returns the number of work requests that can be posted at a time.
    pub(super) fn depth(&self) -> usize {
        self.pair.slots.len()
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::ib_qp {
        self.pair.as_ptr()
    }

    /// Begins an empty chain for the work that `claim` belongs to. It replaces the last chain.
    pub(super) fn begin<'b, 'm>(&'b mut self, claim: &'b mut Claim) -> Chain<'b, 'm> {
        Chain::begin(&mut self.pair.buffers, claim)
    }

    /// Posts the chain that was built last. Its work requests get the slots from `first` on, in a
    /// ring. The last one is signalled if `signal`. Does not sleep.
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
    pub(super) unsafe fn post(&mut self, first: usize, signal: bool) -> Result {
        let count = self.pair.slots.len();
        let slots = self.pair.slots.as_ptr();
        let wr = self.pair.buffers.link(signal, |i| {
            let index = first.saturating_add(i);
            let index = index.checked_sub(count).unwrap_or(index);
            // CAST: `cqe` is the first field of the `repr(C)` slot. The RDMA core does not write to
            // it.
            slots.wrapping_add(index).cast_mut().cast()
        });
        if wr.is_null() {
            return Ok(());
        }
        let mut bad = core::ptr::null();
        // SAFETY: The queue pair is live by the type invariant. `link` has made a chain whose work
        // requests and entries are valid during the call. The memory that they name stays valid by
        // the safety requirements of this function.
        to_result(unsafe { bindings::ib_post_send(self.as_ptr(), wr, &mut bad) })
    }
}

impl<H: Handler> Pair<H> {
    /// Allocates `depth` slots. May sleep.
    fn new_slots(depth: usize) -> Result<KVec<Slot>> {
        let mut slots = KVec::with_capacity(depth, GFP_KERNEL)?;
        for index in 0..depth {
            let cqe = bindings::ib_cqe {
                done: Some(Self::done),
            };
            slots.push(Slot { cqe, index }, GFP_KERNEL)?;
        }
        Ok(slots)
    }

    fn as_ptr(&self) -> *mut bindings::ib_qp {
        // SAFETY: The id is live by the type invariant, and its field `qp` does not change until
        // `drop`.
        unsafe { (*self.id.0).qp }
    }

    /// Calls [`Handler::sent`].
    ///
    /// # Safety
    ///
    /// The RDMA core calls this with a completion of the send queue of a queue pair that
    /// [`Qp::new`] has made.
    unsafe extern "C" fn done(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // CAST: `wr_cqe` points to the first field of a `repr(C)` slot, see `Qp::post`.
        // SAFETY: By the safety requirements of this function `wc` is valid.
        let slot: *const Slot = unsafe { *(*wc).__bindgen_anon_1.wr_cqe }.cast();
        // SAFETY: Slots live until all completions of the queue pair were handled, see `drop`.
        let index = unsafe { (*slot).index };
        // SAFETY: By the safety requirements of this function `wc` is valid.
        let (status, qp) = unsafe { (Status::new((*wc).status), (*wc).qp) };
        // SAFETY: The queue pair is destroyed after all of its completions were handled, see
        // `drop`.
        let handler = unsafe { Self::handler((*qp).qp_context) };
        let completion = Completion::new(qp, index, status);
        H::sent(handler, &completion);
    }

    /// Calls the function of [`Handler`] for the completion of a Receive.
    ///
    /// # Safety
    ///
    /// The RDMA core calls this with a completion of a `Buffer<H::Call>` that was posted to a queue
    /// pair that [`Qp::new`] has made.
    unsafe extern "C" fn received(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // CAST: `wr_cqe` points to the first field of a `repr(C)` buffer, see `Buffer::new`.
        // SAFETY: By the safety requirements of this function `wc` is valid.
        let raw: *mut Buffer<H::Call> = unsafe { *(*wc).__bindgen_anon_1.wr_cqe }.cast();
        // SAFETY: `wc` is valid. These fields are set whatever the status is.
        let (status, qp) = unsafe { (Status::new((*wc).status), (*wc).qp) };
        // SAFETY: `wc` is valid. These fields are meaningful only after a success; otherwise they
        // are arbitrary integers.
        let (opcode, flags) = unsafe { ((*wc).opcode, (*wc).wc_flags) };
        // SAFETY: The queue pair holds a reference to the pool of the buffer, and is destroyed
        // after all of its completions were handled.
        let pool = unsafe { ArcBorrow::from_raw((*raw).pool.cast::<ReceivePool<H::Call>>()) };
        // SAFETY: `raw` is a buffer of `pool`, so it is not null. It was posted to `qp`, which is
        // live while its completions are handled, and this is its completion.
        let mut receive = unsafe { Receive::complete(pool, NonNull::new_unchecked(raw), qp) };
        // SAFETY: A queue pair is destroyed after all of its completions were handled, see `drop`.
        let handler = unsafe { Self::handler((*qp).qp_context) };
        if !status.is_success() {
            // The pool is closed first: the failed queue pair would flush the buffer again at once.
            pool.close();
            drop(receive);
            H::receive_failed(handler, status);
        } else if let Some(what) = Unfit::of(opcode, flags) {
            drop(receive);
            H::unfit(handler, what);
        } else {
            // SAFETY: `wc` is valid. The device has written these bytes to the buffer; those of an
            // RDMA Write with immediate data, which is not handled here, would be elsewhere.
            receive.set_len(unsafe { (*wc).byte_len } as usize);
            H::received(handler, receive);
        }
    }

    /// Calls [`Handler::failed`] if the event is fatal for the queue pair. In any context.
    ///
    /// # Safety
    ///
    /// The RDMA core calls this for a queue pair that [`Qp::new`] has made.
    unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: By the safety requirements of this function `event` is valid.
        let event = unsafe { (*event).event };
        let fatal = [
            bindings::ib_event_type_IB_EVENT_QP_FATAL,
            bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
            bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
        ];
        if fatal.contains(&event) {
            // SAFETY: `context` is that of the queue pair, which is not destroyed before this
            // returns.
            H::failed(unsafe { Self::handler(context) });
        }
    }

    /// Returns the handler of a queue pair.
    ///
    /// # Safety
    ///
    /// `context` is the context of a queue pair that [`Qp::new`] has made and that is not destroyed
    /// for `'a`.
    unsafe fn handler<'a>(context: *mut c_void) -> ArcBorrow<'a, H> {
        // CAST: `Qp::new` has set the context to an `H`.
        // SAFETY: The `Pair` holds an `Arc` of the context until the queue pair is destroyed.
        unsafe { ArcBorrow::from_raw(context.cast::<H>().cast_const()) }
    }
}

impl<H: Handler> Drop for Pair<H> {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.close();
        }
        // Does not wait for the peer. An error means that there is no connection, or none any more.
        // SAFETY: The id is live by the type invariant.
        let _ = unsafe { bindings::rdma_disconnect(self.id.0) };
        // SAFETY: The queue pair is live by the type invariant. Nobody posts Sends, which needs the
        // `Qp`. The send queue has room for the marker.
        unsafe { bindings::ib_drain_sq(self.as_ptr()) };
        // SAFETY: The queue pair is live by the type invariant. Nobody posts Receives, as the pool
        // is closed. The receive queue has room for the marker.
        unsafe { bindings::ib_drain_rq(self.as_ptr()) };
        // The drain functions have waited for the last completion of each queue. Only the worker of
        // a completion queue handles completions, so none refers to the queue pair once the worker
        // is done. If a driver cannot put a queue pair into the error state, or does not take the
        // marker, the drain functions only warn. Then no completion is left because drivers remove
        // the completions of a queue pair from its completion queues when they destroy it.
        self.receive_cq.cq().flush();
        self.send_cq.cq().flush();
        // SAFETY: The id has a queue pair by the type invariant. All of its work has completed.
        unsafe { bindings::rdma_destroy_qp(self.id.0) };
        if let Some(pool) = &self.pool {
            // SAFETY: The pool was attached to this queue pair only, and was closed above. The
            // queue pair is destroyed, and its completions were handled.
            unsafe { pool.give_back() };
        }
    }
}

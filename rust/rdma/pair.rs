// SPDX-License-Identifier: GPL-2.0

//! Pairs: queue pairs without their ids, and the C functions that the RDMA core calls for them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    completion::{
        Completion,
        Status, //
    },
    cq::{
        CqReservation,
        Health, //
    },
    drain::{
        Drain,
        LOOKS, //
    },
    handler::{
        Handler,
        Unfit, //
    },
    recv::{
        buffer::Buffer,
        pool::ReceivePool,
        receive::Receive, //
    },
    send::chain_buffers::{
        ChainBuffers,
        Slot, //
    },
};
use core::ptr::NonNull;
use kernel::{
    ffi::c_void,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

/// A queue pair without its id. Dropping it disconnects, drains and destroys the queue pair.
///
/// # Completions
///
/// A completion names a slot or a Receive buffer, which names the context of the queue pair. The
/// queue pair itself is not read: completions may still be handled while it is destroyed. What they
/// name lives until all of them were handled. If that cannot be known, because a [drain](Drain) has
/// failed, it lives until the completion queue is freed.
///
/// # Invariants
///
/// - `id` is live and has a live queue pair.
/// - The context of the queue pair is `context`, which its slots and its Receive buffers name.
/// - Work requests of its send queue complete to slots in `buffers`, whose memory does not move.
pub(super) struct Pair<H: Handler> {
    pub(super) buffers: ChainBuffers,
    pub(super) context: Arc<H>,
    /// The drains of the send queue and of the receive queue; taken by `drop`.
    pub(super) send_drain: Option<Pin<KBox<Drain<H>>>>,
    pub(super) receive_drain: Option<Pin<KBox<Drain<H>>>>,
    /// The Receive pool, once it is attached to this queue pair.
    pub(super) pool: Option<Arc<ReceivePool<H::Call>>>,
    pub(super) receive_cq: CqReservation,
    pub(super) send_cq: CqReservation,
    pub(super) id: RawId,
}

/// An id that its [`CmId`](crate::cm::CmId) owns.
pub(super) struct RawId(pub(super) *mut bindings::rdma_cm_id);

// SAFETY: Ids may be used on any thread.
unsafe impl Send for RawId {}

impl<H: Handler> Pair<H> {
    /// Allocates `depth` slots of a queue pair with this context. May sleep.
    pub(super) fn new_slots(depth: usize, context: &Arc<H>) -> Result<KVec<Slot>> {
        let mut slots = KVec::with_capacity(depth, GFP_KERNEL)?;
        for _ in 0..depth {
            let cqe = bindings::ib_cqe {
                done: Some(Self::done),
            };
            let context = Arc::as_ptr(context).cast();
            slots.push(Slot { cqe, context }, GFP_KERNEL)?;
        }
        Ok(slots)
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::ib_qp {
        // SAFETY: The id is live by the type invariant, and its field `qp` does not change until
        // `drop`.
        unsafe { (*self.id.0).qp }
    }

    /// Calls [`Handler::sent`].
    ///
    /// # Safety
    ///
    /// The worker of `cq` calls this with a completion of the send queue of a queue pair that
    /// `Qp::new` has made.
    pub(super) unsafe extern "C" fn done(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: By the safety requirements of this function.
        unsafe { Health::count(cq) };
        // CAST: `wr_cqe` points to the first field of a `repr(C)` slot, see `ChainBuffers::add`.
        // SAFETY: By the safety requirements of this function `wc` is valid.
        let slot: *const Slot = unsafe { *(*wc).__bindgen_anon_1.wr_cqe }.cast();
        // SAFETY: Slots live until all completions of the queue pair were handled, or their queue is
        // freed, see `drop`.
        let context = unsafe { (*slot).context };
        // SAFETY: By the safety requirements of this function `wc` is valid.
        let status = unsafe { Status::new((*wc).status) };
        // SAFETY: The slot names the context of its queue pair by the invariant of `Pair`. The
        // context lives as long as the slot, see `drop`.
        let handler = unsafe { Self::handler(context) };
        H::sent(handler, &Completion::new(slot, status));
    }

    /// Calls the function of [`Handler`] for the completion of a Receive.
    ///
    /// # Safety
    ///
    /// The worker of `cq` calls this with a completion of a `Buffer<H::Call>` that was posted to a queue
    /// pair that `Qp::new` has made.
    pub(super) unsafe extern "C" fn received(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: By the safety requirements of this function.
        unsafe { Health::count(cq) };
        // CAST: `wr_cqe` points to the first field of a `repr(C)` buffer, see `Buffer::new`.
        // SAFETY: By the safety requirements of this function `wc` is valid.
        let raw: *mut Buffer<H::Call> = unsafe { *(*wc).__bindgen_anon_1.wr_cqe }.cast();
        // SAFETY: `wc` is valid. The status is always set.
        let status = unsafe { Status::new((*wc).status) };
        // SAFETY: `wc` is valid. These fields are meaningful only after a success; otherwise they
        // are arbitrary integers.
        let (opcode, flags) = unsafe { ((*wc).opcode, (*wc).wc_flags) };
        // SAFETY: A posted buffer lives until its completion was handled, or the completion queue is
        // freed, see `drop`. `pool` and `context` do not change.
        let (pool, context) = unsafe { ((*raw).pool, (*raw).context) };
        // SAFETY: The buffer has a reference to its pool, which is a `ReceivePool<H::Call>`.
        let pool = unsafe { &*pool.cast::<ReceivePool<H::Call>>() };
        pool.on_completed();
        // SAFETY: The completion queue is live while its worker runs, and keeps its device
        // registered. The buffer is not null. It is mapped for that device, as `Qp::new` has checked,
        // until `give_back`, which waits for this completion. This is its completion.
        let mut receive = unsafe { Receive::complete(NonNull::new_unchecked(raw), (*cq).device) };
        // SAFETY: The buffer names the context of its queue pair by the invariant of `Pair`. The
        // context lives until the completion was handled, see `drop`.
        let handler = unsafe { Self::handler(context) };
        if !status.is_success() {
            // The pool is closed first: the failed queue pair would flush the buffer again at once.
            pool.close();
            drop(receive);
            H::receive_failed(handler, status);
            return;
        }
        let unfit = Unfit::of(opcode, flags);
        if let Some(what @ Unfit::Immediate) = unfit {
            drop(receive);
            return H::unfit(handler, what);
        }
        // SAFETY: `wc` is valid. The device has written these bytes to the buffer; those of an RDMA
        // Write with immediate data, which is not handled here, would be elsewhere.
        receive.set_len(unsafe { (*wc).byte_len } as usize);
        if unfit.is_some() {
            // SAFETY: `wc` is valid, and its flags say that this is the variant of the union.
            let key = unsafe { *(*wc).ex.invalidate_rkey };
            return H::invalidated(handler, receive, key);
        }
        H::received(handler, receive);
    }

    /// Calls [`Handler::failed`] if the event is fatal for the queue pair. In any context.
    ///
    /// # Safety
    ///
    /// The RDMA core calls this for a queue pair that `Qp::new` has made.
    pub(super) unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
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
    /// `context` is the context of a queue pair that `Qp::new` has made. The `Arc` that it comes
    /// from, which the `Pair` holds first and a failed [`Drain`] later, lives for `'a`.
    unsafe fn handler<'a>(context: *const c_void) -> ArcBorrow<'a, H> {
        // CAST: `Qp::new` has set the context to an `H`.
        // SAFETY: By the safety requirements of this function.
        unsafe { ArcBorrow::from_raw(context.cast::<H>()) }
    }

    /// Puts the queue pair into the error state and waits until its work has completed, for a
    /// limited time. Returns true for the send queue, and for the receive queue, if all work of that
    /// queue has completed. Sleeps.
    fn drain(&self) -> (bool, bool) {
        let qp = self.as_ptr();
        let mut attr: bindings::ib_qp_attr = crate::zeroed();
        attr.qp_state = bindings::ib_qp_state_IB_QPS_ERR;
        // CAST: A mask.
        let mask = bindings::ib_qp_attr_mask_IB_QP_STATE as c_int;
        // SAFETY: The queue pair is live by the type invariant.
        let is_error = unsafe { bindings::ib_modify_qp(qp, &mut attr, mask) } == 0;
        let (Some(sends), Some(receives), true) = (&self.send_drain, &self.receive_drain, is_error)
        else {
            return (false, false);
        };
        let handled = |reservation: &CqReservation| reservation.cq().handled();
        let (of_sends, of_receives) = (handled(&self.send_cq), handled(&self.receive_cq));
        // SAFETY: The queue pair is in the error state. Nobody posts Sends, which needs the `Qp`, and
        // the send queue has room for the marker. `drop` keeps the drain unless it succeeds.
        let has_sent = unsafe { sends.post_send(qp) }.is_ok();
        // SAFETY: As above. Nobody posts Receives, as the pool is closed.
        let has_received = unsafe { receives.post_receive(qp) }.is_ok();
        let mut left = LOOKS;
        (
            has_sent && sends.wait(&self.send_cq, of_sends, &mut left),
            has_received && receives.wait(&self.receive_cq, of_receives, &mut left),
        )
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
        let (is_sent, is_received) = self.drain();
        // SAFETY: The id has a queue pair by the type invariant. After this the device neither uses
        // memory of its work nor adds completions (`ib_destroy_qp` in
        // drivers/infiniband/core/verbs.c).
        unsafe { bindings::rdma_destroy_qp(self.id.0) };
        // Only the worker of a completion queue handles completions. After a drain that has
        // succeeded, it has polled all of them, and has handled them once it is done.
        self.receive_cq.cq().flush();
        self.send_cq.cq().flush();
        let context = &self.context;
        if let Some(drain) = self.send_drain.take().filter(|_| !is_sent) {
            drain.keep_slots(&self.send_cq, context.clone(), self.buffers.take_slots());
        }
        let failed = self.receive_drain.take().filter(|_| !is_received);
        match (self.pool.take(), failed) {
            (Some(pool), Some(drain)) => {
                // SAFETY: The pool was attached to this queue pair only, and was closed above. The
                // queue pair is destroyed.
                unsafe { drain.keep_pool(&self.receive_cq, context.clone(), pool) }
            }
            // SAFETY: As above. All completions of its buffers were handled.
            (Some(pool), None) => unsafe { pool.give_back() },
            // Without a pool nothing but the marker may complete.
            (None, Some(drain)) => drain.keep(&self.receive_cq),
            (None, None) => {}
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Pairs: queue pairs without their ids, and the C functions that the RDMA core calls for them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    chain_buffers::{
        ChainBuffers,
        Slot, //
    },
    completion::{
        Completion,
        Status, //
    },
    cq::Share,
    handler::{
        Handler,
        Unfit, //
    },
    receive::Receive,
    receive_buffer::Buffer,
    receive_pool::ReceivePool, //
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
/// # Invariants
///
/// - `id` is live and has a live queue pair.
/// - The context of the queue pair is `_context`.
/// - Work requests of its send queue complete to slots in `buffers`, whose memory does not move.
pub(super) struct Pair<H: Handler> {
    pub(super) buffers: ChainBuffers,
    pub(super) _context: Arc<H>,
    /// The Receive pool, once it is attached to this queue pair.
    pub(super) pool: Option<Arc<ReceivePool<H::Call>>>,
    pub(super) receive_cq: Share,
    pub(super) send_cq: Share,
    pub(super) id: RawId,
}

/// An id that its [`CmId`](crate::cm::CmId) owns.
pub(super) struct RawId(pub(super) *mut bindings::rdma_cm_id);

// SAFETY: Ids may be used on any thread.
unsafe impl Send for RawId {}

impl<H: Handler> Pair<H> {
    /// Allocates `depth` slots. May sleep.
    pub(super) fn new_slots(depth: usize) -> Result<KVec<Slot>> {
        let mut slots = KVec::with_capacity(depth, GFP_KERNEL)?;
        for index in 0..depth {
            let cqe = bindings::ib_cqe {
                done: Some(Self::done),
            };
            slots.push(Slot { cqe, index }, GFP_KERNEL)?;
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
    /// The RDMA core calls this with a completion of the send queue of a queue pair that
    /// `Qp::new` has made.
    pub(super) unsafe extern "C" fn done(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // CAST: `wr_cqe` points to the first field of a `repr(C)` slot, see `ChainBuffers::add`.
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
    /// pair that `Qp::new` has made.
    pub(super) unsafe extern "C" fn received(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
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
        let pool = unsafe { &*(*raw).pool.cast::<ReceivePool<H::Call>>() };
        pool.on_completed();
        // SAFETY: `raw` is a buffer of `pool`, so it is not null. It was posted to `qp`, which is
        // live while its completions are handled, and this is its completion.
        let mut receive = unsafe { Receive::complete(NonNull::new_unchecked(raw), qp) };
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
    /// `context` is the context of a queue pair that `Qp::new` has made and that is not destroyed
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

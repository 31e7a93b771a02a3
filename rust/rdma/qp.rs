// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: the hardware half of a connection.
//!
//! A [`Qp`] is posted to by its [`SendQueue`](super::send_queue::SendQueue); dropping it, or [`Qp::end`], disconnects,
//! waits until all posted work has completed and its completions were handled, and destroys the queue
//! pair. The id goes last, or is what is left.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    chain::{
        Buffers,
        Chain, //
    },
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
    memory_region::Claim, //
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

/// A place in the send queue: names posted work in its completion.
#[repr(C)]
struct Slot {
    /// First, so that the pointers are the same.
    cqe: bindings::ib_cqe,
    index: usize,
}

/// What a queue pair is made of.
pub struct Parts<'a, H: Handler> {
    /// The protection domain.
    pub pd: &'a Arc<Pd>,
    /// The buffers for its receive queue.
    pub receives: &'a Arc<ReceivePool<H::Call>>,
    /// Where Receives complete: one entry more than there may be buffers.
    pub receive_cq: Share,
    /// Where all else completes: at least `depth + 1` entries.
    pub send_cq: Share,
    /// How many work requests can be posted at once.
    pub depth: u32,
    /// How many work requests are posted together.
    pub chain: usize,
    /// How many pieces a work request can have.
    pub max_sge: u32,
    /// How many pieces an RDMA Read can have.
    pub max_read_sge: u32,
}

/// A queue pair, without its id; dropping it destroys it.
///
/// # Invariants
///
/// `id` is live and has a live queue pair with context `_context` and completions in `slots`, which
/// stay where they are.
struct Pair<H: Handler> {
    slots: KVec<Slot>,
    buffers: Buffers,
    _context: Arc<H>,
    /// The Receive buffers, once they are this queue pair's.
    pool: Option<Arc<ReceivePool<H::Call>>>,
    receive_cq: Share,
    send_cq: Share,
    id: RawId,
}

/// An id that somebody else owns.
struct RawId(*mut bindings::rdma_cm_id);

// SAFETY: Ids may be used on any thread.
unsafe impl Send for RawId {}

/// A queue pair on its id.
///
/// # Invariants
///
/// `pair` is that of `id`, and goes first.
pub struct Qp<H: Handler, E: Events> {
    pair: Pair<H>,
    id: CmId<E>,
}

impl<H: Handler> Parts<'_, H> {
    /// Entries of the receive queue: one for each buffer, and one for the marker of `ib_drain_rq`.
    fn receives_depth(&self) -> u32 {
        let most = u32::try_from(self.receives.max()).unwrap_or(u32::MAX);
        most.saturating_add(1)
    }

    /// Whether all of it is of one device, and each completion queue for its kind of work: the RDMA
    /// core asks for neither.
    fn are_fit(&self) -> bool {
        let sends = self.depth.saturating_add(1);
        self.receives.is_of(self.pd)
            && self.send_cq.fits(self.pd, Completes::Sends, sends)
            && self
                .receive_cq
                .fits(self.pd, Completes::Receives, self.receives_depth())
    }
}

impl<H: Handler, E: Events> Qp<H, E> {
    /// Makes a queue pair; when that fails `id` is dropped, which rejects the peer. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for parts that do not fit together, `EBUSY` for buffers that another queue pair has,
    /// `ENOMEM`, or the driver's.
    pub fn new(id: CmId<E>, context: Arc<H>, parts: Parts<'_, H>) -> Result<Self> {
        if !parts.are_fit() {
            return Err(EINVAL);
        }
        let mut slots = KVec::with_capacity(parts.depth as usize, GFP_KERNEL)?;
        for index in 0..parts.depth as usize {
            let cqe = bindings::ib_cqe {
                done: Some(Pair::<H>::done),
            };
            slots.push(Slot { cqe, index }, GFP_KERNEL)?;
        }
        let max_sge = parts.max_sge as usize;
        let max_read_sge = parts.max_read_sge as usize;
        let buffers = Buffers::new(parts.pd, parts.chain, max_sge, max_read_sge)?;
        let mut attr: bindings::ib_qp_init_attr = pin_init::zeroed();
        attr.event_handler = Some(Pair::<H>::event);
        attr.qp_context = Arc::as_ptr(&context).cast_mut().cast();
        attr.send_cq = parts.send_cq.cq().as_ptr();
        attr.recv_cq = parts.receive_cq.cq().as_ptr();
        attr.cap.max_recv_wr = parts.receives_depth();
        attr.cap.max_recv_sge = 1;
        // One more, for the marker of `ib_drain_sq`.
        attr.cap.max_send_wr = parts.depth.saturating_add(1);
        attr.cap.max_send_sge = parts.max_sge;
        attr.sq_sig_type = bindings::ib_sig_type_IB_SIGNAL_REQ_WR;
        attr.qp_type = bindings::ib_qp_type_IB_QPT_RC;
        // SAFETY: The id is live and has a device, which the RDMA core compares with that of the
        // domain, and `are_fit` with those of the queues; everything in `attr` lives until `drop`
        // has destroyed the queue pair.
        to_result(unsafe { bindings::rdma_create_qp(id.as_ptr(), parts.pd.as_ptr(), &mut attr) })?;
        // INVARIANT: As just made; `slots` does not grow, and its memory does not move.
        let pair = Pair {
            slots,
            buffers,
            _context: context,
            pool: None,
            receive_cq: parts.receive_cq,
            send_cq: parts.send_cq,
            id: RawId(id.as_ptr()),
        };
        // INVARIANT: The id outlives the pair, by the order of the fields and by `end`.
        let mut this = Self { pair, id };
        let qp = NonNull::new(this.pair.as_ptr()).ok_or(EINVAL)?;
        // SAFETY: The queue pair was just made so, and its context is an `H`; from here on the pair has the
        // pool, and its `drop` closes that.
        if !unsafe { parts.receives.open(qp, Pair::<H>::received) } {
            return Err(EBUSY);
        }
        this.pair.pool = Some(parts.receives.clone());
        Ok(this)
    }

    /// The id.
    pub fn id(&self) -> &CmId<E> {
        &self.id
    }

    /// Disconnects and destroys the queue pair; returns the id. Sleeps.
    pub(super) fn end(self) -> CmId<E> {
        let Self { pair, id } = self;
        drop(pair);
        id
    }

    /// How many work requests can be posted at once.
    pub(super) fn depth(&self) -> usize {
        self.pair.slots.len()
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::ib_qp {
        self.pair.as_ptr()
    }

    /// Begins an empty chain of the work with this `claim`, in place of the one that was posted last.
    pub(super) fn begin<'b, 'm>(&'b mut self, claim: &'b mut Claim) -> Chain<'b, 'm> {
        self.pair.buffers.begin(claim)
    }

    /// Posts the chain that was built last, whose work gets the slots from `first` on, round their
    /// ring; the last one completes visibly if `signal`. Does not sleep.
    ///
    /// # Errors
    ///
    /// The driver's. Some of the chain may have been posted: the connection is to be closed.
    ///
    /// # Safety
    ///
    /// What the chain names stays as it is until the completion of its last work request, or of a
    /// later one, or until this `Qp` is dropped.
    pub(super) unsafe fn post(&mut self, first: usize, signal: bool) -> Result {
        let count = self.pair.slots.len();
        let slots = self.pair.slots.as_ptr();
        let wr = self.pair.buffers.link(signal, |i| {
            let index = first.saturating_add(i);
            let index = index.checked_sub(count).unwrap_or(index);
            // CAST: `cqe` is the first field; it is not written to.
            slots.wrapping_add(index).cast_mut().cast()
        });
        if wr.is_null() {
            return Ok(());
        }
        let mut bad = core::ptr::null();
        // SAFETY: The queue pair is live by the type invariant. `link` made a chain whose requests
        // and entries are valid during the call; the memory they name stays by the safety
        // requirements of this function.
        to_result(unsafe { bindings::ib_post_send(self.as_ptr(), wr, &mut bad) })
    }
}

impl<H: Handler> Pair<H> {
    fn as_ptr(&self) -> *mut bindings::ib_qp {
        // SAFETY: By the type invariant; `qp` does not change until `drop`.
        unsafe { (*self.id.0).qp }
    }

    /// # Safety
    ///
    /// The RDMA core calls this for work of a queue pair that [`Qp::new`] made.
    unsafe extern "C" fn done(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // CAST: `cqe` is the first field of the `repr(C)` struct it is in.
        // SAFETY: By the safety requirements of this function.
        let slot: *const Slot = unsafe { *(*wc).__bindgen_anon_1.wr_cqe }.cast();
        // SAFETY: Slots live until the queue pair's completions were handled, see `drop`.
        let index = unsafe { (*slot).index };
        // SAFETY: By the safety requirements of this function.
        let (status, qp) = unsafe { (Status::new((*wc).status), (*wc).qp) };
        // SAFETY: As for the slots.
        let handler = unsafe { Self::handler((*qp).qp_context) };
        let completion = Completion::new(qp, index, status);
        H::sent(handler, &completion);
    }

    /// # Safety
    ///
    /// The RDMA core calls this for a Receive of a live pool, whose queue pair has an `H` as its
    /// context.
    unsafe extern "C" fn received(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // CAST: `cqe` is the first field of the `repr(C)` struct it is in.
        // SAFETY: By the safety requirements of this function.
        let raw: *mut Buffer<H::Call> = unsafe { *(*wc).__bindgen_anon_1.wr_cqe }.cast();
        // SAFETY: As above. These fields are valid whatever the status is.
        let (status, qp) = unsafe { (Status::new((*wc).status), (*wc).qp) };
        // SAFETY: As above; they mean something if that is a success, and are some numbers otherwise.
        let (opcode, flags) = unsafe { ((*wc).opcode, (*wc).wc_flags) };
        // SAFETY: The queue pair has the pool, and is destroyed after its completions were handled.
        let pool = unsafe { ArcBorrow::from_raw((*raw).pool.cast::<ReceivePool<H::Call>>()) };
        // SAFETY: `raw` is not null; the queue pair as above.
        let mut receive = unsafe { Receive::complete(pool, NonNull::new_unchecked(raw), qp) };
        let unfit = unfit(opcode, flags);
        let is_message = status.is_success() && unfit.is_none();
        if is_message {
            // SAFETY: As above; the device has written so many bytes. Those of an RDMA Write with
            // immediate data would be elsewhere.
            receive.set_len(unsafe { (*wc).byte_len } as usize);
        }
        // SAFETY: A queue pair is destroyed after its completions were handled.
        let handler = unsafe { Self::handler((*qp).qp_context) };
        if is_message {
            H::received(handler, receive);
        } else if let Some(what) = unfit.filter(|_| status.is_success()) {
            drop(receive);
            H::unfit(handler, what);
        } else {
            // A queue pair that has failed gives back at once what is posted to it.
            pool.close();
            drop(receive);
            H::receive_failed(handler, status);
        }
    }

    /// # Safety
    ///
    /// The RDMA core calls this for a queue pair that [`Qp::new`] made.
    unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: By the safety requirements of this function.
        let event = unsafe { (*event).event };
        let fatal = [
            bindings::ib_event_type_IB_EVENT_QP_FATAL,
            bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
            bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
        ];
        if fatal.contains(&event) {
            // SAFETY: By the safety requirements of this function.
            H::failed(unsafe { Self::handler(context) });
        }
    }

    /// # Safety
    ///
    /// `context` is of a queue pair that [`Qp::new`] made, and that is not destroyed for `'a`.
    unsafe fn handler<'a>(context: *mut c_void) -> ArcBorrow<'a, H> {
        // CAST: `new` has set it to this type.
        // SAFETY: By the safety requirements of this function the `Pair` keeps its `Arc`.
        unsafe { ArcBorrow::from_raw(context.cast::<H>().cast_const()) }
    }
}

impl<H: Handler> Drop for Pair<H> {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.close();
        }
        // Ends the connection, without waiting for the peer. The error only says that there is none
        // (any more).
        // SAFETY: The id is live by the type invariant.
        let _ = unsafe { bindings::rdma_disconnect(self.id.0) };
        // SAFETY: The queue pair is live by the type invariant; nobody posts, as that needs the
        // `Qp`; there is room for the marker.
        unsafe { bindings::ib_drain_sq(self.as_ptr()) };
        // SAFETY: As above; nobody posts Receives, as the pool is closed.
        unsafe { bindings::ib_drain_rq(self.as_ptr()) };
        // After this no completion names the queue pair: each of the two calls above has waited for the
        // last one of a queue, and only the worker of the completion queue handles them. The RDMA core
        // warns if a driver cannot take a queue pair to the error state, or takes no marker. Then this
        // counts on its destruction to take completions off the queues, as drivers of shared completion
        // queues do.
        self.receive_cq.cq().flush();
        self.send_cq.cq().flush();
        // SAFETY: The id has a queue pair by the type invariant, without work now.
        unsafe { bindings::rdma_destroy_qp(self.id.0) };
        if let Some(pool) = &self.pool {
            // SAFETY: The pool was this queue pair's alone, and was closed above; the queue pair is gone, and
            // its completions were handled.
            unsafe { pool.give_back() };
        }
    }
}

/// What a Receive that was successful is no message for.
fn unfit(opcode: bindings::ib_wc_opcode, flags: c_int) -> Option<Unfit> {
    if opcode == bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM {
        return Some(Unfit::Immediate);
    }
    // CAST: A set of flags.
    let is_invalidation = flags as u32 & bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE != 0;
    is_invalidation.then_some(Unfit::Invalidation)
}

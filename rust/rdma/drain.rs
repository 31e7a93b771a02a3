// SPDX-License-Identifier: GPL-2.0

//! Drains: wait until all posted work of a queue has completed, for a limited time.
//!
//! A queue pair in the error state flushes all posted work. A marker that is posted behind that work
//! completes last. The RDMA core's `ib_drain_sq` and `ib_drain_rq` wait for such a marker without a
//! limit, and hang if the completion queue completes nothing any more.
//!
//! # Failed drains
//!
//! A drain fails if the device does not put the queue pair into the error state, does not take or does
//! not complete the marker, or if the completion queue is broken. The queue pair is destroyed
//! nevertheless, after which the device adds no completion to the queue (`ib_destroy_qp`). But the queue
//! may still have completions, or its worker may have polled some that it has not handled. All memory
//! that these may name is kept until the completion queue is freed. The queue gets no more queue pairs,
//! so it is freed when its other connections have ended.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    cq::CqReservation,
    handler::Handler,
    recv::pool::ReceivePool,
    send::chain_buffers::Slot, //
};
use core::mem::ManuallyDrop;
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc,
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// Milliseconds between two looks at a completion queue.
const SLICE_MSECS: u32 = 250;

/// The looks at the queues of a queue pair after which a drain fails: 15 seconds.
pub(super) const LOOKS: u32 = 60;

/// A marker: the last work request of a queue.
#[repr(C)]
#[pin_data]
struct Marker {
    /// The first field, so that a pointer to it points to the marker.
    cqe: bindings::ib_cqe,
    /// Completed with the work request.
    #[pin]
    done: Opaque<kernel::bindings::completion>,
}

// SAFETY: The fields are constant, or locked by the functions of completions.
unsafe impl Send for Marker {}

impl Marker {
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            cqe: bindings::ib_cqe {
                done: Some(Self::done),
            },
            // SAFETY: `slot` is valid for writes, and stays in place.
            done <- Opaque::ffi_init(|slot| unsafe { kernel::bindings::init_completion(slot) }),
        })
    }

    /// Ends the wait for the marker.
    ///
    /// # Safety
    ///
    /// The RDMA core calls this with the completion of a posted `Marker`.
    unsafe extern "C" fn done(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // CAST: `wr_cqe` points to the first field of a `repr(C)` marker.
        // SAFETY: By the safety requirements of this function `wc` is valid.
        let marker: *const Self = unsafe { *(*wc).__bindgen_anon_1.wr_cqe }.cast();
        // SAFETY: A marker lives until its completion was handled or its completion queue is freed,
        // see `Drain`.
        unsafe { kernel::bindings::complete((*marker).done.get()) };
    }

    /// Returns the pointer that a work request gets.
    fn cqe(&self) -> ManuallyDrop<*mut bindings::ib_cqe> {
        ManuallyDrop::new((&raw const self.cqe).cast_mut())
    }

    /// Waits for the completion of the marker, for at most [`SLICE_MSECS`]. Sleeps.
    fn wait(&self) -> bool {
        let slice = msecs_to_jiffies(SLICE_MSECS);
        // SAFETY: `done` was initialised by `new`.
        unsafe { kernel::bindings::wait_for_completion_timeout(self.done.get(), slice) > 0 }
    }
}

/// The drain of one queue of a queue pair: its marker, and the memory that completions of the queue may
/// name after the drain has failed.
///
/// # Invariants
///
/// Once the marker is posted, this value is not dropped before the completion of the marker was
/// handled or the completion queue is freed.
#[pin_data]
pub(super) struct Drain<H: Handler> {
    #[pin]
    marker: Marker,
    /// The context of the queue pair, the slots of its send queue, and its Receive buffers.
    context: Option<Arc<H>>,
    slots: KVec<Slot>,
    pool: Option<Pool<H>>,
}

/// The pool of a queue pair that is destroyed and could not be drained. Dropping it, after the
/// completion queue was freed, frees the buffers.
///
/// # Invariants
///
/// The pool is closed. It was attached to a queue pair that is destroyed, and that alone.
struct Pool<H: Handler>(Arc<ReceivePool<H::Call>>);

impl<H: Handler> Drop for Pool<H> {
    fn drop(&mut self) {
        // SAFETY: The pool is closed and its queue pair is destroyed by the type invariant. The
        // completion queue is freed by the invariant of `Drain`, so no completion is left.
        unsafe { self.0.give_back() };
    }
}

impl<H: Handler> Drain<H> {
    /// Allocates a drain. May sleep.
    pub(super) fn new() -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                marker <- Marker::new(),
                context: None,
                slots: KVec::new(),
                pool: None,
            }),
            GFP_KERNEL,
        )
    }

    /// Posts the marker to the send queue of `qp`.
    ///
    /// # Errors
    ///
    /// The driver's error: the marker is not posted.
    ///
    /// # Safety
    ///
    /// `qp` is live and in the error state, and its send queue has room. The caller upholds the
    /// invariant of this type.
    pub(super) unsafe fn post_send(&self, qp: *mut bindings::ib_qp) -> Result {
        let mut wr: bindings::ib_rdma_wr = crate::zeroed();
        wr.wr.__bindgen_anon_1.wr_cqe = self.marker.cqe();
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        // CAST: A flag.
        wr.wr.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED as c_int;
        let mut bad = core::ptr::null();
        // SAFETY: The queue pair is live by the safety requirements of this function. The work
        // request is valid during the call, and the marker until its completion was handled.
        to_result(unsafe { bindings::ib_post_send(qp, &raw const wr.wr, &mut bad) })
    }

    /// Posts the marker to the receive queue of `qp`. Errors and requirements are those of
    /// [`Self::post_send`].
    ///
    /// # Safety
    ///
    /// As for [`Self::post_send`], for the receive queue.
    pub(super) unsafe fn post_receive(&self, qp: *mut bindings::ib_qp) -> Result {
        let mut wr: bindings::ib_recv_wr = crate::zeroed();
        wr.__bindgen_anon_1.wr_cqe = self.marker.cqe();
        let mut bad = core::ptr::null();
        // SAFETY: As in `post_send`.
        to_result(unsafe { bindings::ib_post_recv(qp, &wr, &mut bad) })
    }

    /// Waits for the completion of the marker, which was posted. Returns false if it does not complete.
    /// The completion queue is then broken, unless it has handled other completions since their number
    /// was `handled`. Subtracts the looks that it takes, of [`SLICE_MSECS`] each, from `left`, and looks
    /// at least twice. Sleeps.
    pub(super) fn wait(&self, reservation: &CqReservation, handled: u32, left: &mut u32) -> bool {
        loop {
            if self.marker.wait() {
                return true;
            }
            // The device may have failed to signal a completion.
            reservation.cq().poll();
            if reservation.cq().is_broken() {
                return self.marker.wait();
            }
            let Some(fewer) = left.checked_sub(1) else {
                if reservation.cq().handled() == handled {
                    reservation.cq().stop();
                }
                return self.marker.wait();
            };
            *left = fewer;
        }
    }

    /// Keeps the slots of a send queue that could not be drained, and the context of its queue pair,
    /// until the completion queue is freed. May sleep.
    pub(super) fn keep_slots(
        mut self: Pin<KBox<Self>>,
        reservation: &CqReservation,
        context: Arc<H>,
        slots: KVec<Slot>,
    ) {
        let this = self.as_mut().project();
        *this.context = Some(context);
        *this.slots = slots;
        self.keep(reservation);
    }

    /// Keeps the buffers of a receive queue that could not be drained, and the context of its queue
    /// pair, until the completion queue is freed. May sleep.
    ///
    /// # Safety
    ///
    /// `pool` is closed, and was attached to a queue pair that is destroyed, and that alone.
    pub(super) unsafe fn keep_pool(
        mut self: Pin<KBox<Self>>,
        reservation: &CqReservation,
        context: Arc<H>,
        pool: Arc<ReceivePool<H::Call>>,
    ) {
        let this = self.as_mut().project();
        *this.context = Some(context);
        // INVARIANT: By the safety requirements of this function.
        *this.pool = Some(Pool(pool));
        self.keep(reservation);
    }

    /// Keeps the drain until the completion queue is freed. May sleep.
    pub(super) fn keep(self: Pin<KBox<Self>>, reservation: &CqReservation) {
        // SAFETY: The queue does not take the drain out of its box.
        let drain = unsafe { Pin::into_inner_unchecked(self) };
        reservation.keep(drain);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues, and the buffers of all connections of a device.
//!
//! A buffer is posted to the queue, or belongs to a [`Receive`], or is kept aside
//! because posting failed. Posted ones are *lent*: a message that never ends (the peer dies in the
//! middle of a Send) takes one from the queue and never completes. Hence the pool keeps a table of
//! all buffers, frees them only after the queue is destroyed, and can make up for lost ones.
//!
//! A buffer is unmapped before anybody sees its bytes, as nfsd may write to them, and mapped again
//! when it is posted.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    device::Pd,
    qp::{
        Handler,
        Status, //
    },
    receive::Receive,
    transfer::{
        map_page,
        unmap_page,
        Direction, //
    },
};
use crate::abstractions::{
    bindings,
    page::{
        OwnedPage,
        PAGE_SIZE, //
    },
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::c_void,
    new_spinlock,
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
};

/// The bytes of a Receive buffer: a message that is longer breaks its connection.
pub(crate) const RECEIVE_SIZE: usize = PAGE_SIZE;

/// A buffer with what belongs to it.
#[repr(C)]
pub(super) struct Buffer<H: Handler> {
    /// Names this buffer in a completion; first, so that the pointers are the same.
    cqe: bindings::ib_cqe,
    pub(super) pool: *const ReceivePool<H>,
    pub(super) page: OwnedPage,
    /// The device's address while the buffer is posted.
    addr: Option<u64>,
    /// The length of the message.
    pub(super) len: usize,
    pub(super) state: H::Call,
}

/// A queue and what it needs; after it nothing of the pool holds the device.
struct Queue {
    srq: NonNull<bindings::ib_srq>,
    pd: Arc<Pd>,
}

/// What the pool's lock protects.
struct Inner<H: Handler> {
    /// The queue, until it is destroyed.
    queue: Option<Queue>,
    /// All buffers.
    table: KVec<NonNull<Buffer<H>>>,
    /// Buffers that are with nobody: posting them failed, or there is no queue any more.
    aside: KVec<NonNull<Buffer<H>>>,
    /// The number of buffers on the queue, as far as completions tell.
    posted: usize,
}

// SAFETY: The pointers are to buffers that belong to the pool, and to a queue that may be used on
// any thread.
unsafe impl<H: Handler> Send for Inner<H> {}

/// A shared receive queue and its buffers.
///
/// # Invariants
///
/// Each buffer of `table` is a live box of its own, whose `pool` is this one. Its `addr` is there
/// if and only if it is posted. `aside` has room for all of `table`.
#[pin_data(PinnedDrop)]
pub(crate) struct ReceivePool<H: Handler> {
    #[pin]
    inner: SpinLock<Inner<H>>,
    /// Whether the device has said that the queue runs low.
    low: AtomicFlag,
    /// The most buffers that there may ever be.
    max: usize,
}

impl<H: Handler> ReceivePool<H> {
    /// Makes a queue for `max` buffers and posts `count` of them. May sleep.
    pub(crate) fn new(pd: &Arc<Pd>, count: usize, max: usize) -> Result<Arc<Self>> {
        let inner = Inner {
            queue: None,
            table: KVec::with_capacity(max, GFP_KERNEL)?,
            aside: KVec::with_capacity(max, GFP_KERNEL)?,
            posted: 0,
        };
        let pool = Arc::pin_init(
            pin_init!(Self {
                inner <- new_spinlock!(inner, "svcrdma receives"),
                low: AtomicFlag::new(false),
                max,
            }),
            GFP_KERNEL,
        )?;
        let srq = pool.create_srq(pd)?;
        pool.inner.lock().queue = Some(Queue {
            srq,
            pd: pd.clone(),
        });
        if let Err(e) = pool.grow(count) {
            pool.destroy_srq();
            return Err(e);
        }
        Ok(pool)
    }

    fn create_srq(&self, pd: &Pd) -> Result<NonNull<bindings::ib_srq>> {
        let mut attr: bindings::ib_srq_init_attr = super::zeroed();
        attr.event_handler = Some(Self::event);
        attr.srq_context = core::ptr::from_ref(self).cast_mut().cast();
        // CAST: The caller has cut `max` to the device's limit.
        attr.attr.max_wr = self.max as u32;
        attr.attr.max_sge = 1;
        attr.srq_type = bindings::ib_srq_type_IB_SRQT_BASIC;
        // SAFETY: `pd` is live, and `attr` is filled in; this pool outlives the queue.
        let srq = from_err_ptr(unsafe { bindings::ib_create_srq(pd.as_ptr(), &mut attr) })?;
        NonNull::new(srq).ok_or(ENOMEM)
    }

    /// Makes and posts up to `count` more buffers, as many as `max` allows. May sleep.
    pub(crate) fn grow(self: &Arc<Self>, count: usize) -> Result {
        for _ in 0..count {
            let buffer = self.new_buffer()?;
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

    fn new_buffer(self: &Arc<Self>) -> Result<NonNull<Buffer<H>>> {
        let buffer = Buffer {
            cqe: bindings::ib_cqe {
                done: Some(Self::done),
            },
            pool: Arc::as_ptr(self),
            page: OwnedPage::new()?,
            addr: None,
            len: 0,
            state: H::Call::default(),
        };
        let buffer = KBox::into_raw(KBox::new(buffer, GFP_KERNEL)?);
        NonNull::new(buffer).ok_or(ENOMEM)
    }

    /// Asks the device to say when fewer than `limit` buffers are on the queue. May sleep.
    pub(crate) fn watch(&self, limit: u32) -> Result {
        let mut attr: bindings::ib_srq_attr = pin_init::zeroed();
        attr.srq_limit = limit;
        let srq = self.srq_ptr().ok_or(ENODEV)?;
        // SAFETY: The queue is live until `destroy_srq`, which nobody calls while others use the
        // hardware.
        to_result(unsafe {
            bindings::ib_modify_srq(srq, &mut attr, bindings::ib_srq_attr_mask_IB_SRQ_LIMIT)
        })
    }

    /// Whether the device has said so since the last call.
    pub(crate) fn take_low(&self) -> bool {
        self.low.xchg(false, Full)
    }

    /// # Safety
    ///
    /// The RDMA core calls this for a queue that [`Self::create_srq`] made, in any context.
    unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: By the safety requirements of this function.
        if unsafe { (*event).event } == bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED {
            // CAST: `create_srq` has set it to this type.
            // SAFETY: The pool outlives its queue.
            unsafe { &*context.cast::<Self>() }.low.store(true, Relaxed);
        }
    }

    /// The number of buffers that there are, and that are posted as far as completions tell.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.table.len(), inner.posted)
    }

    /// Maps and posts `buffer`, which is with nobody, or keeps it aside.
    fn post(&self, inner: &mut Inner<H>, buffer: NonNull<Buffer<H>>) {
        if self.try_post(inner, buffer).is_err() {
            // There is room by the type invariant; if not, the table still frees the buffer.
            let _ = inner.aside.push_within_capacity(buffer);
        }
    }

    fn try_post(&self, inner: &mut Inner<H>, buffer: NonNull<Buffer<H>>) -> Result {
        let queue = inner.queue.as_ref().ok_or(ENODEV)?;
        let raw = buffer.as_ptr();
        // SAFETY: The buffer is live by the type invariant, and with nobody.
        let page = unsafe { &(*raw).page };
        // SAFETY: The page stays in the buffer, and nobody uses it while it is posted.
        let addr = unsafe { map_page(&queue.pd, page, Direction::FromDevice)? };
        let mut sge = bindings::ib_sge {
            addr,
            length: RECEIVE_SIZE as u32,
            lkey: queue.pd.local_key(),
        };
        let mut wr: bindings::ib_recv_wr = super::zeroed();
        // SAFETY: As above.
        wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(unsafe { &raw mut (*raw).cqe });
        wr.sg_list = &mut sge;
        wr.num_sge = 1;
        // SAFETY: As above. Set before posting: the completion may come at once.
        unsafe { (*raw).addr = Some(addr) };
        // SAFETY: The queue is live, as `destroy_srq` takes it out first; `wr` and `sge` are only
        // read during the call; the buffer stays until the queue is destroyed.
        let posted = to_result(unsafe { bindings::ib_post_srq_recv(queue.srq.as_ptr(), &wr) });
        if posted.is_err() {
            // SAFETY: The buffer was not posted.
            unsafe { (*raw).addr = None };
            // SAFETY: As just mapped.
            unsafe { unmap_page(&queue.pd, addr, Direction::FromDevice) };
            return posted;
        }
        inner.posted = inner.posted.saturating_add(1);
        Ok(())
    }

    /// Posts the buffers that could not be posted before, until that fails again.
    pub(crate) fn repost(&self) {
        let mut inner = self.inner.lock();
        while let Some(buffer) = inner.aside.pop() {
            if self.try_post(&mut inner, buffer).is_err() {
                // It was in there just now, so there is room.
                let _ = inner.aside.push_within_capacity(buffer);
                return;
            }
        }
    }

    /// Destroys the queue; all buffers are with nobody then, or with a [`Receive`]. No queue pair
    /// uses it any more, and the completion queues are idle. Sleeps.
    pub(crate) fn destroy_srq(&self) {
        let taken = self.inner.lock().queue.take();
        let Some(queue) = taken else {
            return;
        };
        // SAFETY: The queue is live, and nobody else has it.
        unsafe { bindings::ib_destroy_srq(queue.srq.as_ptr()) };
        let inner = self.inner.lock();
        for buffer in &inner.table {
            // SAFETY: The buffer is live by the type invariant; if it was posted, the device and
            // completions are done with it, otherwise `addr` is not there.
            if let Some(addr) = unsafe { (*buffer.as_ptr()).addr.take() } {
                // SAFETY: By the type invariant; the queue is gone.
                unsafe { unmap_page(&queue.pd, addr, Direction::FromDevice) };
            }
        }
        drop(inner);
    }

    /// Unmaps a buffer that the device has filled, or given up.
    ///
    /// # Safety
    ///
    /// A completion says that `buffer` of this pool is not posted any more; nobody else has it.
    pub(super) unsafe fn take_off(&self, buffer: NonNull<Buffer<H>>) {
        let raw = buffer.as_ptr();
        let mut inner = self.inner.lock();
        inner.posted = inner.posted.saturating_sub(1);
        // SAFETY: By the safety requirements of this function.
        if let Some(addr) = unsafe { (*raw).addr.take() } {
            if let Some(queue) = &inner.queue {
                // SAFETY: The device is done with it.
                unsafe { unmap_page(&queue.pd, addr, Direction::FromDevice) };
            }
        }
        // SAFETY: By the safety requirements of this function.
        unsafe { (*raw).len = 0 };
    }

    /// Takes back a buffer from a [`Receive`].
    pub(super) fn recycle(&self, buffer: NonNull<Buffer<H>>) {
        self.post(&mut self.inner.lock(), buffer);
    }

    pub(super) fn srq_ptr(&self) -> Option<*mut bindings::ib_srq> {
        let inner = self.inner.lock();
        inner.queue.as_ref().map(|queue| queue.srq.as_ptr())
    }

    /// # Safety
    ///
    /// The RDMA core calls this for a Receive of a live pool, whose queue pairs have an `H` as
    /// their context.
    unsafe extern "C" fn done(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // CAST: `cqe` is the first field of the `repr(C)` struct it is in.
        // SAFETY: By the safety requirements of this function.
        let raw: *mut Buffer<H> = unsafe { *(*wc).__bindgen_anon_1.wr_cqe }.cast();
        // SAFETY: As above. These fields are valid whatever the status is.
        let (status, qp) = unsafe { (Status::new((*wc).status), (*wc).qp) };
        // SAFETY: The pool is live: the device's hardware has it until after the queue pairs.
        let pool = unsafe { ArcBorrow::from_raw((*raw).pool) };
        // SAFETY: `raw` is not null.
        let mut receive = unsafe { Receive::complete(pool, NonNull::new_unchecked(raw)) };
        if status.is_success() {
            // SAFETY: As above; the device has written so many bytes.
            receive.set_len(unsafe { (*wc).byte_len } as usize);
        }
        // SAFETY: A queue pair is destroyed after its completions were handled.
        let context = unsafe { (*qp).qp_context };
        // CAST: `Qp::new` has set it to an `Arc` of `H`, which the queue pair keeps.
        // SAFETY: As above.
        let handler = unsafe { ArcBorrow::from_raw(context.cast::<H>().cast_const()) };
        if status.is_success() {
            H::received(handler, receive);
        } else {
            drop(receive);
            H::receive_failed(handler, status);
        }
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for ReceivePool<H> {
    fn drop(self: Pin<&mut Self>) {
        self.destroy_srq();
        for buffer in &self.inner.lock().table {
            // SAFETY: By the type invariant. Nobody has the buffer: a `Receive` holds the pool.
            drop(unsafe { KBox::from_raw(buffer.as_ptr()) });
        }
    }
}

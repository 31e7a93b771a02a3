// SPDX-License-Identifier: GPL-2.0

//! Received messages, and the buffers that they are in.

use crate::{
    completion::Status,
    device::Pd,
    page_region::{
        map_page,
        Direction, //
    },
    qp::{
        Handler,
        Unfit, //
    },
    receive_pool::ReceivePool,
};
use core::{
    mem::ManuallyDrop,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull, //
};
use kernel::{
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};
use support::{
    context::Context,
    page::{
        Effort,
        FreshPage,
        PAGE_SIZE, //
    },
};

/// The bytes of a Receive buffer: a message that is longer breaks its connection.
pub const RECEIVE_SIZE: usize = PAGE_SIZE;

/// A buffer with what belongs to it.
#[repr(C)]
pub(super) struct Buffer<H: Handler> {
    /// Names this buffer in a completion; first, so that the pointers are the same.
    cqe: bindings::ib_cqe,
    pool: *const ReceivePool<H>,
    page: FreshPage,
    /// The request that posts it, which names `cqe` and `sge`.
    pub(super) wr: bindings::ib_recv_wr,
    /// Where the device finds the page.
    sge: bindings::ib_sge,
    /// The place in the pool's table, or [`Self::NOWHERE`]; under the pool's lock.
    pub(super) index: usize,
    /// The length of the message.
    len: usize,
    /// Set by the completion; cleared under the pool's lock.
    pub(super) lent: bool,
    state: H::Call,
}

impl<H: Handler> Buffer<H> {
    /// The place of a buffer that has none.
    pub(super) const NOWHERE: usize = usize::MAX;

    /// Makes one for `pool`, which is to free it, and maps it for `pd`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if there is no room in the IOMMU.
    pub(super) fn new(pool: *const ReceivePool<H>, pd: &Pd) -> Result<NonNull<Self>> {
        let page = FreshPage::new(Effort::Little)?;
        // In place: it is large for a stack.
        let mut buffer = KBox::init(
            init!(Self {
                cqe: bindings::ib_cqe {
                    done: Some(Receive::<H>::done)
                },
                pool,
                page,
                wr: crate::zeroed(),
                sge: bindings::ib_sge {
                    addr: 0,
                    length: RECEIVE_SIZE as u32,
                    lkey: pd.local_key(),
                },
                index: Self::NOWHERE,
                len: 0,
                lent: false,
                state: H::Call::default(),
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The page stays in the buffer; while that is posted nobody uses it, and before others
        // see it, or a device again, it is synced.
        buffer.sge.addr = unsafe { map_page(pd, &buffer.page, Direction::FromDevice)? };
        let raw = KBox::into_raw(buffer);
        // SAFETY: `raw` was just a box.
        unsafe {
            (*raw).wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(&raw mut (*raw).cqe);
            (*raw).wr.sg_list = &raw mut (*raw).sge;
            (*raw).wr.num_sge = 1;
        }
        NonNull::new(raw).ok_or(ENOMEM)
    }

    /// Undoes the mapping; the bytes stay as they are.
    ///
    /// # Safety
    ///
    /// `buffer` is live, mapped for `pd`, not posted, and is not mapped any more after this.
    pub(super) unsafe fn unmap(buffer: NonNull<Self>, pd: &Pd) {
        // SAFETY: By the safety requirements of this function; `addr` does not change.
        let addr = unsafe { (*buffer.as_ptr()).sge.addr };
        // SAFETY: As above. nfsd may have the bytes, and has written to some.
        unsafe { bindings::ib_dma_unmap_page_as_is(pd.device_ptr(), addr) };
    }

    /// Gives the page to the device.
    ///
    /// # Safety
    ///
    /// `buffer` is live, mapped for the device of `qp`, which is live, and nobody uses it.
    pub(super) unsafe fn sync_for_device(buffer: NonNull<Self>, qp: NonNull<bindings::ib_qp>) {
        // SAFETY: By the safety requirements of this function; `addr` does not change.
        let (device, addr) = unsafe { ((*qp.as_ptr()).device, (*buffer.as_ptr()).sge.addr) };
        // SAFETY: As above.
        unsafe { bindings::ib_dma_sync_receive(device, addr, true) };
    }
}

/// A message that was received, and its buffer; dropping it posts the buffer again.
///
/// # Invariants
///
/// `buffer` is lent and belongs to this value alone, which also owns a reference to its pool.
pub struct Receive<H: Handler> {
    buffer: NonNull<Buffer<H>>,
}

// SAFETY: The buffer belongs to this value alone, and what is in it is `Send`.
unsafe impl<H: Handler> Send for Receive<H> {}

impl<H: Handler> Receive<H> {
    /// Takes `buffer` from the device of `qp`.
    ///
    /// # Safety
    ///
    /// A completion says that `buffer` of `pool` is not posted any more to `qp`, which is live.
    unsafe fn complete(
        pool: ArcBorrow<'_, ReceivePool<H>>,
        buffer: NonNull<Buffer<H>>,
        qp: *mut bindings::ib_qp,
    ) -> Self {
        let raw = buffer.as_ptr();
        // SAFETY: By the safety requirements of this function nobody else has the buffer.
        let addr = unsafe {
            (*raw).lent = true;
            (*raw).len = 0;
            (*raw).sge.addr
        };
        // SAFETY: As above; the buffer is mapped for the device of its queue pair.
        unsafe { bindings::ib_dma_sync_receive((*qp).device, addr, false) };
        pool.on_completed();
        // INVARIANT: By the safety requirements of this function; `drop` puts the reference.
        core::mem::forget(Arc::from(pool));
        Self { buffer }
    }

    /// # Safety
    ///
    /// The RDMA core calls this for a Receive of a live pool, whose queue pair has an `H` as its
    /// context.
    unsafe extern "C" fn done(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // CAST: `cqe` is the first field of the `repr(C)` struct it is in.
        // SAFETY: By the safety requirements of this function.
        let raw: *mut Buffer<H> = unsafe { *(*wc).__bindgen_anon_1.wr_cqe }.cast();
        // SAFETY: As above. These fields are valid whatever the status is.
        let (status, qp) = unsafe { (Status::new((*wc).status), (*wc).qp) };
        // SAFETY: As above; they mean something if that is a success, and are some numbers otherwise.
        let (opcode, flags) = unsafe { ((*wc).opcode, (*wc).wc_flags) };
        // SAFETY: The queue pair has the pool, and is destroyed after its completions were handled.
        let pool = unsafe { ArcBorrow::from_raw((*raw).pool) };
        // SAFETY: `raw` is not null; the queue pair as above.
        let mut receive = unsafe { Self::complete(pool, NonNull::new_unchecked(raw), qp) };
        let unfit = Self::unfit(opcode, flags);
        let is_message = status.is_success() && unfit.is_none();
        if is_message {
            // SAFETY: As above; the device has written so many bytes. Those of an RDMA Write with
            // immediate data would be elsewhere.
            receive.set_len(unsafe { (*wc).byte_len } as usize);
        }
        // SAFETY: A queue pair is destroyed after its completions were handled.
        let context = unsafe { (*qp).qp_context };
        // CAST: `Qp::new` has set it to an `Arc` of `H`, which the queue pair keeps.
        // SAFETY: As above.
        let handler = unsafe { ArcBorrow::from_raw(context.cast::<H>().cast_const()) };
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

    /// What a Receive that was successful is no message for.
    fn unfit(opcode: bindings::ib_wc_opcode, flags: c_int) -> Option<Unfit> {
        if opcode == bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM {
            return Some(Unfit::Immediate);
        }
        // CAST: A set of flags.
        let is_invalidation = flags as u32 & bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE != 0;
        is_invalidation.then_some(Unfit::Invalidation)
    }

    fn set_len(&mut self, len: usize) {
        // SAFETY: By the type invariant.
        unsafe { (*self.buffer.as_ptr()).len = len.min(RECEIVE_SIZE) };
    }

    /// The bytes of the message.
    pub fn message(&self) -> &[u8] {
        let (start, len) = self.message_raw();
        // SAFETY: By the type invariant; the device has written `len` bytes, and whoever wrote to
        // them since had the context, so that this value was not there.
        unsafe { core::slice::from_raw_parts(start, len) }
    }

    /// The bytes of the message and what belongs to the Call.
    pub fn parts_mut(&mut self) -> (&[u8], &mut H::Call) {
        let (start, len) = self.message_raw();
        // SAFETY: As in `message`; the state is beside the page that the bytes are in.
        unsafe {
            (
                core::slice::from_raw_parts(start, len),
                &mut (*self.buffer.as_ptr()).state,
            )
        }
    }
}

// SAFETY: `into_raw` and `from_raw` are inverse; the page of a buffer stays where it is and belongs
// to the `Receive`; references to it end with the borrow of the `Receive`, which `into_raw` takes.
unsafe impl<H: Handler> Context for Receive<H> {
    type State = H::Call;

    fn into_raw(self) -> *mut c_void {
        // The reference to the pool goes with it.
        ManuallyDrop::new(self).buffer.as_ptr().cast()
    }

    unsafe fn from_raw(ptr: *mut c_void) -> Self {
        // INVARIANT: As it was before `into_raw`.
        Self {
            // SAFETY: By the safety requirements of this function it comes from `into_raw`.
            buffer: unsafe { NonNull::new_unchecked(ptr.cast()) },
        }
    }

    fn state_mut(&mut self) -> &mut H::Call {
        self
    }

    fn message_raw(&self) -> (*mut u8, usize) {
        let raw = self.buffer.as_ptr();
        // SAFETY: By the type invariant.
        unsafe { ((*raw).page.address(), (*raw).len) }
    }
}

impl<H: Handler> Deref for Receive<H> {
    type Target = H::Call;

    fn deref(&self) -> &H::Call {
        // SAFETY: By the type invariant.
        unsafe { &(*self.buffer.as_ptr()).state }
    }
}

impl<H: Handler> DerefMut for Receive<H> {
    fn deref_mut(&mut self) -> &mut H::Call {
        // SAFETY: By the type invariant.
        unsafe { &mut (*self.buffer.as_ptr()).state }
    }
}

impl<H: Handler> Drop for Receive<H> {
    fn drop(&mut self) {
        H::reset(self);
        // SAFETY: By the type invariant; the reference goes with this value.
        let pool = unsafe { Arc::from_raw((*self.buffer.as_ptr()).pool) };
        // SAFETY: By the type invariant; this value is gone.
        unsafe { pool.recycle(self.buffer) };
    }
}

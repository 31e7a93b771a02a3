// SPDX-License-Identifier: GPL-2.0

//! Receive buffers: a page each, the work request that posts it, and data of the ULP.
//!
//! A buffer belongs to one [`ReceivePool`](crate::recv::pool::ReceivePool) as long as it exists.
//! The pool tracks if a buffer is posted, waits, is spare, or is lent to a
//! [`Receive`](crate::recv::receive::Receive); the buffer itself records only `lent`.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    mem::dma::{
        map_page, //
        Direction,
    },
    recv::returns::Aligned, //
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    ffi::c_void,
    prelude::*, //
};
use support::page::{
    Effort,
    FreshPage,
    PAGE_SIZE, //
};

/// The data that a Receive buffer keeps beside its message, such as the decoded header.
///
/// It is made once with the buffer and reused for each message, so receiving allocates nothing.
pub trait State: Default + Send + 'static {
    /// Drops the data of the last message, before the buffer is posted again. Called when a
    /// [`Receive`](crate::recv::receive::Receive) is dropped, in the context of that: it must not sleep.
    /// The buffer may be freed instead of posted, so dropping the data after a reset must not sleep
    /// either.
    fn reset(&mut self);
}

/// No data.
impl State for () {
    fn reset(&mut self) {}
}

/// The function that the RDMA core calls for the completion of a Receive.
pub(crate) type Done = unsafe extern "C" fn(*mut bindings::ib_cq, *mut bindings::ib_wc);

/// The receiver of the messages of a queue pair.
#[derive(Clone, Copy)]
pub(crate) struct Receiver {
    pub(crate) done: Done,
    /// The context of the queue pair.
    pub(crate) context: *const c_void,
}

/// Bytes of a Receive buffer. A longer message ends its connection with an error.
pub const RECEIVE_SIZE: usize = PAGE_SIZE;

/// A Receive buffer.
///
/// Its pool's lock protects `wr.next`, `index` and `lent`, except that a completion sets `lent`. The
/// thread that returns the buffer sets `below`.
/// The owner of the buffer at the moment may use the page, `len` and `state`: the device while the
/// buffer is posted, or the `Receive` while it is lent. `cqe`, `pool`, `context`, `start` and `sge`
/// do not change.
#[repr(C)]
pub(crate) struct Buffer<S: State> {
    /// Identifies the buffer in a completion. The first field, so that a pointer to it points to
    /// the buffer.
    cqe: bindings::ib_cqe,
    /// The `ReceivePool<S>` that the buffer belongs to, and to which it has a reference of its own.
    pub(crate) pool: *const c_void,
    /// The context of the queue pair that it is made for.
    pub(crate) context: *const c_void,
    page: FreshPage,
    /// The address of the page.
    pub(crate) start: *mut u8,
    /// The work request that posts the buffer; refers to `cqe` and `sge`.
    pub(crate) wr: bindings::ib_recv_wr,
    /// The DMA address of the page, and its length.
    pub(crate) sge: bindings::ib_sge,
    /// The index in the pool's table, or [`Self::NOWHERE`].
    pub(crate) index: usize,
    /// The length of the message in bytes.
    pub(crate) len: usize,
    /// True if the buffer belongs to a `Receive`, or is returned and the pool has not taken it.
    pub(crate) lent: bool,
    /// The next buffer in the list of returned buffers.
    pub(crate) below: *mut Self,
    pub(crate) state: S,
    _aligned: [Aligned; 0],
}

impl<S: State> Buffer<S> {
    /// The index of a buffer that is not in the table.
    pub(crate) const NOWHERE: usize = usize::MAX;

    /// Allocates a buffer for the `ReceivePool<S>` at `pool`, and maps it for `pd`. The pool frees
    /// the buffer, and takes the reference to itself out before. `receiver` handles its completions. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if the IOMMU has no address left.
    ///
    /// # Safety
    ///
    /// - `pool` comes from `Arc::into_raw` of an `Arc<ReceivePool<S>>`. The buffer gets that
    ///   reference, unless this returns an error.
    /// - The function of `receiver` is for completions of `Buffer<S>`.
    pub(crate) unsafe fn new(
        pool: *const c_void,
        pd: &Pd,
        receiver: Receiver,
    ) -> Result<NonNull<Self>> {
        let page = FreshPage::new(Effort::Little)?;
        let start = page.address();
        // In place, because it is large for the stack.
        let mut buffer = KBox::init(
            init!(Self {
                cqe: bindings::ib_cqe {
                    done: Some(receiver.done),
                },
                pool,
                context: receiver.context,
                page,
                start,
                wr: crate::zeroed(),
                sge: bindings::ib_sge {
                    addr: 0,
                    length: RECEIVE_SIZE as u32,
                    lkey: pd.local_key(),
                },
                index: Self::NOWHERE,
                len: 0,
                lent: false,
                below: core::ptr::null_mut(),
                _aligned: [],
                state: S::default(),
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The page is freed with the buffer, which is unmapped before. Nobody uses the page
        // while the buffer is posted. It is synced whenever it passes between the device and the
        // CPU.
        buffer.sge.addr = unsafe { map_page(pd, &buffer.page, Direction::FromDevice)? };
        let raw = KBox::into_raw(buffer);
        // SAFETY: `raw` comes from a `KBox`, so it is valid, and nobody else has it.
        unsafe {
            (*raw).wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(&raw mut (*raw).cqe);
            (*raw).wr.sg_list = &raw mut (*raw).sge;
            (*raw).wr.num_sge = 1;
        }
        NonNull::new(raw).ok_or(ENOMEM)
    }

    /// Unmaps the buffer without a sync, so that its bytes do not change. Does not sleep.
    ///
    /// # Safety
    ///
    /// - `buffer` is live and not posted.
    /// - It is mapped for `pd`. The caller treats it as unmapped afterwards.
    pub(crate) unsafe fn unmap(buffer: NonNull<Self>, pd: &Pd) {
        // SAFETY: By the safety requirements of this function; `addr` does not change.
        let addr = unsafe { (*buffer.as_ptr()).sge.addr };
        // SAFETY: `addr` is mapped for `pd` by the safety requirements of this function. A sync
        // could overwrite bytes that the owner of a `Receive` has written to the page.
        unsafe { bindings::ib_dma_unmap_page_as_is(pd.device_ptr(), addr) };
    }

    /// Syncs the page for the device, before the buffer is posted. Does not sleep.
    ///
    /// # Safety
    ///
    /// - `qp` is live.
    /// - `buffer` is live, is mapped for the device of `qp`, and nobody uses it.
    pub(crate) unsafe fn sync_for_device(buffer: NonNull<Self>, qp: NonNull<bindings::ib_qp>) {
        // SAFETY: By the safety requirements of this function; `addr` does not change.
        let (device, addr) = unsafe { ((*qp.as_ptr()).device, (*buffer.as_ptr()).sge.addr) };
        // SAFETY: The page is mapped for `device` by the safety requirements of this function.
        unsafe { bindings::ib_dma_sync_receive(device, addr, true) };
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Receive buffers: one page each, with the work request that posts it and the ULP's data.
//!
//! A buffer belongs to a pool for its whole life. It does not know who has it at the moment: its owner
//! does.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    dma::{
        map_page,
        Direction, //
    },
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

/// The data that a ULP keeps with a received message.
pub trait State: Default + Send + 'static {
    /// Drops what belongs to the last message, so that the buffer can take the next one. In any process
    /// context; must not sleep.
    fn reset(&mut self);
}

/// The function that the RDMA core calls when a Receive has completed.
pub(super) type Done = unsafe extern "C" fn(*mut bindings::ib_cq, *mut bindings::ib_wc);

/// The bytes of a Receive buffer: a message that is longer breaks its connection.
pub const RECEIVE_SIZE: usize = PAGE_SIZE;

/// A buffer with what belongs to it.
#[repr(C)]
pub(super) struct Buffer<S: State> {
    /// Names this buffer in a completion; first, so that the pointers are the same.
    cqe: bindings::ib_cqe,
    /// The `ReceivePool<S>` that this belongs to.
    pub(super) pool: *const c_void,
    pub(super) page: FreshPage,
    /// The request that posts it, which names `cqe` and `sge`.
    pub(super) wr: bindings::ib_recv_wr,
    /// Where the device finds the page.
    pub(super) sge: bindings::ib_sge,
    /// The place in the pool's table, or [`Self::NOWHERE`]; under the pool's lock.
    pub(super) index: usize,
    /// The length of the message.
    pub(super) len: usize,
    /// Set by the completion; cleared under the pool's lock.
    pub(super) lent: bool,
    pub(super) state: S,
}

impl<S: State> Buffer<S> {
    /// The place of a buffer that has none.
    pub(super) const NOWHERE: usize = usize::MAX;

    /// Makes one for the `ReceivePool<S>` at `pool`, which is to free it, and maps it for `pd`. The RDMA core
    /// calls `done` when the buffer has completed. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if there is no room in the IOMMU.
    pub(super) fn new(pool: *const c_void, pd: &Pd, done: Done) -> Result<NonNull<Self>> {
        let page = FreshPage::new(Effort::Little)?;
        // In place: it is large for a stack.
        let mut buffer = KBox::init(
            init!(Self {
                cqe: bindings::ib_cqe { done: Some(done) },
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
                state: S::default(),
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

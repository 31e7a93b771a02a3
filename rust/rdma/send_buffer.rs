// SPDX-License-Identifier: GPL-2.0

//! Send buffers: the page that the header of a message, and what is copied behind it, is sent from.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    dma::{
        map_page,
        unmap_page,
        Direction, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use support::page::{
    Effort,
    FreshPage,
    PAGE_SIZE, //
};

/// A page that headers and small replies are sent from, mapped once and for all.
///
/// # Invariants
///
/// `addr` is the device's address of `page`, which belongs to this value alone.
pub struct SendBuffer {
    page: FreshPage,
    addr: u64,
    pd: Arc<Pd>,
}

impl SendBuffer {
    /// Makes one. May sleep.
    pub fn new(pd: &Arc<Pd>, effort: Effort) -> Result<Self> {
        let page = FreshPage::new(effort)?;
        // SAFETY: The page is new, so it is ours alone, and it has this many bytes.
        unsafe { core::ptr::write_bytes(page.address(), 0, PAGE_SIZE) };
        // SAFETY: `page` lives until `drop` unmaps it.
        let addr = unsafe { map_page(pd, &page, Direction::ToDevice)? };
        // INVARIANT: As just mapped.
        Ok(Self {
            page,
            addr,
            pd: pd.clone(),
        })
    }

    /// The bytes, [`PAGE_SIZE`] of them. Posted work is not changed, so none is posted.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: By the type invariant the page is ours alone, the device only reads it, and
        // `new` has initialised it; `&mut self` makes it exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.page.address(), PAGE_SIZE) }
    }

    /// The device's address of the first `len` bytes, which the device sees as they are now, and
    /// how many bytes these are: `len` is cut to the page. None for another domain.
    pub(super) fn sync(&self, pd: &Arc<Pd>, len: usize) -> Option<(u64, usize)> {
        if !Arc::ptr_eq(&self.pd, pd) {
            return None;
        }
        let len = len.min(PAGE_SIZE);
        // SAFETY: By the type invariant.
        unsafe { bindings::ib_dma_sync_for_device(self.pd.device_ptr(), self.addr, len) };
        Some((self.addr, len))
    }
}

impl Drop for SendBuffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { unmap_page(&self.pd, self.addr, Direction::ToDevice) };
    }
}

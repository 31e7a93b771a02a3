// SPDX-License-Identifier: GPL-2.0

//! Send buffers: mapped pages that messages are sent from.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    mem::dma::{
        map_page,
        unmap_page, //
        Direction,
    },
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use support::page::{
    Effort,
    FreshPage,
    PAGE_SIZE, //
};

/// A page that a message is sent from. It holds the transport header and small payloads.
///
/// The page is mapped when the buffer is made and stays mapped: each Send only syncs it. The owner
/// is the ULP; [`Work`](crate::send::work::Work) that uses the buffer owns it while it is posted.
///
/// # Invariants
///
/// `addr` is the DMA address of `page`, mapped [`Direction::ToDevice`] for `pd`. `page` belongs to
/// this value alone, its first byte is at `start`, and its bytes are initialised.
pub struct SendBuffer {
    _page: FreshPage,
    start: NonNull<u8>,
    addr: u64,
    pd: Arc<Pd>,
}

impl SendBuffer {
    /// Allocates and maps a buffer of zeros. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(pd: &Arc<Pd>, effort: Effort) -> Result<Self> {
        let page = FreshPage::new(effort)?;
        let start = NonNull::new(page.address()).ok_or(ENOMEM)?;
        // SAFETY: The page is new, so nobody else uses it, and it has `PAGE_SIZE` bytes.
        unsafe { core::ptr::write_bytes(start.as_ptr(), 0, PAGE_SIZE) };
        // SAFETY: `page` lives until `drop` unmaps it.
        let addr = unsafe { map_page(pd, &page, Direction::ToDevice)? };
        // INVARIANT: The page was just initialised and mapped.
        Ok(Self {
            _page: page,
            start,
            addr,
            pd: pd.clone(),
        })
    }

    /// Returns the [`PAGE_SIZE`] bytes of the buffer.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: By the type invariant the page belongs to this value, its bytes are initialised,
        // and the device only reads them.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), PAGE_SIZE) }
    }

    /// Returns the [`PAGE_SIZE`] bytes of the buffer, to change.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: By the type invariant the page belongs to this value, which `&mut self` makes
        // exclusive, its bytes are initialised, and the device only reads them.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), PAGE_SIZE) }
    }

    /// Syncs the first `len` bytes, [`PAGE_SIZE`] at most, for the device. Returns their DMA
    /// address and their number, or `None` if the buffer is mapped for another protection domain.
    /// Does not sleep.
    #[inline]
    pub(crate) fn sync(&self, pd: &Arc<Pd>, len: usize) -> Option<(u64, usize)> {
        if !self.pd.is(pd) {
            return None;
        }
        let len = len.min(PAGE_SIZE);
        // SAFETY: `addr` is mapped for the device of `pd` by the type invariant; `len` is at most
        // its length.
        unsafe { bindings::ib_dma_sync_for_device(self.pd.device_ptr(), self.addr, len) };
        Some((self.addr, len))
    }
}

// SAFETY: The page belongs to the value, so any thread may use both.
unsafe impl Send for SendBuffer {}
// SAFETY: A shared `SendBuffer` only reads the page.
unsafe impl Sync for SendBuffer {}

impl Drop for SendBuffer {
    fn drop(&mut self) {
        // SAFETY: `addr` was mapped like this by the type invariant. No posted work names it: a
        // `SendQueue` owns posted work until it has completed or the queue pair is destroyed.
        unsafe { unmap_page(&self.pd, self.addr, Direction::ToDevice) };
    }
}

// SPDX-License-Identifier: GPL-2.0

//! DMA mapping of single pages.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::device::Pd;
use kernel::prelude::*;
use support::page::OwnedPage;

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The device reads: RDMA Write and Send.
    ToDevice,
    /// The device writes: RDMA Read and Receive.
    FromDevice,
}

/// Maps a whole page for the device.
///
/// # Safety
///
/// `page` stays valid, and with [`Direction::FromDevice`] nobody else uses it, until
/// [`unmap_page`].
pub(super) unsafe fn map_page(pd: &Pd, page: &OwnedPage, direction: Direction) -> Result<u64> {
    let to_device = direction == Direction::ToDevice;
    // SAFETY: `pd` holds the device; the page by the safety requirements of this function.
    let addr = unsafe { bindings::ib_dma_map_page(pd.device_ptr(), page.as_ptr(), to_device) };
    // SAFETY: `pd` holds the device.
    match unsafe { bindings::ib_dma_mapping_error(pd.device_ptr(), addr) } {
        0 => Ok(addr),
        _ => Err(ENOMEM),
    }
}

/// Undoes [`map_page`].
///
/// # Safety
///
/// `addr` comes from [`map_page`] with the same `pd` and `direction`, and no posted work names it.
pub(super) unsafe fn unmap_page(pd: &Pd, addr: u64, direction: Direction) {
    let to_device = direction == Direction::ToDevice;
    // SAFETY: `pd` holds the device; the rest by the safety requirements of this function.
    unsafe { bindings::ib_dma_unmap_page(pd.device_ptr(), addr, to_device) };
}

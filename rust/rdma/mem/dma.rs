// SPDX-License-Identifier: GPL-2.0

//! DMA mapping of single pages.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::device::Pd;
use kernel::prelude::*;
use support::page::FreshPage;

/// The direction of a DMA transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The device reads the memory: RDMA Write and Send.
    ToDevice,
    /// The device writes the memory: RDMA Read and Receive.
    FromDevice,
}

/// Maps a whole page for the device of `pd`. Returns the DMA address. Does not sleep.
///
/// # Errors
///
/// `ENOMEM` if the mapping fails, for example because the IOMMU has no address left.
///
/// # Safety
///
/// Until [`unmap_page`]:
///
/// - `page` stays valid.
/// - With [`Direction::FromDevice`], nobody else uses the page.
pub(crate) unsafe fn map_page(pd: &Pd, page: &FreshPage, direction: Direction) -> Result<u64> {
    let to_device = direction == Direction::ToDevice;
    // SAFETY: `pd` holds the device; the page by the safety requirements of this function.
    let addr = unsafe { bindings::ib_dma_map_page(pd.device_ptr(), page.as_ptr(), to_device) };
    // SAFETY: `pd` holds the device.
    match unsafe { bindings::ib_dma_mapping_error(pd.device_ptr(), addr) } {
        0 => Ok(addr),
        _ => Err(ENOMEM),
    }
}

/// Undoes [`map_page`]. Does not sleep.
///
/// # Safety
///
/// - `addr` comes from [`map_page`] with the same `pd` and `direction`, and is not unmapped yet.
/// - No posted work request names `addr`.
pub(crate) unsafe fn unmap_page(pd: &Pd, addr: u64, direction: Direction) {
    let to_device = direction == Direction::ToDevice;
    // SAFETY: `pd` holds the device; the rest by the safety requirements of this function.
    unsafe { bindings::ib_dma_unmap_page(pd.device_ptr(), addr, to_device) };
}

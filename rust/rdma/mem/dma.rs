// SPDX-License-Identifier: GPL-2.0

//! DMA mapping of single pages.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::device::Pd;
use kernel::prelude::*;
use support::page::FreshPage;

/// The direction of a DMA transfer (`enum dma_data_direction`).
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Direction {
    /// The device reads and writes the memory: memory that a peer may read and write.
    Both = 0,
    /// The device reads the memory: RDMA Write, Send, and memory that a peer may read.
    ToDevice = 1,
    /// The device writes the memory: RDMA Read, Receive, and memory that a peer may write.
    FromDevice = 2,
}

impl Direction {
    /// Returns true if the device writes the memory.
    #[inline]
    pub(crate) fn is_written(self) -> bool {
        self != Self::ToDevice
    }
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
/// - Unless the direction is [`Direction::ToDevice`], nobody else uses the page.
pub(crate) unsafe fn map_page(pd: &Pd, page: &FreshPage, direction: Direction) -> Result<u64> {
    // CAST: The discriminant is that of `enum dma_data_direction`.
    let direction = direction as c_int;
    // SAFETY: `pd` holds the device; the page by the safety requirements of this function.
    let addr = unsafe { bindings::ib_dma_map_page(pd.device_ptr(), page.as_ptr(), direction) };
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
    // CAST: The discriminant is that of `enum dma_data_direction`.
    let direction = direction as c_int;
    // SAFETY: `pd` holds the device; the rest by the safety requirements of this function.
    unsafe { bindings::ib_dma_unmap_page(pd.device_ptr(), addr, direction) };
}

// SPDX-License-Identifier: GPL-2.0

//! Memory that the device reads and writes: pages, their mapping, and their registration.

pub mod dma;
pub mod exposure;
pub(crate) mod mapping;
pub mod memory_region;
pub mod page_region;

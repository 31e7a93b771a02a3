// SPDX-License-Identifier: GPL-2.0

//! Page regions: pages that work moves, and their DMA mapping.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    dma::{
        map_page,
        unmap_page,
        Direction, //
    },
    memory_region::MemoryRegion, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use support::page::{
    Piece,
    Stream, //
};

/// A byte stream over pages, with the DMA mapping of the pages.
///
/// A page region holds the pages of one Call or one Reply, for example, and is the source of Sends
/// and RDMA Writes or the sink of RDMA Reads. Its owner is the ULP; [`Work`](crate::work::Work)
/// that uses it owns it while it is posted. The capacity is fixed, so nothing is allocated when
/// pages are added. It has no lock: changing it needs `&mut`.
///
/// # Invariants
///
/// - If `mapping` is `Some`, `addrs` are the DMA addresses of the pages of `stream`, in order, and
///   the device may access them in that direction. Otherwise `addrs` is empty.
/// - MRs of `memory_region` are valid only if `mapping` is `Some`.
pub struct PageRegion {
    stream: Stream,
    addrs: KVec<u64>,
    mapping: Option<(Arc<Pd>, Direction)>,
    /// Registered memory that RDMA Reads use as their sink.
    memory_region: Option<KBox<MemoryRegion>>,
}

impl PageRegion {
    /// Allocates an empty page region with room for `pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn with_capacity(pages: usize) -> Result<KBox<Self>> {
        // In place, because it is large for the stack.
        // INVARIANT: Nothing is mapped.
        let this = try_init!(Self {
            stream: Stream::with_capacity(pages)?,
            addrs: KVec::with_capacity(pages, GFP_KERNEL)?,
            mapping: None,
            memory_region: None,
        }? Error);
        KBox::init(this, GFP_KERNEL)
    }

    /// Returns the number of pages that there is room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.stream.capacity()
    }

    /// Returns the number of pages in the page region.
    #[inline]
    pub fn pages(&self) -> usize {
        self.stream.pages().len()
    }

    /// Unmaps the pages, and returns the byte stream over them. See [`Self::unmap`] for the
    /// context.
    #[inline]
    pub fn stream_mut(&mut self) -> &mut Stream {
        self.unmap();
        &mut self.stream
    }

    /// Unmaps the pages, and sets the memory region that RDMA Reads into the page region use from
    /// now on. See [`Self::unmap`] for the context.
    #[inline]
    pub fn set_memory_region(&mut self, memory_region: KBox<MemoryRegion>) {
        self.unmap();
        self.memory_region = Some(memory_region);
    }

    /// Returns true if the page region has a memory region.
    #[inline]
    pub fn has_memory_region(&self) -> bool {
        self.memory_region.is_some()
    }

    /// Takes the memory region back. Returns `None` if there is none, or if it may be valid.
    #[inline]
    pub fn take_memory_region(&mut self) -> Option<KBox<MemoryRegion>> {
        self.memory_region
            .take_if(|memory_region| memory_region.is_idle())
    }

    /// Returns the memory region and the number of mapped pages. Returns `None` if there is no
    /// memory region, or if the pages are not mapped for RDMA Reads and for `pd`.
    #[inline]
    pub(super) fn memory_region(&self, pd: &Arc<Pd>) -> Option<(&MemoryRegion, usize)> {
        let memory_region = self.memory_region.as_deref()?;
        self.is_mapped(pd, Direction::FromDevice)
            .then_some((memory_region, self.addrs.len()))
    }

    /// Returns true if the pages are mapped for `pd` and in this direction.
    fn is_mapped(&self, pd: &Arc<Pd>, direction: Direction) -> bool {
        let fits = |(p, d): &(Arc<Pd>, Direction)| p.is(pd) && *d == direction;
        self.mapping.as_ref().is_some_and(fits)
    }

    /// Maps all pages for the device of `pd`, instead of an earlier mapping. With
    /// [`Direction::FromDevice`], also maps them into the memory region, if there is one. See
    /// [`Self::unmap`] for the context.
    ///
    /// # Errors
    ///
    /// Nothing is mapped after an error.
    ///
    /// - `ENOMEM` if a page cannot be mapped, for example because the IOMMU has no address left.
    /// - `EINVAL` with [`Direction::FromDevice`] if others may use the pages (they are not fresh),
    ///   or if the memory region does not take them.
    pub fn map(&mut self, pd: &Arc<Pd>, direction: Direction) -> Result {
        self.unmap();
        if direction == Direction::FromDevice && !self.stream.is_fresh() {
            return Err(EINVAL);
        }
        // INVARIANT: `addrs` is empty, and grows in the order of the pages. After an error `unmap`
        // removes both.
        self.mapping = Some((pd.clone(), direction));
        for page in self.stream.pages() {
            // SAFETY: The stream keeps its pages until they are unmapped, because `stream_mut`
            // unmaps them. Nobody else uses a fresh page, and those that the device writes are
            // fresh.
            let mapped = unsafe { map_page(pd, page, direction) };
            let kept =
                mapped.and_then(|addr| self.addrs.push_within_capacity(addr).map_err(|_| ENOMEM));
            if kept.is_err() {
                self.unmap();
                return kept;
            }
        }
        let registered = match (&mut self.memory_region, direction) {
            (Some(memory_region), Direction::FromDevice) => memory_region.map(pd, &self.addrs),
            _ => Ok(()),
        };
        registered.inspect_err(|_| self.unmap())
    }

    /// Unmaps the pages: the device does not access them any more. Does nothing if they are not
    /// mapped.
    ///
    /// Sleeps if the page region has registered memory and RDMA Reads into it have not completed
    /// successfully: the memory region is then destroyed. Otherwise it may be called in any process
    /// context.
    #[inline]
    pub fn unmap(&mut self) {
        if self.mapping.is_some() || self.memory_region.is_some() {
            self.unmap_all();
        }
    }

    /// As [`Self::unmap`], of pages that may be mapped.
    fn unmap_all(&mut self) {
        // INVARIANT: An MR that may be valid is destroyed before the pages are unmapped.
        drop(
            self.memory_region
                .take_if(|memory_region| !memory_region.is_idle()),
        );
        if let Some((pd, direction)) = self.mapping.take() {
            for addr in self.addrs.drain_all() {
                // SAFETY: `addr` was mapped with `pd` and `direction` by the type invariant. No
                // posted work names it: posted work is borrowed, and this function has the region
                // exclusively.
                unsafe { unmap_page(&pd, addr, direction) };
            }
        }
    }

    /// Returns the piece of the stream at byte `at`, of at most `max` bytes, and its DMA address.
    /// `None` beyond the end of the stream, or if the pages are not mapped for `pd` and in this
    /// direction.
    pub(super) fn mapped_piece(
        &self,
        pd: &Arc<Pd>,
        direction: Direction,
        at: usize,
        max: usize,
    ) -> Option<(u64, Piece)> {
        if !self.is_mapped(pd, direction) {
            return None;
        }
        let piece = self.stream.piece(at, max)?;
        let addr = self.addrs.get(piece.page)?;
        // CAST: `piece.offset` is less than a page.
        Some((addr.wrapping_add(piece.offset as u64), piece))
    }
}

impl Drop for PageRegion {
    fn drop(&mut self) {
        self.unmap();
    }
}

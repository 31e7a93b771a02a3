// SPDX-License-Identifier: GPL-2.0

//! Page regions: the pages of a Call or a Reply, and their DMA mapping.
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

/// Pages of one Call or one reply, and where the device finds them while they are mapped.
///
/// Room for pages is given once, so that nothing is allocated per Call.
///
/// # Invariants
///
/// While `mapping` is there, `addrs` are the device's addresses of the stream's pages, in order.
/// No region of `memory_region` is valid unless it is.
pub struct PageRegion {
    stream: Stream,
    addrs: KVec<u64>,
    mapping: Option<(Arc<Pd>, Direction)>,
    /// With this, RDMA Reads go to registered memory.
    memory_region: Option<KBox<MemoryRegion>>,
}

impl PageRegion {
    /// Makes one with room for `pages` pages. May sleep.
    pub fn with_capacity(pages: usize) -> Result<KBox<Self>> {
        // In place: copies of it would take stack.
        // INVARIANT: Nothing is mapped.
        let this = try_init!(Self {
            stream: Stream::with_capacity(pages)?,
            addrs: KVec::with_capacity(pages, GFP_KERNEL)?,
            mapping: None,
            memory_region: None,
        }? Error);
        KBox::init(this, GFP_KERNEL)
    }

    /// The number of pages there is room for.
    pub fn capacity(&self) -> usize {
        self.stream.capacity()
    }

    /// The number of pages in it.
    pub fn pages(&self) -> usize {
        self.stream.pages().len()
    }

    /// The bytes, which the device does not see (any more): undoes the mapping.
    pub fn stream_mut(&mut self) -> &mut Stream {
        self.unmap();
        &mut self.stream
    }

    /// Has RDMA Reads go to registered memory, until the memory region is taken back.
    pub fn set_memory_region(&mut self, memory_region: KBox<MemoryRegion>) {
        self.unmap();
        self.memory_region = Some(memory_region);
    }

    /// Takes the memory region back, unless a region of it may be valid.
    pub fn take_memory_region(&mut self) -> Option<KBox<MemoryRegion>> {
        self.memory_region
            .take_if(|memory_region| memory_region.is_idle())
    }

    /// The memory region, if there is one and the pages are mapped for RDMA Reads of this domain, and
    /// how many pages there are.
    pub(super) fn memory_region(&self, pd: &Arc<Pd>) -> Option<(&MemoryRegion, usize)> {
        let memory_region = self.memory_region.as_deref()?;
        self.is_mapped(pd, Direction::FromDevice)
            .then_some((memory_region, self.addrs.len()))
    }

    fn is_mapped(&self, pd: &Arc<Pd>, direction: Direction) -> bool {
        let fits = |(p, d): &(Arc<Pd>, Direction)| Arc::ptr_eq(p, pd) && *d == direction;
        self.mapping.as_ref().is_some_and(fits)
    }

    /// Maps all pages for the device.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the device has no address for a page, `EINVAL` when it is to write to pages
    /// that are not fresh, or they cannot be registered; nothing is mapped then.
    pub fn map(&mut self, pd: &Arc<Pd>, direction: Direction) -> Result {
        self.unmap();
        if direction == Direction::FromDevice && !self.stream.is_fresh() {
            return Err(EINVAL);
        }
        // INVARIANT: `addrs` is empty and grows in the order of the pages; on an error `unmap`
        // takes off what there is.
        self.mapping = Some((pd.clone(), direction));
        for page in self.stream.pages() {
            // SAFETY: The stream keeps its pages while `mapping` is there, since `stream_mut`
            // takes the mapping off first; a page that the device writes is fresh.
            let mapped = unsafe { map_page(pd, page, direction) };
            let kept =
                mapped.and_then(|addr| self.addrs.push_within_capacity(addr).map_err(|_| ENOMEM));
            if kept.is_err() {
                self.unmap();
                return kept;
            }
        }
        let registered = match (&mut self.memory_region, direction) {
            (Some(memory_region), Direction::FromDevice) => memory_region.put(pd, &self.addrs),
            _ => Ok(()),
        };
        registered.inspect_err(|_| self.unmap())
    }

    /// Undoes the mapping: the device does not see the bytes any more. Sleeps if RDMA Reads into
    /// registered memory have failed.
    pub fn unmap(&mut self) {
        // INVARIANT: What may be valid is destroyed.
        drop(
            self.memory_region
                .take_if(|memory_region| !memory_region.is_idle()),
        );
        if let Some((pd, direction)) = self.mapping.take() {
            for addr in self.addrs.drain_all() {
                // SAFETY: By the type invariant. Posted work is not changed, so none is posted.
                unsafe { unmap_page(&pd, addr, direction) };
            }
        }
    }

    /// The piece at byte `at`, `max` bytes or shorter, and its address for the device; none if it
    /// is not mapped in this direction and for this domain.
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

// SPDX-License-Identifier: GPL-2.0

//! Page regions: pages that work moves, and their DMA mapping.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    mem::{
        dma::Direction,
        mapping::{
            Mapping,
            Run, //
        },
        memory_region::{
            Kind,
            MemoryRegion, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use support::{
    compat,
    page::{
        Effort,
        FreshPage,
        PAGE_SIZE, //
    },
    stream::Stream, //
};

/// A byte stream over pages, with the DMA mapping of the pages.
///
/// A page region holds the pages of one Call or one Reply, for example, and is the source of Sends
/// and RDMA Writes or the sink of RDMA Reads. Its owner is the ULP; [`Work`](crate::send::work::Work)
/// that uses it owns it while it is posted. The capacity is fixed, so nothing is allocated when
/// pages are added. It has no lock: changing it needs `&mut`.
///
/// # Invariants
///
/// - `mapping` is of all pages of `stream`, or of none.
/// - MRs of `memory_region` are valid only if pages are mapped.
pub struct PageRegion {
    stream: Stream,
    mapping: Mapping,
    /// Registered memory: the sink of RDMA Reads, or what a peer may use.
    memory_region: Option<KBox<MemoryRegion>>,
    /// True if RDMA Reads go to the memory region. Reads need none on InfiniBand and RoCE, where not
    /// all drivers fence the invalidation behind them (drivers/infiniband/hw/mlx5/wr.c).
    is_registered_sink: bool,
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
            mapping: Mapping::with_capacity(pages)?,
            memory_region: None,
            is_registered_sink: false,
        }? Error);
        KBox::init(this, GFP_KERNEL)
    }

    /// Allocates a page region of `pages` zeroed pages, with what an
    /// [`Exposure`](crate::mem::exposure::Exposure) on the connection of `pd` needs. The stream has
    /// all bytes of the pages. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the device cannot register memory by work requests, `ENOMEM`, or the driver's
    /// error.
    pub fn for_exposure(pd: &Arc<Pd>, pages: usize) -> Result<KBox<Self>> {
        let kind = Kind::new(&pd.device().limits()).ok_or_else(compat::eopnotsupp)?;
        let mut this = Self::with_capacity(pages)?;
        this.memory_region = Some(MemoryRegion::new(pd, kind, pages)?);
        this.is_registered_sink = pd.needs_registration();
        for _ in 0..pages {
            let page = FreshPage::new(Effort::Full)?;
            this.stream.push(page).map_err(|_| ENOMEM)?;
        }
        let len = pages.saturating_mul(PAGE_SIZE);
        this.stream.lay_flat(len);
        this.stream.zero(0, len);
        Ok(this)
    }

    /// Returns the number of pages that there is room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.stream.capacity()
    }

    /// Returns the number of pages in the page region.
    #[inline]
    pub fn pages(&self) -> usize {
        self.stream.len()
    }

    /// Unmaps the pages, and returns the byte stream over them. See [`Self::unmap`] for the
    /// context.
    #[inline]
    pub fn stream_mut(&mut self) -> &mut Stream {
        self.unmap();
        &mut self.stream
    }

    /// Unmaps the pages, and sets the memory region that RDMA Reads into the page region use from
    /// now on. See [`Self::unmap`] for the context; sleeps if it replaces a memory region.
    #[inline]
    pub fn set_memory_region(&mut self, memory_region: KBox<MemoryRegion>) {
        self.unmap();
        self.memory_region = Some(memory_region);
        self.is_registered_sink = true;
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

    /// Returns the memory region that RDMA Reads go to, and the number of mapped pages. Returns
    /// `None` if there is none, or if the pages are not mapped for RDMA Reads and for `pd`.
    #[inline]
    pub(crate) fn memory_region(&self, pd: &Arc<Pd>) -> Option<(&MemoryRegion, usize)> {
        let memory_region = self.memory_region.as_deref()?;
        let is_sink = self.is_registered_sink && self.mapping.is_for(pd, Direction::FromDevice);
        is_sink.then_some((memory_region, self.mapping.pages()))
    }

    /// Maps all pages for the device of `pd`, instead of an earlier mapping. With
    /// [`Direction::FromDevice`], also maps them into the memory region, if Reads go to it. See
    /// [`Self::unmap`] for the context.
    ///
    /// # Errors
    ///
    /// Nothing is mapped after an error.
    ///
    /// - `ENOMEM` if a page cannot be mapped, for example because the IOMMU has no address left.
    /// - `EINVAL` unless the direction is [`Direction::ToDevice`] if others may use the pages (they
    ///   are not fresh), or if the memory region does not take them.
    pub fn map(&mut self, pd: Arc<Pd>, direction: Direction) -> Result {
        self.map_pages(pd, direction)?;
        let len = self.mapping.pages().saturating_mul(PAGE_SIZE);
        let registered = match (&mut self.memory_region, direction) {
            (Some(memory_region), Direction::FromDevice) if self.is_registered_sink => {
                memory_region.map(&self.mapping, direction, len)
            }
            _ => Ok(()),
        };
        registered.inspect_err(|_| self.unmap())
    }

    /// Maps all pages for the device of `pd`, and their first `len` bytes into the memory region. The
    /// context and the errors are those of [`Self::map`]; `EINVAL` also if there is no memory region.
    pub(crate) fn map_exposed(&mut self, pd: &Arc<Pd>, direction: Direction, len: usize) -> Result {
        self.map_pages(pd.clone(), direction)?;
        let registered = match &mut self.memory_region {
            Some(memory_region) => memory_region.map(&self.mapping, direction, len),
            None => Err(EINVAL),
        };
        registered.inspect_err(|_| self.unmap())
    }

    /// Maps all pages, and none into the memory region. See [`Self::map`].
    fn map_pages(&mut self, pd: Arc<Pd>, direction: Direction) -> Result {
        self.unmap();
        if direction.is_written() && !self.stream.is_fresh() {
            return Err(EINVAL);
        }
        // SAFETY: Nothing is mapped. The stream keeps its pages until they are unmapped, because
        // `stream_mut` unmaps them. Nobody else uses a fresh page, and those that the device writes
        // are fresh.
        unsafe { self.mapping.map(pd, self.stream.pages(), direction) }
    }

    /// Returns the memory region of an exposure.
    pub(crate) fn memory_region_for_exposure(&self) -> Option<&MemoryRegion> {
        self.memory_region.as_deref()
    }

    /// Returns the memory region of an exposure, if the pages are mapped for `pd` and in this
    /// direction.
    pub(crate) fn exposed(&self, pd: &Arc<Pd>, direction: Direction) -> Option<&MemoryRegion> {
        let is_mapped = self.mapping.is_for(pd, direction);
        self.memory_region.as_deref().filter(|_| is_mapped)
    }

    /// Maps all pages as [`Self::map`] does, unless they are mapped. Returns false if they are mapped
    /// already. Errors are those of [`Self::map`].
    ///
    /// Does not sleep if no RDMA Read into the page region was posted since [`Self::unmap`].
    pub fn map_if_needed(&mut self, pd: &Arc<Pd>, direction: Direction) -> Result<bool> {
        if self.mapping.is_some() {
            return Ok(false);
        }
        self.map(pd.clone(), direction).map(|()| true)
    }

    /// Unmaps the pages: the device does not access them any more. Does nothing if they are not
    /// mapped.
    ///
    /// Sleeps if the page region has registered memory whose invalidation has not completed
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
        // SAFETY: No posted work names the memory: posted work is borrowed, and this function has
        // the region exclusively. No peer reaches it, as no MR is valid any more.
        unsafe { self.mapping.unmap() };
    }

    /// Returns an entry for the `len` bytes from byte `at` of the stream on, if they are mapped for
    /// `pd` and in this direction, and if one entry is found without a search.
    #[inline]
    pub(crate) fn piece(
        &self,
        pd: &Arc<Pd>,
        direction: Direction,
        at: usize,
        len: usize,
    ) -> Option<bindings::ib_sge> {
        let part = self.stream.locate(at, len);
        if part.len < len || !self.mapping.is_for(pd, direction) {
            return None;
        }
        self.mapping.piece(part.at, len)
    }

    /// Returns the mapped memory that the `len` bytes from byte `at` of the stream on begin in, in at
    /// most `room` segments, one at least. `None` beyond the end of the stream, or if the pages are
    /// not mapped for `pd` and in this direction.
    pub(crate) fn run(
        &self,
        pd: &Arc<Pd>,
        direction: Direction,
        at: usize,
        len: usize,
        room: usize,
    ) -> Option<Run<'_>> {
        if !self.mapping.is_for(pd, direction) {
            return None;
        }
        let part = self.stream.locate(at, len);
        self.mapping.find(part.at, part.len, room)
    }
}

impl Drop for PageRegion {
    fn drop(&mut self) {
        self.unmap();
    }
}

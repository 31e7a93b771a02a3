// SPDX-License-Identifier: GPL-2.0

//! Memory that the device reads or writes: pages of a Call or a reply, and send buffers.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    memory_region::Registration, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use support::page::{
    Effort,
    FreshPage,
    OwnedPage,
    Piece,
    Stream,
    PAGE_SIZE, //
};

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

/// Pages of one Call or one reply, and where the device finds them while they are mapped.
///
/// Room for pages is given once, so that nothing is allocated per Call.
///
/// # Invariants
///
/// While `mapping` is there, `addrs` are the device's addresses of the stream's pages, in order.
/// No region of `registration` is valid unless it is.
pub struct Transfer {
    stream: Stream,
    addrs: KVec<u64>,
    mapping: Option<(Arc<Pd>, Direction)>,
    /// With this, RDMA Reads go to registered memory.
    registration: Option<KBox<Registration>>,
}

impl Transfer {
    /// Makes one with room for `pages` pages. May sleep.
    pub fn with_capacity(pages: usize) -> Result<KBox<Self>> {
        // In place: copies of it would take stack.
        // INVARIANT: Nothing is mapped.
        let this = try_init!(Self {
            stream: Stream::with_capacity(pages)?,
            addrs: KVec::with_capacity(pages, GFP_KERNEL)?,
            mapping: None,
            registration: None,
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

    /// Has RDMA Reads go to registered memory, until the registration is taken back.
    pub fn set_registration(&mut self, registration: KBox<Registration>) {
        self.unmap();
        self.registration = Some(registration);
    }

    /// Takes the registration back, unless a region of it may be valid.
    pub fn take_registration(&mut self) -> Option<KBox<Registration>> {
        self.registration
            .take_if(|registration| registration.is_idle())
    }

    /// The registration, if there is one and the pages are mapped for RDMA Reads of this domain, and
    /// how many pages there are.
    pub(super) fn registration(&self, pd: &Arc<Pd>) -> Option<(&Registration, usize)> {
        let registration = self.registration.as_deref()?;
        self.is_mapped(pd, Direction::FromDevice)
            .then_some((registration, self.addrs.len()))
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
        let registered = match (&mut self.registration, direction) {
            (Some(registration), Direction::FromDevice) => registration.put(pd, &self.addrs),
            _ => Ok(()),
        };
        registered.inspect_err(|_| self.unmap())
    }

    /// Undoes the mapping: the device does not see the bytes any more. Sleeps if RDMA Reads into
    /// registered memory have failed.
    pub fn unmap(&mut self) {
        // INVARIANT: What may be valid is destroyed.
        drop(
            self.registration
                .take_if(|registration| !registration.is_idle()),
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

impl Drop for Transfer {
    fn drop(&mut self) {
        self.unmap();
    }
}

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

// SPDX-License-Identifier: GPL-2.0

//! Memory regions: registered memory, for RDMA Reads and for exposures.
//!
//! Some devices, those of iWARP among them, take only registered memory as the sink of an RDMA
//! Read. The peer learns the key of that memory (RFC 5040: Data Sink STag) and could write to it by
//! itself while it is valid. These rules bound what a peer can reach:
//!
//! - A [`MemoryRegion`] covers only the pages of one Call.
//! - It is valid between two work requests: its registration, which is posted before the Reads, and
//!   its invalidation, which is posted behind them.
//! - If the pages are taken back without a completion of the invalidation, the memory region is
//!   destroyed ([`PageRegion::unmap`](crate::mem::page_region::PageRegion::unmap)).
//! - All connections of a device share its protection domain, so the device does not reject another
//!   peer that knows both key and address. Each use has a random address, which no peer can guess.
//! - A peer that guesses the key alone can invalidate the memory region. The next key differs from
//!   the last one in its low 8 bits only (`ib_inc_rkey`). So a memory region that was used for one
//!   connection is never used for another ([`MemoryRegion::user`]).
//!
//! The memory region of an [`Exposure`](crate::mem::exposure::Exposure) is valid from one piece of work
//! to another one, and belongs to a protection domain of one connection.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::{
        Limits,
        Pd, //
    },
    mem::{
        dma::Direction,
        mapping::Mapping, //
    },
};
use core::{
    cell::Cell,
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::Arc, //
};
use support::page::PAGE_SIZE;

/// The most pages of one MR: 1 MiB.
const MAX_PAGES: u32 = 256;

// One scatter/gather entry can have the length of an MR.
const _: () = assert!(MAX_PAGES as usize <= u32::MAX as usize / PAGE_SIZE);

/// How a device registers memory.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Pages of an MR.
    pages: u32,
    /// Access rights of an MR that RDMA Reads fill, a set of `IB_ACCESS_...` flags.
    access: u32,
}

impl Kind {
    /// Returns how a device with these limits registers memory, or `None` if it has no MRs that
    /// work requests can register (fast registration).
    pub fn new(limits: &Limits) -> Option<Self> {
        // An iWARP device handles the response to a Read like a Write of the peer.
        let remote = if limits.iwarp {
            bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
        } else {
            0
        };
        let pages = limits.max_mr_pages.min(MAX_PAGES);
        (limits.mem_mgt_extensions && pages > 0).then_some(Self {
            pages,
            access: bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE | remote,
        })
    }
}

/// A memory region of the device (`struct ib_mr`, MR). Each use maps other pages.
///
/// # Invariants
///
/// The MR is live. The owner of this value keeps its protection domain.
struct Mr(NonNull<bindings::ib_mr>);

impl Mr {
    /// Allocates an MR of `pages` pages. The caller keeps `pd` as long as the MR. May sleep.
    fn new(pd: &Pd, pages: u32) -> Result<Self> {
        let kind = bindings::ib_mr_type_IB_MR_TYPE_MEM_REG;
        // SAFETY: `pd` is live.
        let mr = from_err_ptr(unsafe { bindings::ib_alloc_mr(pd.as_ptr(), kind, pages) })?;
        // INVARIANT: The MR was just allocated; the caller keeps the protection domain.
        Ok(Self(NonNull::new(mr).ok_or(ENOMEM)?))
    }

    /// Returns the key of the MR, local and remote.
    fn key(&self) -> u32 {
        // SAFETY: The MR is live by the type invariant.
        unsafe { (*self.0.as_ptr()).lkey }
    }

    /// Returns the DMA address of the first byte.
    fn start(&self) -> u64 {
        // SAFETY: The MR is live by the type invariant.
        unsafe { (*self.0.as_ptr()).iova }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: The MR is live by the type invariant. No posted work names it: a `SendQueue` owns
        // posted work, with its memory regions, until the work has completed or the queue pair is
        // destroyed.
        unsafe { bindings::ib_dereg_mr_user(self.0.as_ptr(), core::ptr::null_mut()) };
    }
}

/// Memory that can be registered for the pages of one Call or one exposure: one or several MRs.
///
/// The owner gives it to a [`PageRegion`](crate::mem::page_region::PageRegion), and takes it back. It is
/// not `Sync`: while its work is in a [`SendQueue`](crate::send::queue::SendQueue), the lock of that
/// protects it.
///
/// # Invariants
///
/// - The MRs belong to `pd`.
/// - Only the first `registered` MRs may be valid. Of these, the first `invalidated` are not valid
///   any more when the work that invalidates them has completed.
pub struct MemoryRegion {
    mrs: KVec<Mr>,
    /// Pages of all MRs together. The last MR may be larger than needed; its rest is not used.
    room: usize,
    /// Pages of each MR.
    pages: usize,
    /// Scatter list that passes addresses to the RDMA core; one entry for each page of an MR.
    list: KVec<bindings::scatterlist>,
    /// Access rights of an MR that RDMA Reads fill.
    sink_access: u32,
    /// The number of the connection that the memory region is reserved for.
    user: Option<u64>,
    /// True once the registration of an MR was built.
    is_known: Cell<bool>,
    /// MRs whose registration was built, since the memory region was last idle.
    registered: Cell<usize>,
    /// MRs among these whose invalidation was built.
    invalidated: Cell<usize>,
    pd: Arc<Pd>,
}

// SAFETY: Verbs may be called on any thread. Pointers in `list` are used only during a call that
// sets them.
unsafe impl Send for MemoryRegion {}

impl MemoryRegion {
    /// Allocates a memory region for up to `pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the driver's error, for example if the device has no MR left.
    pub fn new(pd: &Arc<Pd>, kind: Kind, pages: usize) -> Result<KBox<Self>> {
        let each = kind
            .pages
            .min(u32::try_from(pages).unwrap_or(u32::MAX))
            .max(1);
        let count = mrs_for(pages, each as usize);
        let mut mrs = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let mr = Mr::new(pd, each)?;
            mrs.push_within_capacity(mr).map_err(|_| ENOMEM)?;
        }
        let mut list = KVec::with_capacity(each as usize, GFP_KERNEL)?;
        for _ in 0..each {
            list.push_within_capacity(pin_init::zeroed())
                .map_err(|_| ENOMEM)?;
        }
        // INVARIANT: No MR is valid.
        let this = Self {
            mrs,
            room: pages,
            pages: each as usize,
            list,
            sink_access: kind.access,
            user: None,
            is_known: Cell::new(false),
            registered: Cell::new(0),
            invalidated: Cell::new(0),
            pd: pd.clone(),
        };
        Ok(KBox::new(this, GFP_KERNEL)?)
    }

    /// Returns true if a peer may know a key of the memory region.
    #[inline]
    pub fn is_known(&self) -> bool {
        self.is_known.get()
    }

    /// Returns the number of the connection that the memory region is reserved for, or `None` if it
    /// may be used for any.
    #[inline]
    pub fn user(&self) -> Option<u64> {
        self.user
    }

    /// Reserves the memory region for the connection with the number `user`. `None` is allowed only
    /// if no peer [knows](Self::is_known) a key.
    #[inline]
    pub fn set_user(&mut self, user: Option<u64>) {
        self.user = user;
    }

    /// Returns the number of pages that there is room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.room
    }

    /// Maps the first `len` bytes of `mapping` into the MRs, which get new keys and new addresses. Does
    /// not sleep, unless the driver does in `ib_map_mr_sg`: that of hns allocates with `GFP_KERNEL`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `len` is 0 or more bytes than there are, if there are too many pages, if an MR may be
    /// valid, if the pages are not mapped in this direction and for the same protection domain, or if
    /// the driver does not take the pages.
    pub(crate) fn map(&mut self, mapping: &Mapping, direction: Direction, len: usize) -> Result {
        let most = mapping.pages().min(self.capacity());
        let fits = len > 0 && len <= most.saturating_mul(PAGE_SIZE);
        if !self.is_idle() || !mapping.is_for(&self.pd, direction) || !fits {
            return Err(EINVAL);
        }
        let mut left = len;
        let (mut rest, mut skip) = (mapping.segments(), 0);
        for mr in &self.mrs {
            // CAST: At most `MAX_PAGES` pages.
            let size = left.min(self.size()) as u32;
            if size == 0 {
                break;
            }
            // SAFETY: The MR is live and, as the memory region is idle, not valid. `list` has an
            // entry for each of its pages. `behind` has made `skip` less than the first segment.
            // The segments have `left` bytes from there on by the invariant of `Mapping`.
            let is_mapped = unsafe {
                bindings::mr_put(
                    mr.0.as_ptr(),
                    self.list.as_mut_ptr(),
                    rest.as_ptr(),
                    skip,
                    size,
                    random_address(),
                )
            };
            if !is_mapped {
                return Err(EINVAL);
            }
            (rest, skip) = behind(rest, skip.saturating_add(size));
            left = left.saturating_sub(size as usize);
        }
        Ok(())
    }

    /// Returns true if the registrations of all MRs for `pages` pages were built.
    #[inline]
    pub(crate) fn is_registered(&self, pages: usize) -> bool {
        self.registered.get() >= mrs_for(pages, self.pages)
    }

    /// Returns the access rights of an MR that RDMA Reads fill.
    pub(crate) fn sink_access(&self) -> u32 {
        self.sink_access
    }

    /// Returns the work request that registers the next MR with these access rights. The caller adds
    /// it to a chain.
    pub(crate) fn next_registration(&self, access: u32) -> Option<bindings::ib_reg_wr> {
        let registered = self.registered.get();
        let mr = self.mrs.get(registered)?;
        let mut wr: bindings::ib_reg_wr = crate::zeroed();
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
        wr.mr = mr.0.as_ptr();
        wr.key = mr.key();
        // CAST: A set of flags.
        wr.access = access as c_int;
        self.registered.set(registered.saturating_add(1));
        self.is_known.set(true);
        Some(wr)
    }

    /// Returns true if each MR whose registration was built is invalidated, too.
    #[inline]
    pub(crate) fn is_invalidated(&self) -> bool {
        self.invalidated.get() >= self.registered.get()
    }

    /// Returns the next MR to invalidate. The caller adds a work request for it to a chain.
    pub(crate) fn next_invalidation(&self) -> Option<Invalidation> {
        let invalidated = self.invalidated.get();
        let mr = self.mrs.get(..self.registered.get())?.get(invalidated)?;
        self.invalidated.set(invalidated.saturating_add(1));
        Some(Invalidation {
            key: mr.key(),
            is_first: invalidated == 0,
        })
    }

    /// Returns the DMA address, the length and the key of the beginning of `range`, in bytes of all
    /// pages. The length ends with the MR. `None` if the registration of the MR was not built.
    pub(crate) fn find(&self, range: Range<usize>) -> Option<(u64, usize, u32)> {
        let size = self.size();
        let (index, offset) = (
            range.start.checked_div(size)?,
            range.start.checked_rem(size)?,
        );
        let mr = self.mrs.get(..self.registered.get())?.get(index)?;
        let len = range.end.saturating_sub(range.start);
        let len = len.min(size.saturating_sub(offset));
        Some((mr.start().wrapping_add(offset as u64), len, mr.key()))
    }

    /// Returns the addresses, the lengths and the keys of the MRs that the first `len` bytes are mapped
    /// into.
    pub(crate) fn segments(&self, len: usize) -> impl Iterator<Item = (u64, u32, u32)> + '_ {
        let size = self.size();
        let mut left = len;
        self.mrs.iter().map_while(move |mr| {
            // CAST: At most the bytes of an MR.
            let len = left.min(size) as u32;
            left = left.saturating_sub(size);
            (len > 0).then(|| (mr.start(), len, mr.key()))
        })
    }

    /// Returns the bytes of each MR.
    fn size(&self) -> usize {
        // At most `MAX_PAGES`.
        self.pages.saturating_mul(PAGE_SIZE)
    }

    /// Returns true if no MR may be valid.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.registered.get() == 0
    }

    /// Marks all MRs as not valid.
    ///
    /// # Safety
    ///
    /// The device has executed the invalidations of all MRs that were registered.
    pub(crate) unsafe fn set_idle(&self) {
        self.registered.set(0);
        self.invalidated.set(0);
    }
}

/// An MR to invalidate.
pub(crate) struct Invalidation {
    /// The key of the MR.
    pub(crate) key: u32,
    /// True for the first MR of a memory region. The device must execute all Reads into the memory
    /// region before this invalidation.
    pub(crate) is_first: bool,
}

/// Returns a random page-aligned address for an MR, which no peer can guess. It is in the lower
/// half of the address space, so that no address in the MR wraps around.
fn random_address() -> u64 {
    // SAFETY: The function has no preconditions (include/linux/random.h).
    let random = unsafe { bindings::get_random_u64() };
    (random >> 1) & !(PAGE_SIZE as u64 - 1)
}

/// Returns the segments from the one with byte `at` on, and the offset of that byte in it.
fn behind(segments: &[bindings::ib_sge], at: u32) -> (&[bindings::ib_sge], u32) {
    let (mut rest, mut at) = (segments, at);
    while let Some((first, others)) = rest.split_first().filter(|(first, _)| first.length <= at) {
        at = at.saturating_sub(first.length);
        rest = others;
    }
    (rest, at)
}

/// Returns the number of MRs of `each` pages that hold `pages` pages. Avoids a division that can
/// panic.
fn mrs_for(pages: usize, each: usize) -> usize {
    let most = pages.saturating_add(each.saturating_sub(1));
    most.checked_div(each).unwrap_or(0)
}

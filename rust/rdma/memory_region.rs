// SPDX-License-Identifier: GPL-2.0

//! Memory registration for RDMA Reads.
//!
//! Where a device takes only registered memory as the sink of an RDMA Read, as iWARP does, the peer
//! is told a key of it and could write there by itself. So a [`MemoryRegion`] has nothing but the
//! pages of one Call, is valid from a work request before the Reads to one behind them, and is
//! destroyed by whoever takes the pages back without a completion of the latter. All connections of
//! a device share its protection domain, so another peer that knew key and address could write there
//! as well, and one that knew most of the key could invalidate it. The address is another one each time,
//! and nothing that can be guessed; the key says most of the next one, so a memory region that was used
//! for a connection is for that alone.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::device::{
    Limits,
    Pd, //
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

/// The most pages that one MR has: 1 MiB.
const MAX_PAGES: u32 = 256;

// The length of an MR goes into a scatter/gather entry.
const _: () = assert!(MAX_PAGES as usize <= u32::MAX as usize / PAGE_SIZE);

/// How a device registers memory.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Pages of an MR.
    pages: u32,
    /// What is allowed to whom, `IB_ACCESS_...`.
    access: u32,
}

impl Kind {
    /// That of a device with these limits; none if it has no MRs that work requests can make
    /// valid.
    pub fn new(limits: &Limits) -> Option<Self> {
        // An iWARP device takes what it reads like a Write of the peer.
        let remote = match limits.iwarp {
            true => bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE,
            false => 0,
        };
        let pages = limits.max_mr_pages.min(MAX_PAGES);
        (limits.mem_mgt_extensions && pages > 0).then_some(Self {
            pages,
            access: bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE | remote,
        })
    }
}

/// A memory region (MR) of the device, which other pages can be put into each time.
///
/// # Invariants
///
/// `mr` is live, and whoever has this keeps its domain.
struct Mr(NonNull<bindings::ib_mr>);

impl Mr {
    /// Makes one for `pages` pages of a domain that the caller keeps. May sleep.
    fn new(pd: &Pd, pages: u32) -> Result<Self> {
        let kind = bindings::ib_mr_type_IB_MR_TYPE_MEM_REG;
        // SAFETY: `pd` is live.
        let mr = from_err_ptr(unsafe { bindings::ib_alloc_mr(pd.as_ptr(), kind, pages) })?;
        // INVARIANT: As just made; the caller keeps the domain.
        Ok(Self(NonNull::new(mr).ok_or(ENOMEM)?))
    }

    /// What the device, and on iWARP the peer, calls it.
    fn key(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).lkey }
    }

    /// The device's address of its first byte.
    fn start(&self) -> u64 {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).iova }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; work that names it is not posted: a `SendQueue` gives posted work
        // to nobody, to be changed or dropped, before it has completed.
        unsafe { bindings::ib_dereg_mr_user(self.0.as_ptr(), core::ptr::null_mut()) };
    }
}

/// The MRs for the pages of one Call.
///
/// # Invariants
///
/// The MRs are of `pd`. Only the first `begun` of them may be valid, and of these those before
/// `ended` until work is done that was posted with them.
pub struct MemoryRegion {
    mrs: KVec<Mr>,
    /// Pages of all: not more than it was made for, though the last MR may have room.
    room: usize,
    /// Pages of each.
    pages: usize,
    /// What the RDMA core takes addresses from; one for each page of an MR.
    list: KVec<bindings::scatterlist>,
    access: u32,
    /// The connection that it is for.
    user: Option<u64>,
    /// Whether an MR was ever begun.
    is_known: Cell<bool>,
    begun: Cell<usize>,
    ended: Cell<usize>,
    pd: Arc<Pd>,
}

// SAFETY: Verbs may be called on any thread, and pointers in `list` mean nothing between calls.
unsafe impl Send for MemoryRegion {}

impl MemoryRegion {
    /// Makes one for up to `pages` pages. May sleep.
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
            access: kind.access,
            user: None,
            is_known: Cell::new(false),
            begun: Cell::new(0),
            ended: Cell::new(0),
            pd: pd.clone(),
        };
        Ok(KBox::new(this, GFP_KERNEL)?)
    }

    /// Whether a peer may know a key of it.
    pub fn is_known(&self) -> bool {
        self.is_known.get()
    }

    /// The number of the connection that it is for; none if no peer knows its key.
    pub fn user(&self) -> Option<u64> {
        self.user
    }

    /// It is for the connection with that number, or was not used.
    pub fn set_user(&mut self, user: Option<u64>) {
        self.user = user;
    }

    /// The number of pages there is room for.
    pub fn capacity(&self) -> usize {
        self.room
    }

    /// Puts the pages at `addrs` into the MRs, which get new keys and addresses.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too many pages, for a memory region that may be valid, or the driver's.
    pub(super) fn put(&mut self, pd: &Arc<Pd>, addrs: &[u64]) -> Result {
        if !self.is_idle() || !Arc::ptr_eq(pd, &self.pd) || addrs.len() > self.capacity() {
            return Err(EINVAL);
        }
        let mut rest = addrs;
        for mr in &self.mrs {
            let split = rest.split_at_checked(rest.len().min(self.pages));
            let (addrs, later) = split.ok_or(EINVAL)?;
            rest = later;
            if addrs.is_empty() {
                break;
            }
            let list = self.list.get_mut(..addrs.len()).ok_or(EINVAL)?;
            // CAST: At most `MAX_PAGES`.
            let count = addrs.len() as c_int;
            // SAFETY: The MR is live and not valid; both arrays have `count` entries.
            let put = unsafe {
                bindings::mr_put(
                    mr.0.as_ptr(),
                    list.as_mut_ptr(),
                    addrs.as_ptr(),
                    addrs.len() as u32,
                    random_address(),
                )
            };
            if put != count {
                return Err(EINVAL);
            }
        }
        Ok(())
    }

    /// Whether the MRs for `pages` pages are begun.
    pub(super) fn is_begun(&self, pages: usize) -> bool {
        self.begun.get() >= mrs_for(pages, self.pages)
    }

    /// The MR to begin with next: the work request that makes it valid, which is to be posted.
    pub(super) fn begin(&self) -> Option<bindings::ib_reg_wr> {
        let begun = self.begun.get();
        let mr = self.mrs.get(begun)?;
        let mut wr: bindings::ib_reg_wr = crate::zeroed();
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
        wr.mr = mr.0.as_ptr();
        wr.key = mr.key();
        // CAST: A set of flags.
        wr.access = self.access as c_int;
        self.begun.set(begun.saturating_add(1));
        self.is_known.set(true);
        Some(wr)
    }

    /// Whether all MRs that are begun are ended.
    pub(super) fn is_ended(&self) -> bool {
        self.ended.get() >= self.begun.get()
    }

    /// The key of the MR to end next, and whether it is the first: all Reads have to be done
    /// before the work request that makes it invalid, which is to be posted.
    pub(super) fn end(&self) -> Option<(u32, bool)> {
        let ended = self.ended.get();
        let mr = self.mrs.get(..self.begun.get())?.get(ended)?;
        self.ended.set(ended.saturating_add(1));
        Some((mr.key(), ended == 0))
    }

    /// Where the device finds `range` of the pages' bytes: address, length up to the end of the
    /// MR, and key. None if the MR is not begun.
    pub(super) fn find(&self, range: Range<usize>) -> Option<(u64, usize, u32)> {
        let size = self.pages.checked_mul(PAGE_SIZE)?;
        let (index, offset) = (
            range.start.checked_div(size)?,
            range.start.checked_rem(size)?,
        );
        let mr = self.mrs.get(..self.begun.get())?.get(index)?;
        let len = range.end.saturating_sub(range.start);
        let len = len.min(size.saturating_sub(offset));
        Some((mr.start().wrapping_add(offset as u64), len, mr.key()))
    }

    /// Whether no MR may be valid.
    pub(super) fn is_idle(&self) -> bool {
        self.begun.get() == 0
    }
}

/// The memory region that the work requests of one work make valid, and invalid again; none if they need
/// none.
///
/// A [`Chain`](super::chain::Chain) takes memory regions, and a [`SendQueue`](super::send_queue::SendQueue) keeps and
/// completes claims. Nobody else can say that a memory region idles again, and the `SendQueue` says so of none
/// but that with which the work that has completed was posted.
///
/// # Invariants
///
/// The memory region is borrowed by the chains of the work that this is the claim of. While
/// `is_ended`, each MR that is begun is ended by a work request of these chains.
pub(super) struct Claim {
    memory_region: Option<NonNull<MemoryRegion>>,
    is_ended: bool,
}

// SAFETY: `MemoryRegion` is `Send`, and a claim goes where the work goes that has the memory region.
unsafe impl Send for Claim {}

impl Claim {
    /// Returns the claim of work that is not posted yet.
    pub(super) fn none() -> Self {
        // INVARIANT: No MR is begun.
        Self {
            memory_region: None,
            is_ended: true,
        }
    }

    /// Claims `memory_region`, which the caller's chain borrows. Returns false if this claims another
    /// one, or if other work has made MRs of `memory_region` valid.
    pub(super) fn take(&mut self, memory_region: &MemoryRegion) -> bool {
        let this = NonNull::from(memory_region);
        if self.memory_region.is_none() && memory_region.is_idle() {
            // INVARIANT: By the requirement above. No MR is begun.
            self.memory_region = Some(this);
        }
        self.memory_region == Some(this)
    }

    /// Notes that an MR was begun, or that all that are begun were ended.
    pub(super) fn set_ended(&mut self, is_ended: bool) {
        self.is_ended = is_ended;
    }

    /// Returns true if the work requests make no MR valid that they do not make invalid again.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Marks the memory region idle.
    ///
    /// # Safety
    ///
    /// - All work requests that were built with this claim have completed, with success.
    /// - The work that has the memory region was not changed since, and is not dropped yet.
    pub(super) unsafe fn complete(self) {
        let Some(memory_region) = self.memory_region.filter(|_| self.is_ended) else {
            return;
        };
        // SAFETY: By the type invariant and the safety requirements of this function it is live.
        let memory_region = unsafe { memory_region.as_ref() };
        // INVARIANT: The device has made all MRs invalid.
        memory_region.begun.set(0);
        memory_region.ended.set(0);
    }
}

/// A page's address for an MR, which no peer can guess: of the lower half, so that none wraps.
fn random_address() -> u64 {
    // SAFETY: The function has no preconditions (include/linux/random.h).
    let random = unsafe { bindings::get_random_u64() };
    (random >> 1) & !(PAGE_SIZE as u64 - 1)
}

/// How many MRs of `each` pages hold `pages`; without a division that can panic.
fn mrs_for(pages: usize, each: usize) -> usize {
    let most = pages.saturating_add(each.saturating_sub(1));
    most.checked_div(each).unwrap_or(0)
}

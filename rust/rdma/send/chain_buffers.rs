// SPDX-License-Identifier: GPL-2.0

//! The arrays of work requests and scatter/gather entries that a chain is built in, and the slots
//! of the send queue by which its work requests complete.
//!
//! A queue pair allocates the arrays once and builds all of its chains in them: a driver copies
//! what it needs while it posts. A [`SendQueue`](crate::send::queue::SendQueue) uses them under its
//! lock.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    mem::{
        dma::Direction,
        mapping::Run,
        memory_region::MemoryRegion,
        page_region::PageRegion, //
    },
    send::request::Request,
};
use core::{
    mem::ManuallyDrop,
    ops::Range, //
};
use kernel::{
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};

/// A slot of the send queue. A completion identifies its work request by the slot.
#[repr(C)]
pub(crate) struct Slot {
    /// The first field, so that a pointer to it points to the slot.
    pub(crate) cqe: bindings::ib_cqe,
    /// The context of the queue pair.
    pub(crate) context: *const c_void,
}

// SAFETY: The pointer is to a context, which is `Send` and `Sync` (`Handler`).
unsafe impl Send for Slot {}

/// The arrays that a chain is built in.
///
/// # Invariants
///
/// - `wrs` and `sges` never grow beyond the capacity that they are made with, and `slots` does not
///   change. So their memory does not move.
/// - Each work request in `wrs` refers to entries in `sges` or in a page region that the chain
///   borrows, to a slot in `slots`, and to the work request behind it, if there is one.
/// - `slot` is less than the number of slots, unless that is 0.
pub(crate) struct ChainBuffers {
    wrs: KVec<Request>,
    sges: KVec<bindings::ib_sge>,
    slots: KVec<Slot>,
    /// The slot of the next work request.
    slot: usize,
    max_sge: usize,
    max_read_sge: usize,
    /// True if the device takes only registered memory as the sink of an RDMA Read (iWARP).
    needs_registration: bool,
    /// Bytes of the RDMA Reads in the chain.
    bytes_read: u32,
    /// The local key of `pd`.
    key: u32,
    pd: Arc<Pd>,
}

// SAFETY: Pointers in `wrs` are set while a chain is built and are not used after it is posted.
unsafe impl Send for ChainBuffers {}

/// The scatter/gather entries of a work request.
#[derive(Clone, Copy)]
pub(crate) struct Entries {
    first: *const bindings::ib_sge,
    count: usize,
    /// Bytes of all entries.
    pub(crate) len: usize,
}

impl Entries {
    /// No entries.
    const NONE: Self = Self {
        first: core::ptr::null(),
        count: 0,
        len: 0,
    };

    /// Returns the segments of `run` as entries, without a copy. The run must be whole.
    fn of(run: &Run<'_>) -> Self {
        Self {
            first: run.segments.as_ptr(),
            count: run.segments.len(),
            len: run.len,
        }
    }
}

impl ChainBuffers {
    /// Allocates room for `wrs` work requests of up to `max_sge` entries each; RDMA Reads have up
    /// to `max_read_sge`. Work requests complete to `slots`, one for each that can be posted. May
    /// sleep.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        slots: KVec<Slot>,
        wrs: usize,
        max_sge: usize,
        max_read_sge: usize,
    ) -> Result<Self> {
        // INVARIANT: The arrays are empty.
        Ok(Self {
            wrs: KVec::with_capacity(wrs, GFP_KERNEL)?,
            sges: KVec::with_capacity(wrs.saturating_mul(max_sge), GFP_KERNEL)?,
            slots,
            slot: 0,
            max_sge,
            max_read_sge: max_read_sge.min(max_sge),
            needs_registration: pd.needs_registration(),
            bytes_read: 0,
            key: pd.local_key(),
            pd: pd.clone(),
        })
    }

    /// Removes all work requests and entries. The next work request gets the slot `slot`, which is
    /// less than [`Self::depth`], and those behind it get the slots that follow, in a ring.
    #[inline]
    pub(crate) fn clear(&mut self, slot: usize) {
        self.wrs.clear();
        self.sges.clear();
        // INVARIANT: Less than the number of slots, or 0.
        self.slot = if slot < self.slots.len() { slot } else { 0 };
        self.bytes_read = 0;
    }

    /// Returns the index of `slot`, or `None` if it is not one of these slots. Does not read the slot.
    #[inline]
    pub(crate) fn index_of(&self, slot: *const Slot) -> Option<usize> {
        let offset = slot.addr().wrapping_sub(self.slots.as_ptr().addr());
        let index = offset / size_of::<Slot>();
        (index < self.slots.len()).then_some(index)
    }

    /// Takes the slots, without which no work request can be added.
    pub(crate) fn take_slots(&mut self) -> KVec<Slot> {
        // INVARIANT: `slot` is 0 as there are no slots. The memory of the slots does not move.
        self.slot = 0;
        core::mem::take(&mut self.slots)
    }

    /// Returns the number of slots.
    pub(crate) fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Returns the protection domain of the queue pair.
    #[inline]
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns the number of work requests in the chain.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.wrs.len()
    }

    /// Returns true if there is no room for another work request.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.wrs.len() == self.wrs.capacity()
    }

    /// Returns the bytes of the RDMA Reads in the chain.
    #[inline]
    pub(crate) fn bytes_read(&self) -> u32 {
        self.bytes_read
    }

    /// Counts bytes of an RDMA Read.
    #[inline]
    pub(crate) fn count_read(&mut self, bytes: u32) {
        self.bytes_read = self.bytes_read.saturating_add(bytes);
    }

    /// Returns the index of the next entry, at which the next work request begins.
    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.sges.len()
    }

    /// Removes the entries from `start` on, which belong to no work request.
    pub(crate) fn truncate(&mut self, start: usize) {
        self.sges.truncate(start);
    }

    /// Adds a work request whose entries are those from `start` on. The chain must not be full.
    #[inline]
    pub(crate) fn add(&mut self, wr: Request, start: usize) {
        let entries = self.entries(start, 0);
        self.add_with(wr, entries);
    }

    /// Adds a work request with `entries`. The chain must not be full.
    #[inline]
    pub(crate) fn add_with(&mut self, mut wr: Request, entries: Entries) {
        let common = wr.common();
        // CAST: A work request has at most `max_sge` entries.
        common.num_sge = entries.count as c_int;
        // Some drivers read the first entry even if there is none (irdma, `irdma_uk_rdma_write`).
        common.sg_list = match entries.count {
            0 => core::ptr::null_mut(),
            _ => entries.first.cast_mut(),
        };
        let slot = self.slots.as_ptr().wrapping_add(self.slot);
        // CAST: `cqe` is the first field of the `repr(C)` slot. The RDMA core does not write to it.
        common.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(slot.cast_mut().cast());
        let this = self.wrs.as_mut_ptr().wrapping_add(self.wrs.len());
        if let Some(before) = self.wrs.last_mut() {
            before.common().next = this.cast();
        }
        // INVARIANT: The entries are in `sges`, or were borrowed for the chain. The other pointers
        // refer to the arrays. A slot is less than their number.
        if self.wrs.push_within_capacity(wr).is_ok() {
            let slot = self.slot.wrapping_add(1);
            self.slot = if slot < self.slots.len() { slot } else { 0 };
        }
    }

    /// Returns the entries from `start` on, with `len` bytes.
    #[inline]
    fn entries(&self, start: usize, len: usize) -> Entries {
        Entries {
            // In bounds, as `start` is at most the number of entries.
            first: self.sges.as_ptr().wrapping_add(start),
            count: self.sges.len().saturating_sub(start),
            len,
        }
    }

    /// Adds an entry for `len` bytes of a send buffer. Returns false if there is no room.
    #[inline]
    pub(crate) fn sge(&mut self, addr: u64, len: usize) -> bool {
        let sge = bindings::ib_sge {
            addr,
            // CAST: At most a page.
            length: len as u32,
            lkey: self.key,
        };
        self.sges.push_within_capacity(sge).is_ok()
    }

    /// Returns entries for the beginning of `range` of a page region, as many as an RDMA Read or an
    /// RDMA Write may have.
    ///
    /// The sink of a Read is registered memory if the page region has some. Without, there are no
    /// entries if the device needs registered memory.
    #[inline]
    pub(crate) fn entries_for(
        &mut self,
        page_region: &PageRegion,
        direction: Direction,
        range: Range<usize>,
    ) -> Entries {
        let is_sink = direction == Direction::FromDevice;
        let room = if is_sink {
            self.max_read_sge
        } else {
            self.max_sge
        };
        if is_sink {
            if let Some((memory_region, _)) = page_region.memory_region(&self.pd) {
                return self.registered(memory_region, range);
            }
            if self.needs_registration {
                return Entries::NONE;
            }
        }
        let len = range.end.saturating_sub(range.start);
        match page_region.piece(&self.pd, direction, range.start, len) {
            Some(sge) => self.one(sge),
            None => self.refer(page_region, direction, range, room),
        }
    }

    /// Adds `sge` and returns it as the only entry, or none if there is no room.
    #[inline]
    fn one(&mut self, sge: bindings::ib_sge) -> Entries {
        let (start, len) = (self.start(), sge.length as usize);
        match self.sges.push_within_capacity(sge) {
            Ok(()) => self.entries(start, len),
            Err(_) => Entries::NONE,
        }
    }

    /// Adds entries for the beginning of `range` of a page region to those from `start` on, as many
    /// as a Send may have. Returns the number of bytes in them.
    pub(crate) fn add_source(
        &mut self,
        page_region: &PageRegion,
        range: Range<usize>,
        start: usize,
    ) -> usize {
        let max = start.saturating_add(self.max_sge);
        self.gather(page_region, Direction::ToDevice, range, max)
    }

    /// Returns at most `room` entries for the beginning of `range` of a page region. They are
    /// copied only if some of their bytes are not in the range.
    // Out of line: the caller needs fewer registers without.
    #[inline(never)]
    fn refer(
        &mut self,
        page_region: &PageRegion,
        direction: Direction,
        range: Range<usize>,
        room: usize,
    ) -> Entries {
        let (start, at) = (self.start(), range.start);
        let len = range.end.saturating_sub(at);
        let Some(run) = page_region.run(&self.pd, direction, at, len, room) else {
            return Entries::NONE;
        };
        let is_all = run.len == len || run.segments.len() >= room;
        if is_all && run.is_whole() {
            return Entries::of(&run);
        }
        let copied = self.copy(&run);
        let max = start.saturating_add(room);
        let rest = if is_all {
            0
        } else {
            let at = at.saturating_add(copied);
            self.gather(page_region, direction, at..range.end, max)
        };
        self.entries(start, copied.saturating_add(rest))
    }

    /// Adds entries for the beginning of `range` of a page region until there are `max` entries.
    /// Returns the number of bytes in them.
    fn gather(
        &mut self,
        page_region: &PageRegion,
        direction: Direction,
        range: Range<usize>,
        max: usize,
    ) -> usize {
        let mut at = range.start;
        while at < range.end && self.start() < max {
            let room = max.saturating_sub(self.start());
            let len = range.end.saturating_sub(at);
            let run = page_region.run(&self.pd, direction, at, len, room);
            match run.map_or(0, |run| self.copy(&run)) {
                0 => break,
                len => at = at.saturating_add(len),
            }
        }
        at.saturating_sub(range.start)
    }

    /// Adds entries for the bytes of `run`. Returns their number, or 0 if there is no room.
    fn copy(&mut self, run: &Run<'_>) -> usize {
        let start = self.start();
        if self.sges.capacity().saturating_sub(start) < run.segments.len() {
            return 0;
        }
        for segment in run.segments {
            let _ = self
                .sges
                .push_within_capacity(bindings::ib_sge { ..*segment });
        }
        // CAST: The bytes that are not in the run are less than those of a segment.
        let (before, behind) = (run.before as u32, run.behind as u32);
        if let Some(first) = self.sges.get_mut(start) {
            first.addr = first.addr.wrapping_add(u64::from(before));
            first.length = first.length.wrapping_sub(before);
        }
        if let Some(last) = self.sges.last_mut() {
            last.length = last.length.wrapping_sub(behind);
        }
        run.len
    }

    /// Returns one entry for the beginning of `range` of registered memory.
    // Out of line: see above.
    #[inline(never)]
    fn registered(&mut self, memory_region: &MemoryRegion, range: Range<usize>) -> Entries {
        let Some((addr, len, lkey)) = memory_region.find(range) else {
            return Entries::NONE;
        };
        self.one(bindings::ib_sge {
            addr,
            // CAST: At most the 1 MiB of an MR.
            length: len as u32,
            lkey,
        })
    }

    /// Ends the chain. If `signal`, the last work request is signalled. Returns the first work
    /// request, or null if there is none.
    ///
    /// The pointers in it are valid until the chain changes.
    #[inline]
    pub(crate) fn end(&mut self, signal: bool) -> *const bindings::ib_send_wr {
        let Some(last) = self.wrs.last_mut() else {
            return core::ptr::null();
        };
        if signal {
            last.common().send_flags |= bindings::ib_send_flags_IB_SEND_SIGNALED as c_int;
        }
        self.wrs.as_ptr().cast()
    }
}

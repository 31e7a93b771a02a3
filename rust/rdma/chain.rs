// SPDX-License-Identifier: GPL-2.0

//! Chains of work requests, which one call posts.
//!
//! A chain and its scatter/gather entries are built by hand in [`Buffers`] that are made once: a
//! driver copies what it needs while it posts, so they serve a queue pair for ever.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    dma::Direction,
    memory_region::{
        Claim,
        MemoryRegion, //
    },
    page_region::PageRegion,
    send_buffer::SendBuffer, //
};
use core::{
    cell::Cell,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Range, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Memory of the peer.
#[derive(Clone, Copy)]
pub struct Remote {
    /// The handle of the segment.
    pub key: u32,
    /// The address of the first byte, in the peer's terms.
    pub addr: u64,
}

/// Which way an RDMA operation goes.
#[derive(Clone, Copy)]
pub enum Rdma {
    /// From the peer's memory to ours.
    Read,
    /// From our memory to the peer's.
    Write,
}

/// What a Send carries.
pub struct Message<'a, R> {
    /// The transport header, and whatever was copied behind it.
    pub buffer: &'a SendBuffer,
    /// How many bytes of the buffer.
    pub len: usize,
    /// What follows them: ranges of the page region's stream.
    pub rest: Option<(&'a PageRegion, R)>,
    /// The handle that the peer's device is to invalidate.
    pub invalidate: Option<u32>,
}

/// A work request; all kinds begin with the common part.
#[repr(C)]
union Request {
    wr: ManuallyDrop<bindings::ib_send_wr>,
    rdma: ManuallyDrop<bindings::ib_rdma_wr>,
    reg: ManuallyDrop<bindings::ib_reg_wr>,
}

impl Request {
    fn new(opcode: bindings::ib_wr_opcode) -> Self {
        let mut rdma: bindings::ib_rdma_wr = crate::zeroed();
        rdma.wr.opcode = opcode;
        Self::rdma(rdma)
    }

    fn rdma(wr: bindings::ib_rdma_wr) -> Self {
        Self {
            rdma: ManuallyDrop::new(wr),
        }
    }

    fn reg(wr: bindings::ib_reg_wr) -> Self {
        Self {
            reg: ManuallyDrop::new(wr),
        }
    }

    fn common(&mut self) -> &mut bindings::ib_send_wr {
        // SAFETY: Each kind begins with it.
        unsafe { &mut self.wr }
    }
}

/// The arrays that a chain is built in.
///
/// # Invariants
///
/// `wrs` and `sges` have room that was given once; the entries of work request *k* begin at
/// `starts[k]` in `sges`.
pub(super) struct Buffers {
    wrs: KVec<Request>,
    sges: KVec<bindings::ib_sge>,
    starts: KVec<usize>,
    max_sge: usize,
    max_read_sge: usize,
    /// True if the device writes what it reads to registered memory only (iWARP).
    needs_registration: bool,
    /// Bytes of the RDMA Reads in the chain.
    bytes_read: u32,
    pd: Arc<Pd>,
}

// SAFETY: Pointers in `wrs` are set when a chain is posted and mean nothing afterwards.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Makes them for `wrs` work requests of up to `max_sge` pieces each, RDMA Reads of up to
    /// `max_read_sge`. May sleep.
    pub(super) fn new(
        pd: &Arc<Pd>,
        wrs: usize,
        max_sge: usize,
        max_read_sge: usize,
    ) -> Result<Self> {
        Ok(Self {
            wrs: KVec::with_capacity(wrs, GFP_KERNEL)?,
            sges: KVec::with_capacity(wrs.saturating_mul(max_sge), GFP_KERNEL)?,
            starts: KVec::with_capacity(wrs, GFP_KERNEL)?,
            max_sge,
            max_read_sge: max_read_sge.min(max_sge),
            needs_registration: pd.needs_registration(),
            bytes_read: 0,
            pd: pd.clone(),
        })
    }

    /// Begins an empty chain of the work with this `claim`.
    pub(super) fn begin<'b, 'm>(&'b mut self, claim: &'b mut Claim) -> Chain<'b, 'm> {
        self.wrs.clear();
        self.sges.clear();
        self.starts.clear();
        self.bytes_read = 0;
        Chain {
            buffers: self,
            claim,
            _memory: PhantomData,
        }
    }

    /// Adds a work request with the entries from `start` on.
    fn add(&mut self, mut wr: Request, start: usize) {
        // CAST: There are at most `max_sge` entries.
        wr.common().num_sge = self.sges.len().saturating_sub(start) as c_int;
        // There is room by the type invariant, as `is_full` was checked.
        if self.starts.push_within_capacity(start).is_ok() {
            let _ = self.wrs.push_within_capacity(wr);
        }
    }

    /// Adds an entry for memory that is mapped; whether there was room.
    fn sge(&mut self, addr: u64, len: usize) -> bool {
        self.keyed_sge(addr, len, self.pd.local_key())
    }

    fn keyed_sge(&mut self, addr: u64, len: usize, key: u32) -> bool {
        let sge = bindings::ib_sge {
            addr,
            // CAST: A piece is at most a region of 1 MiB.
            length: len as u32,
            lkey: key,
        };
        self.sges.push_within_capacity(sge).is_ok()
    }

    /// Adds pieces for `range` of the page region until there are `max` entries; returns how many
    /// bytes they have.
    fn gather(
        &mut self,
        page_region: &PageRegion,
        direction: Direction,
        range: Range<usize>,
        max: usize,
    ) -> usize {
        let mut at = range.start;
        while at < range.end && self.sges.len() < max {
            let left = range.end.saturating_sub(at);
            let Some((addr, piece)) = page_region.mapped_piece(&self.pd, direction, at, left)
            else {
                break;
            };
            if !self.sge(addr, piece.len) {
                break;
            }
            at = at.saturating_add(piece.len);
        }
        at.saturating_sub(range.start)
    }

    /// Adds one entry for the beginning of `range` of registered memory; returns how many bytes it
    /// has.
    fn registered(&mut self, memory_region: &MemoryRegion, range: Range<usize>) -> usize {
        match memory_region.find(range) {
            Some((addr, len, key)) if self.keyed_sge(addr, len, key) => len,
            _ => 0,
        }
    }

    /// Links the requests, gives each the completion that `cqe` has for its index, asks for a
    /// completion of the last one if `signal`, and returns the first; null if there is none.
    ///
    /// The pointers are valid until the chain changes.
    // What it needs of the stack is not to be there while the driver posts.
    #[inline(never)]
    pub(super) fn link(
        &mut self,
        signal: bool,
        mut cqe: impl FnMut(usize) -> *mut bindings::ib_cqe,
    ) -> *const bindings::ib_send_wr {
        let mut next: *mut bindings::ib_send_wr = core::ptr::null_mut();
        let sges = self.sges.as_mut_ptr();
        for (i, wr) in self.wrs.iter_mut().enumerate().rev() {
            let start = self.starts.get(i).copied().unwrap_or(0);
            let wr = wr.common();
            // Some drivers take the first entry whatever their number (irdma, `irdma_uk_rdma_write`).
            wr.sg_list = match wr.num_sge {
                0 => core::ptr::null_mut(),
                _ => sges.wrapping_add(start),
            };
            wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe(i));
            if next.is_null() && signal {
                wr.send_flags |= bindings::ib_send_flags_IB_SEND_SIGNALED as c_int;
            }
            wr.next = next;
            next = wr;
        }
        next.cast_const()
    }
}

/// A chain of work requests under construction; what it names lives, unchanged, for `'m`.
pub struct Chain<'b, 'm> {
    buffers: &'b mut Buffers,
    /// The memory region that this and earlier chains of the same work make valid.
    claim: &'b mut Claim,
    /// Invariant in `'m`: it can be made neither longer nor shorter.
    _memory: PhantomData<Cell<&'m ()>>,
}

impl<'m> Chain<'_, 'm> {
    /// The number of work requests in the chain.
    pub fn len(&self) -> usize {
        self.buffers.wrs.len()
    }

    /// Returns true if there is no work request in the chain.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of the RDMA Reads in the chain.
    pub(super) fn bytes_read(&self) -> u32 {
        self.buffers.bytes_read
    }

    /// Whether there is no room for a work request.
    pub fn is_full(&self) -> bool {
        self.buffers.wrs.len() == self.buffers.wrs.capacity()
    }

    /// Makes the memory valid that RDMA Reads into the page region need, `room` work requests in the
    /// chain at most; whether all of it was, now or before by the same work.
    pub fn register(&mut self, page_region: &'m PageRegion, room: usize) -> bool {
        let Some((memory_region, pages)) = page_region.memory_region(&self.buffers.pd) else {
            return true;
        };
        if !self.claim.take(memory_region) {
            return false;
        }
        while !memory_region.is_begun(pages) {
            if self.len() >= room || self.is_full() {
                return false;
            }
            let Some(wr) = memory_region.begin() else {
                return false;
            };
            self.claim.set_ended(false);
            let start = self.buffers.sges.len();
            self.buffers.add(Request::reg(wr), start);
        }
        true
    }

    /// Makes it invalid again when the RDMA Reads are done; likewise.
    pub fn invalidate(&mut self, page_region: &'m PageRegion, room: usize) -> bool {
        let Some((memory_region, _)) = page_region.memory_region(&self.buffers.pd) else {
            return true;
        };
        if !self.claim.take(memory_region) {
            return false;
        }
        while !memory_region.is_ended() {
            if self.len() >= room || self.is_full() {
                return false;
            }
            let Some((key, is_first)) = memory_region.end() else {
                return false;
            };
            let mut wr = Request::new(bindings::ib_wr_opcode_IB_WR_LOCAL_INV);
            wr.common().ex.invalidate_rkey = ManuallyDrop::new(key);
            if is_first {
                wr.common().send_flags = bindings::ib_send_flags_IB_SEND_FENCE as c_int;
            }
            let start = self.buffers.sges.len();
            self.buffers.add(wr, start);
        }
        self.claim.set_ended(true);
        true
    }

    /// Adds an RDMA operation between `remote` and up to `len` bytes of the page region from byte
    /// `at` on; returns how many bytes one work request takes, 0 if there is no room.
    pub fn rdma(
        &mut self,
        rdma: Rdma,
        remote: Remote,
        page_region: &'m PageRegion,
        at: usize,
        len: usize,
    ) -> usize {
        if self.is_full() {
            return 0;
        }
        let buffers = &mut *self.buffers;
        let (opcode, direction, max_sge) = match rdma {
            Rdma::Read => (
                bindings::ib_wr_opcode_IB_WR_RDMA_READ,
                Direction::FromDevice,
                buffers.max_read_sge,
            ),
            Rdma::Write => (
                bindings::ib_wr_opcode_IB_WR_RDMA_WRITE,
                Direction::ToDevice,
                buffers.max_sge,
            ),
        };
        let start = buffers.sges.len();
        let max = start.saturating_add(max_sge);
        let range = at..at.saturating_add(len);
        let taken = match (rdma, page_region.memory_region(&buffers.pd)) {
            (Rdma::Read, Some((memory_region, _))) => buffers.registered(memory_region, range),
            (Rdma::Read, None) if buffers.needs_registration => 0,
            _ => buffers.gather(page_region, direction, range, max),
        };
        if taken > 0 {
            let mut wr: bindings::ib_rdma_wr = crate::zeroed();
            wr.wr.opcode = opcode;
            wr.remote_addr = remote.addr;
            wr.rkey = remote.key;
            buffers.add(Request::rdma(wr), start);
            if let Rdma::Read = rdma {
                // CAST: One work request moves at most the bytes of its pieces, see `keyed_sge`.
                buffers.bytes_read = buffers.bytes_read.saturating_add(taken as u32);
            }
        }
        taken
    }

    /// Adds an RDMA Write of no bytes, which needs no memory on either side: what was posted before
    /// it is done when it completes. Whether there was room.
    pub(super) fn mark(&mut self) -> bool {
        let buffers = &mut *self.buffers;
        let start = buffers.sges.len();
        let room = buffers.wrs.len() < buffers.wrs.capacity();
        if room {
            let wr = Request::new(bindings::ib_wr_opcode_IB_WR_RDMA_WRITE);
            buffers.add(wr, start);
        }
        room
    }

    /// Adds a Send; returns whether there was room for it and its pieces.
    pub fn send<R: Iterator<Item = Range<usize>>>(&mut self, message: Message<'m, R>) -> bool {
        if self.is_full() {
            return false;
        }
        let buffers = &mut *self.buffers;
        let start = buffers.sges.len();
        let max = start.saturating_add(buffers.max_sge);
        let Some((addr, len)) = message.buffer.sync(&buffers.pd, message.len) else {
            return false;
        };
        // No bytes need no entry.
        let mut whole = len == 0 || buffers.sge(addr, len);
        if let Some((page_region, ranges)) = message.rest {
            for range in ranges {
                let len = range.end.saturating_sub(range.start);
                whole =
                    whole && buffers.gather(page_region, Direction::ToDevice, range, max) == len;
            }
        }
        if !whole {
            buffers.sges.truncate(start);
            return false;
        }
        let mut wr = Request::new(bindings::ib_wr_opcode_IB_WR_SEND);
        if let Some(key) = message.invalidate {
            wr.common().opcode = bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV;
            wr.common().ex.invalidate_rkey = ManuallyDrop::new(key);
        }
        buffers.add(wr, start);
        true
    }
}

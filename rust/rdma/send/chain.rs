// SPDX-License-Identifier: GPL-2.0

//! Chains: work requests that one call posts.
//!
//! [`Work::build`](crate::send::work::Work::build) gets a [`Chain`] and adds work requests to it. The
//! chain is built in arrays of the queue pair, so nothing is allocated. All functions may be called
//! under a spinlock.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    mem::{
        dma::Direction,
        exposure::Exposure,
        memory_region::MemoryRegion,
        page_region::PageRegion, //
    },
    send::{
        buffer::SendBuffer,
        chain_buffers::ChainBuffers,
        claim::Claim,
        request::Request, //
    },
};
use core::{
    cell::Cell,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Range, //
};
use kernel::prelude::*;

/// The start of a segment of the peer's memory.
#[derive(Clone, Copy)]
pub struct Remote {
    /// The key (handle) of the segment.
    pub key: u32,
    /// The address of the first byte, as the peer has declared it.
    pub addr: u64,
}

/// The kind of an RDMA operation.
#[derive(Clone, Copy)]
pub enum Rdma {
    /// Reads the peer's memory into local memory.
    Read,
    /// Writes local memory to the peer's memory.
    Write,
}

/// The content of a Send.
pub struct Message<'a, R> {
    /// The buffer that the message begins in, with a transport header for example.
    pub buffer: &'a SendBuffer,
    /// Bytes of the buffer that are sent.
    pub len: usize,
    /// Ranges of the byte stream of a page region, in bytes, which follow the buffer.
    pub rest: Option<(&'a PageRegion, R)>,
    /// The remote key that the peer's device invalidates when it receives the message.
    pub invalidate: Option<u32>,
}

/// A chain of work requests under construction.
///
/// Memory that the chain names is borrowed for `'m`, which is the borrow of the
/// [`Work`](crate::send::work::Work) that is being built. The [`SendQueue`](crate::send::queue::SendQueue)
/// owns that work until the device no longer uses the memory.
pub struct Chain<'b, 'm> {
    buffers: &'b mut ChainBuffers,
    /// The memory region that this chain and earlier ones of the same work register.
    claim: &'b mut Claim,
    /// Makes the chain invariant in `'m`, so that `'m` can be neither shortened nor extended.
    _memory: PhantomData<Cell<&'m ()>>,
}

impl<'b, 'm> Chain<'b, 'm> {
    /// Begins an empty chain in `buffers` for the work that `claim` belongs to. Its work requests
    /// get the slots from `slot` on.
    #[inline]
    pub(crate) fn begin(buffers: &'b mut ChainBuffers, claim: &'b mut Claim, slot: usize) -> Self {
        buffers.clear(slot);
        Self {
            buffers,
            claim,
            _memory: PhantomData,
        }
    }

    /// Returns the number of work requests in the chain.
    #[inline]
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Returns true if there is no work request in the chain.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of the RDMA Reads in the chain.
    #[inline]
    pub fn bytes_read(&self) -> u32 {
        self.buffers.bytes_read()
    }

    /// Returns true if there is no room for another work request.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.buffers.is_full()
    }

    /// Registers the memory region of `page_region`, which is the sink of RDMA Reads that follow.
    /// Adds work requests until the chain has `room` of them.
    ///
    /// Returns true if the memory region is registered completely, by this chain and earlier ones
    /// of the same work, or if the page region has none. Otherwise the caller calls this again with
    /// a later chain, and adds no Reads before.
    pub fn register(&mut self, page_region: &'m PageRegion, room: usize) -> bool {
        let Some((memory_region, pages)) = page_region.memory_region(self.buffers.pd()) else {
            return true;
        };
        if !self.claim.take(memory_region) {
            return false;
        }
        let access = memory_region.sink_access();
        while !memory_region.is_registered(pages) {
            if !self.add_registration(memory_region, access, room) {
                return false;
            }
            self.claim.on_registration();
        }
        true
    }

    /// Registers the memory of `exposure`: the peer may use it as soon as the device has executed the
    /// work requests, before they complete. Adds work requests until the chain has `room` of them. A
    /// message behind them may name the segments.
    ///
    /// Returns true if all of it is registered, by this chain and earlier ones. Otherwise the caller
    /// calls this again with a later chain. Returns false for ever if the exposure is of another
    /// connection, or once [`Self::revoke`] was called for it.
    #[must_use]
    pub fn expose<A>(&mut self, exposure: &'m Exposure<A>, room: usize) -> bool {
        let memory_region = exposure.memory_region(self.buffers.pd());
        let Some(memory_region) = memory_region.filter(|_| !exposure.is_ending()) else {
            return false;
        };
        while !memory_region.is_registered(exposure.pages()) {
            if !self.add_registration(memory_region, exposure.flags(), room) {
                return false;
            }
        }
        true
    }

    /// Invalidates the memory of `exposure`. Adds work requests until the chain has `room` of them. The
    /// peer cannot reach the memory any more when the work has completed, and
    /// [`Exposure::into_region`] returns the pages then.
    ///
    /// Returns true if all of it is invalidated, by this chain and earlier ones of the same work, or if
    /// nothing is registered. Otherwise the caller calls this again with a later chain. Returns false
    /// for ever if the exposure is of another connection, or if the work revokes another exposure or
    /// reads into registered memory.
    #[must_use]
    pub fn revoke<A>(&mut self, exposure: &'m Exposure<A>, room: usize) -> bool {
        let Some(memory_region) = exposure.memory_region(self.buffers.pd()) else {
            return false;
        };
        if memory_region.is_idle() {
            return true;
        }
        exposure.end();
        if !self.claim.take_exposed(memory_region) {
            return false;
        }
        self.add_invalidations(memory_region, room, 0)
    }

    /// Adds a work request that registers the next MR of `memory_region`. Returns false if the chain
    /// has `room` work requests or is full, or if there is no MR left.
    fn add_registration(
        &mut self,
        memory_region: &'m MemoryRegion,
        access: u32,
        room: usize,
    ) -> bool {
        if self.len() >= room || self.is_full() {
            return false;
        }
        let Some(wr) = memory_region.next_registration(access) else {
            return false;
        };
        let start = self.buffers.start();
        self.buffers.add(Request::reg(wr), start);
        true
    }

    /// Invalidates the memory region of `page_region` behind the RDMA Reads into it. Adds work
    /// requests until the chain has `room` of them. The first one is fenced: the device executes it
    /// when all Reads are done.
    ///
    /// Returns true if the memory region is invalidated completely, by this chain and earlier ones
    /// of the same work, or if the page region has none. Otherwise the caller calls this again with
    /// a later chain.
    pub fn invalidate(&mut self, page_region: &'m PageRegion, room: usize) -> bool {
        let Some((memory_region, _)) = page_region.memory_region(self.buffers.pd()) else {
            return true;
        };
        if !self.claim.take(memory_region) {
            return false;
        }
        // CAST: A flag.
        let fence = bindings::ib_send_flags_IB_SEND_FENCE as c_int;
        self.add_invalidations(memory_region, room, fence)
    }

    /// Adds work requests that invalidate the MRs of `memory_region`, which the work has claimed, until
    /// the chain has `room` of them. The first one for the memory region has the flags `first`. Returns
    /// true if all MRs are invalidated, by this chain and earlier ones of the same work.
    fn add_invalidations(
        &mut self,
        memory_region: &'m MemoryRegion,
        room: usize,
        first: c_int,
    ) -> bool {
        while !memory_region.is_invalidated() {
            if self.len() >= room || self.is_full() {
                return false;
            }
            let Some(next) = memory_region.next_invalidation() else {
                return false;
            };
            let mut wr = Request::new(bindings::ib_wr_opcode_IB_WR_LOCAL_INV);
            wr.common().ex.invalidate_rkey = ManuallyDrop::new(next.key);
            if next.is_first {
                wr.common().send_flags = first;
            }
            let start = self.buffers.start();
            self.buffers.add(wr, start);
        }
        self.claim.on_all_invalidated();
        true
    }

    /// Adds an RDMA operation between `remote` and up to `len` bytes of `page_region` from byte
    /// `at` on.
    ///
    /// Returns the number of bytes that the work request moves. It is less than `len` if the bytes
    /// need more scatter/gather entries than a work request may have; the caller adds another
    /// operation for the rest. It is 0, and nothing is added, if the chain is full, or if the page
    /// region is not mapped for this protection domain and direction.
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
        let range = at..at.saturating_add(len);
        let (opcode, direction) = match rdma {
            Rdma::Read => (
                bindings::ib_wr_opcode_IB_WR_RDMA_READ,
                Direction::FromDevice,
            ),
            Rdma::Write => (bindings::ib_wr_opcode_IB_WR_RDMA_WRITE, Direction::ToDevice),
        };
        let entries = buffers.entries_for(page_region, direction, range);
        if entries.len > 0 {
            // The chain borrows the page region, whose segments the entries may be.
            buffers.add_with(Request::rdma(opcode, remote.addr, remote.key), entries);
            if let Rdma::Read = rdma {
                // CAST: A page region has fewer than 2^32 bytes.
                buffers.count_read(entries.len as u32);
            }
        }
        entries.len
    }

    /// Adds an RDMA Write of no bytes, which needs no memory on either side. Its completion stands
    /// for all work requests that were posted before. Returns false if the chain is full.
    #[inline]
    pub(crate) fn mark(&mut self) -> bool {
        let has_room = !self.is_full();
        if has_room {
            let start = self.buffers.start();
            let wr = Request::rdma(bindings::ib_wr_opcode_IB_WR_RDMA_WRITE, 0, 0);
            self.buffers.add(wr, start);
        }
        has_room
    }

    /// Adds a Send. The part of `message` in the send buffer is synced for the device now.
    ///
    /// Returns false, and adds nothing, if the chain is full, if the message needs more
    /// scatter/gather entries than a work request may have, or if its memory is not mapped for this
    /// protection domain.
    #[inline]
    pub fn send<R: Iterator<Item = Range<usize>>>(&mut self, message: Message<'m, R>) -> bool {
        if self.is_full() {
            return false;
        }
        let buffers = &mut *self.buffers;
        let start = buffers.start();
        let Some((addr, len)) = message.buffer.sync(buffers.pd(), message.len) else {
            return false;
        };
        // A message without bytes needs no entry.
        let mut is_whole = len == 0 || buffers.sge(addr, len);
        if let Some((page_region, ranges)) = message.rest {
            for range in ranges {
                let len = range.end.saturating_sub(range.start);
                is_whole = is_whole && buffers.add_source(page_region, range, start) == len;
            }
        }
        if !is_whole {
            buffers.truncate(start);
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

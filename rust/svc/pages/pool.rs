// SPDX-License-Identifier: GPL-2.0

//! Pool: the objects that the Calls of a device's connections borrow.
//!
//! - *Pages* are the sinks of RDMA Reads. nfsd takes the pages of a Call and leaves other pages in
//!   their place, which come back to the pool. The pool makes at most `read_pages_per_device`.
//! - *Page regions* hold references to pages, and their DMA mapping. There are small and large
//!   ones.
//! - *Memory regions* register pages for RDMA Reads where the device needs that.
//! - *Reply contexts* have a send buffer each.
//!
//! Completions only take free objects and never allocate. If a Call finds too few, its connection
//! waits in the line of its peer's class until it has its turn, and the refill makes more. nfsd
//! threads may sleep, so they allocate what the pool lacks.
//!
//! # Locking
//!
//! One spinlock, a leaf. Objects are made, mapped, unmapped and freed without it.
//!
//! # Context
//!
//! Any process context; functions that may sleep say so.

use super::{
    line::Lines,
    read_buffer::ReadBuffer,
    reply::Reply,
    sizes::{
        MAX_FREE,
        MAX_FREE_MEMORY_REGIONS,
        REPLY_WATERMARK,
        RESERVE_REPLIES, //
    },
    stock::{
        new_memory_regions,
        new_page_region,
        Count,
        Stock, //
    },
};
use crate::svc::{
    counters,
    settings::ReadPages, //
};
use core::pin::Pin;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
};
use rdma::{
    device::Pd,
    mem::{
        memory_region::{
            Kind,
            MemoryRegion, //
        },
        page_region::PageRegion, //
    },
    send::buffer::SendBuffer, //
};
use support::{
    page::Effort,
    stream::Stream, //
};
use svcrdma_proto::shares::PeerClass;

/// The pool of a device. The device owns it.
pub(crate) struct Pool {
    pub(crate) inner: Pin<KBox<SpinLock<Stock>>>,
    /// True if Calls wait that may take what lanes keep. Changed under the lock, read without.
    has_parked: AtomicFlag,
    /// The most pages that a connection of each class may have. Changed under the lock, read
    /// without.
    shares: [Atomic<u64>; 2],
}

impl Pool {
    /// Creates an empty pool. May sleep.
    pub(crate) fn new() -> Result<Self> {
        let inner = Stock {
            pages: Stream::empty(),
            total: 0,
            min_free: 0,
            small: KVec::with_capacity(MAX_FREE, GFP_KERNEL)?,
            large: KVec::with_capacity(MAX_FREE, GFP_KERNEL)?,
            replies: KVec::with_capacity(MAX_FREE, GFP_KERNEL)?,
            lines: Lines::new(),
            no_memory: false,
            has_warned: false,
            unparking: false,
            pd: None,
            registers: None,
            small_memory_regions: KVec::new(),
            large_memory_regions: KVec::new(),
        };
        Ok(Self {
            inner: KBox::pin_init(new_spinlock!(inner, "svcrdma pool"), GFP_KERNEL)?,
            has_parked: AtomicFlag::new(false),
            shares: [Atomic::new(0), Atomic::new(0)],
        })
    }

    /// Returns true if Calls wait that may take what lanes keep, so that the pool must get all
    /// of that. Takes no lock.
    pub(crate) fn has_parked(&self) -> bool {
        self.has_parked.load(Relaxed)
    }

    /// Returns the most pages that a connection of `class` may have. Takes no lock.
    pub(crate) fn share(&self, class: PeerClass) -> usize {
        let [validated, unvalidated] = &self.shares;
        let share = match class {
            PeerClass::Validated => validated,
            PeerClass::Unvalidated => unvalidated,
        };
        usize::try_from(share.load(Relaxed)).unwrap_or(usize::MAX)
    }

    /// Makes the present state of the lines known to those who read it without the lock. Called
    /// under the lock after each change of the lines.
    pub(crate) fn publish(&self, inner: &mut Stock) {
        let limits = ReadPages::now();
        self.has_parked
            .store(inner.lines.wait_for_others(limits), Relaxed);
        for (share, class) in self.shares.iter().zip(PeerClass::ALL) {
            let pages = inner.lines.of(class).share(limits);
            share.store(pages as u64, Relaxed);
        }
    }

    /// Starts lending objects for the device of `pd`. `registers` is the kind of memory regions
    /// that RDMA Reads need, if any. May sleep.
    ///
    /// # Errors
    ///
    /// - `ENOMEM`.
    /// - An error of the driver that makes memory regions.
    pub(crate) fn open(&self, pd: &Arc<Pd>, registers: Option<Kind>) -> Result {
        if registers.is_some() {
            self.make_room_for_memory_regions()?;
        }
        let replies = Reply::several(pd, RESERVE_REPLIES)?;
        let memory_regions = new_memory_regions(pd, registers)?;
        self.fill()?;
        {
            let mut inner = self.inner.lock();
            inner.pd = Some(pd.clone());
            inner.registers = registers;
            self.publish(&mut inner);
        }
        self.put_replies(replies);
        for memory_region in memory_regions {
            self.put_memory_region(memory_region);
        }
        Ok(())
    }

    /// Allocates the lists of free memory regions, which few devices need. May sleep.
    fn make_room_for_memory_regions(&self) -> Result {
        let small = KVec::with_capacity(MAX_FREE_MEMORY_REGIONS, GFP_KERNEL)?;
        let large = KVec::with_capacity(MAX_FREE_MEMORY_REGIONS, GFP_KERNEL)?;
        let mut inner = self.inner.lock();
        inner.small_memory_regions = small;
        inner.large_memory_regions = large;
        Ok(())
    }

    /// Stops lending objects, and frees those that refer to the device. Pages and page regions stay
    /// until the pool is dropped. No connection waits any more. May sleep.
    pub(crate) fn close(&self) {
        let pd = self.inner.lock().pd.take();
        drop(pd);
        loop {
            let mut inner = self.inner.lock();
            let reply = inner.replies.pop();
            let small = inner.small_memory_regions.pop();
            let large = inner.large_memory_regions.pop();
            drop(inner);
            if reply.is_none() && small.or(large).is_none() {
                return;
            }
        }
    }

    /// Returns the protection domain, or None if the pool is not open.
    pub(crate) fn pd(&self) -> Option<Arc<Pd>> {
        self.inner.lock().pd.clone()
    }

    /// Returns a context for nfsd's Reply to a connection that has none idle, allocating one if the
    /// pool is down to [`REPLY_WATERMARK`]. In an nfsd thread; may sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the pool is not open, `ENOMEM`, or an error of the DMA mapping.
    pub(crate) fn reply(&self) -> Result<KBox<Reply>> {
        if let Some(reply) = self.take_reply(REPLY_WATERMARK) {
            return Ok(reply);
        }
        counters::POOL_MISSES.inc();
        let pd = self.pd().ok_or(ENODEV)?;
        // Try hard: nfsd has executed the Call, which is in vain if the Reply cannot be sent.
        Reply::new(SendBuffer::new(&pd, Effort::Full)?)
    }

    /// Returns a context for a callback, unless the pool has none. In any process context.
    pub(crate) fn callback(&self) -> Option<KBox<Reply>> {
        self.take_reply(0)
    }

    /// Takes a context if the pool has more than `watermark`.
    fn take_reply(&self, watermark: usize) -> Option<KBox<Reply>> {
        let mut inner = self.inner.lock();
        let is_enough = inner.replies.len() > watermark;
        is_enough.then(|| inner.replies.pop()).flatten()
    }

    /// Returns a context to the pool, with the large page region that it may have.
    pub(crate) fn put_reply(&self, mut reply: KBox<Reply>) {
        if let Some(page_region) = reply.clear() {
            self.put_page_region(page_region);
        }
        let mut inner = self.inner.lock();
        let over = if inner.pd.is_some() && inner.replies.len() < MAX_FREE {
            inner.replies.push_within_capacity(reply).err().map(|e| e.0)
        } else {
            Some(reply)
        };
        drop(inner);
        drop(over);
    }

    /// Adds new contexts to the pool.
    pub(crate) fn put_replies(&self, replies: KVec<KBox<Reply>>) {
        for reply in replies {
            self.put_reply(reply);
        }
    }

    /// Returns a page region for `pages` pages, allocating one if the pool has none. In an nfsd
    /// thread; may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn page_region(&self, pages: usize) -> Result<KBox<PageRegion>> {
        // The last one is for a Call that waits for Reads while memory is short.
        let spare = {
            let mut inner = self.inner.lock();
            let free = inner.page_regions(pages);
            (free.len() > 1).then(|| free.pop()).flatten()
        };
        if let Some(page_region) = spare {
            return Ok(page_region);
        }
        counters::POOL_MISSES.inc();
        new_page_region(pages).or_else(|e| self.inner.lock().page_regions(pages).pop().ok_or(e))
    }

    /// Returns a page region to the pool, releases the pages in it, and starts waiting Calls that
    /// need it. In any process context.
    pub(crate) fn put_page_region(&self, page_region: KBox<PageRegion>) {
        if self.keep_page_region(page_region) {
            self.unpark();
        }
    }

    /// Returns a page region to the stock, and releases the pages in it. Returns true if Calls wait.
    pub(crate) fn keep_page_region(&self, mut page_region: KBox<PageRegion>) -> bool {
        page_region.stream_mut().clear();
        let mut inner = self.inner.lock();
        let over = inner.keep_page_region(page_region);
        let is_wanted = !inner.lines.are_empty();
        drop(inner);
        drop(over);
        is_wanted
    }

    /// Takes back a sink whose pages nobody else uses, and starts waiting Calls that need
    /// them. In any process context.
    pub(crate) fn put_sink(&self, sink: ReadBuffer) {
        self.keep_sink(sink);
        self.unpark();
    }

    /// Returns the memory region of `sink` to the pool, if the sink has one, and starts waiting
    /// Calls that need it. The device must have completed all RDMA Reads into the sink. In any
    /// process context.
    ///
    /// Returns true if Calls still wait. The refill may then be able to make the memory
    /// region that one of them needs.
    pub(crate) fn take_memory_region(&self, sink: &mut PageRegion) -> bool {
        let taken = sink.take_memory_region();
        taken.is_some_and(|memory_region| self.put_memory_region(memory_region))
    }

    /// Adds a memory region to the stock and starts waiting Calls. Returns true if Calls still
    /// wait.
    fn put_memory_region(&self, memory_region: KBox<MemoryRegion>) -> bool {
        let mut inner = self.inner.lock();
        let over = inner.keep_memory_region(memory_region);
        let is_wanted = !inner.lines.are_empty();
        drop(inner);
        drop(over);
        if is_wanted {
            self.unpark();
        }
        is_wanted && !self.inner.lock().lines.are_empty()
    }

    /// Destroys the free memory regions that were used for the connection `user`, which has ended.
    /// Returns true if Calls wait, for which the device may have room now. May sleep.
    pub(crate) fn forget(&self, user: u64) -> bool {
        loop {
            let memory_region = self.inner.lock().take_used_by(user);
            if memory_region.is_none() {
                return !self.inner.lock().lines.are_empty();
            }
        }
    }

    /// Returns the pages and the memory region of a Read buffer to the stock.
    pub(crate) fn keep_sink(&self, read_buffer: ReadBuffer) {
        let (mut sink, class, pages) = read_buffer.end();
        if let Some(mut memory_region) = sink.take_memory_region() {
            // The region comes back without a completion of Reads, so its connection may be gone
            // and [`Self::forget`] may have run. A region that no peer knows is free for any
            // connection; another one is destroyed.
            if !memory_region.is_known() {
                memory_region.set_user(None);
                self.put_memory_region(memory_region);
            }
        }
        // Outside the lock.
        sink.unmap();
        let mut inner = self.inner.lock();
        inner.lines.of(class).release(pages);
        self.publish(&mut inner);
        let stream = sink.stream_mut();
        if stream.is_fresh() {
            stream.move_to(&mut inner.pages, stream.len());
        }
        let lost = stream.len();
        inner.total = inner.total.saturating_sub(lost);
        let rest = match lost {
            0 => inner.keep_page_region(sink),
            _ => Some(sink),
        };
        drop(inner);
        drop(rest);
    }

    /// Notes that `pages` lent pages will not come back.
    pub(crate) fn lost_pages(&self, pages: usize) {
        if pages == 0 {
            return;
        }
        let mut inner = self.inner.lock();
        inner.total = inner.total.saturating_sub(pages);
    }

    /// Returns the numbers of objects, for debugfs.
    pub(crate) fn count(&self) -> Count {
        self.inner.lock().count()
    }
}

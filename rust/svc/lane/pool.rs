// SPDX-License-Identifier: GPL-2.0

//! Pool: what the connections of a device borrow while a Call runs.
//!
//! - *Pages*, sinks of RDMA Reads. They leave with a Call, are exchanged for pages of the nfsd
//!   thread, and those come back. There are at most `read_pages_per_device`.
//! - *Page regions*, room for page references and their mappings, small or large.
//! - *Replies*, each with a send buffer.
//!
//! Completions take what is there and never allocate: a Call that finds too little waits in the `line`
//! of its peer's standing, first come first served, and `refill` makes more. nfsd threads may sleep, so they make
//! what is missing by themselves. Everything goes back to the pool and is used again.

use super::{
    line::{
        Line,
        Lines, //
    },
    loan::Loan,
    reply::Reply,
    sizes::{
        FOR_CALLBACKS,
        FOR_OTHERS,
        KEEP,
        LARGE,
        MEMORY_REGIONS,
        REPLIES,
        SMALL, //
    },
    stock::{
        new_memory_regions,
        Count,
        Pages,
        Stock,
        Wanted, //
    },
    waiter::Waiter, //
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
        Arc,
        SpinLock, //
    },
};
use rdma::{
    device::Pd,
    memory_region::{
        Kind,
        MemoryRegion, //
    },
    page_region::PageRegion,
    send_buffer::SendBuffer, //
};
use support::{
    page::Effort,
    ring::Refused, //
};
use svcrdma_proto::shares::Standing;

/// The pool of a device.
pub(crate) struct Pool<W> {
    pub(super) inner: Pin<KBox<SpinLock<Stock<W>>>>,
}

impl<W: Waiter> Pool<W> {
    /// Makes empty pool. May sleep.
    pub(crate) fn new() -> Result<Self> {
        let inner = Stock {
            pages: Pages::new(KVVec::new()),
            total: 0,
            spare: 0,
            small: KVec::with_capacity(KEEP, GFP_KERNEL)?,
            large: KVec::with_capacity(KEEP, GFP_KERNEL)?,
            replies: KVec::with_capacity(KEEP, GFP_KERNEL)?,
            lines: Lines::new(),
            no_memory: false,
            told: false,
            serving: false,
            pd: None,
            registers: None,
            small_memory_regions: KVec::new(),
            large_memory_regions: KVec::new(),
        };
        Ok(Self {
            inner: KBox::pin_init(new_spinlock!(inner, "svcrdma pool"), GFP_KERNEL)?,
        })
    }

    /// Begins to lend for a device; with `registers`, sinks are registered memory. May sleep.
    pub(crate) fn open(&self, pd: &Arc<Pd>, registers: Option<Kind>) -> Result {
        if registers.is_some() {
            self.make_room_for_memory_regions()?;
        }
        let rooms = [Line::room()?, Line::room()?];
        let replies = Reply::several(pd, REPLIES)?;
        let memory_regions = new_memory_regions(pd, registers)?;
        self.fill()?;
        {
            let mut inner = self.inner.lock();
            inner.pd = Some(pd.clone());
            inner.registers = registers;
        }
        for (standing, room) in Standing::ALL.into_iter().zip(rooms) {
            // Not under the lock.
            let before = self.inner.lock().lines.of(standing).open(room);
            drop(before);
        }
        self.put_replies(replies);
        for memory_region in memory_regions {
            self.put_memory_region(memory_region);
        }
        Ok(())
    }

    fn make_room_for_memory_regions(&self) -> Result {
        let small = KVec::with_capacity(MEMORY_REGIONS, GFP_KERNEL)?;
        let large = KVec::with_capacity(MEMORY_REGIONS, GFP_KERNEL)?;
        let mut inner = self.inner.lock();
        inner.small_memory_regions = small;
        inner.large_memory_regions = large;
        Ok(())
    }

    /// Lends no more, and frees what is the device's; pages and page regions stay until these pool go.
    pub(crate) fn close(&self) {
        let pd = self.inner.lock().pd.take();
        drop(pd);
        loop {
            let mut inner = self.inner.lock();
            let call = inner.next_waiting();
            let reply = inner.replies.pop();
            let small = inner.small_memory_regions.pop();
            let large = inner.large_memory_regions.pop();
            drop(inner);
            if call.is_none() && reply.is_none() && small.or(large).is_none() {
                return;
            }
        }
    }

    /// The protection domain, until the pool are closed.
    pub(crate) fn pd(&self) -> Option<Arc<Pd>> {
        self.inner.lock().pd.clone()
    }

    /// A reply. In an nfsd thread: may sleep.
    pub(crate) fn reply(&self) -> Result<KBox<Reply>> {
        if let Some(reply) = self.take_reply(FOR_OTHERS) {
            return Ok(reply);
        }
        counters::POOL_MISSES.inc();
        let pd = self.pd().ok_or(ENODEV)?;
        // nfsd has done what was asked for: a reply that cannot be sent is its work in vain.
        Reply::new(SendBuffer::new(&pd, Effort::Full)?)
    }

    /// A reply for an answer to what cannot be decoded, if there is one. In a completion.
    pub(crate) fn answer(&self) -> Option<KBox<Reply>> {
        self.take_reply(FOR_CALLBACKS)
    }

    /// A reply for a Call to a client, if there is one. In any process context.
    pub(crate) fn callback(&self) -> Option<KBox<Reply>> {
        self.take_reply(0)
    }

    /// A reply, if there are more than `left`.
    fn take_reply(&self, left: usize) -> Option<KBox<Reply>> {
        let mut inner = self.inner.lock();
        let is_enough = inner.replies.len() > left;
        is_enough.then(|| inner.replies.pop()).flatten()
    }

    /// Takes a reply back.
    pub(crate) fn put_reply(&self, mut reply: KBox<Reply>) {
        if let Some(page_region) = reply.clear() {
            self.put_page_region(page_region);
        }
        let mut inner = self.inner.lock();
        let over = match inner.pd.is_some() && inner.replies.len() < KEEP {
            true => inner.replies.push_within_capacity(reply).err().map(|e| e.0),
            false => Some(reply),
        };
        drop(inner);
        drop(over);
    }

    /// Takes new ones.
    pub(crate) fn put_replies(&self, replies: KVec<KBox<Reply>>) {
        for reply in replies {
            self.put_reply(reply);
        }
    }

    /// A page region with room for `pages` pages. In an nfsd thread: may sleep.
    pub(crate) fn page_region(&self, pages: usize) -> Result<KBox<PageRegion>> {
        let page_region = self.inner.lock().page_regions(pages).pop();
        if let Some(page_region) = page_region {
            return Ok(page_region);
        }
        counters::POOL_MISSES.inc();
        new_page_region(pages)
    }

    /// Takes a page region back; pages that are in it are released. Serves who waits for it. In any
    /// process context.
    pub(crate) fn put_page_region(&self, mut page_region: KBox<PageRegion>) {
        page_region.stream_mut().clear();
        let mut inner = self.inner.lock();
        let over = inner.keep(page_region);
        let is_wanted = !inner.lines.are_empty();
        drop(inner);
        drop(over);
        if is_wanted {
            self.serve();
        }
    }

    /// Takes back a sink whose pages are free to be used again, and serves who waits for them. In
    /// any process context.
    pub(crate) fn put_sink(&self, sink: Loan) {
        self.keep_sink(sink);
        self.serve();
    }

    /// Takes back the memory region of `sink`, which nothing reads into any more, if it has one, and
    /// serves who waits for it. Whether others wait, who may have another one in its room. In any
    /// process context.
    pub(crate) fn take_memory_region(&self, sink: &mut PageRegion) -> bool {
        let taken = sink.take_memory_region();
        taken.is_some_and(|memory_region| self.put_memory_region(memory_region))
    }

    /// Takes a memory region back, and serves who waits for it; whether others wait.
    fn put_memory_region(&self, memory_region: KBox<MemoryRegion>) -> bool {
        let mut inner = self.inner.lock();
        let over = inner.keep_memory_region(memory_region);
        let is_wanted = !inner.lines.are_empty();
        drop(inner);
        drop(over);
        if is_wanted {
            self.serve();
        }
        is_wanted && !self.inner.lock().lines.are_empty()
    }

    /// Drops the memory regions that were used for the connection with this number, which has ended.
    /// Whether Calls wait, for whom there may be room now. May sleep.
    pub(crate) fn forget(&self, user: u64) -> bool {
        loop {
            let memory_region = self.inner.lock().next_used(user);
            if memory_region.is_none() {
                return !self.inner.lock().lines.are_empty();
            }
        }
    }

    fn keep_sink(&self, loan: Loan) {
        let (mut sink, standing, pages) = loan.end();
        if let Some(mut memory_region) = sink.take_memory_region() {
            // It was not used for this Call, whose connection may be forgotten already: of one that was
            // used for an earlier one a peer knows the key.
            if !memory_region.is_known() {
                memory_region.set_user(None);
                self.put_memory_region(memory_region);
            }
        }
        // Not under the lock.
        sink.unmap();
        let (mut inner, mut over) = (self.inner.lock(), None);
        inner.lines.of(standing).put(pages);
        while let Some(page) = sink.stream_mut().pop() {
            if let Err(page) = inner.pages.push(page) {
                inner.total = inner.total.saturating_sub(1);
                over = Some(page);
                break;
            }
        }
        let lost = sink.stream_mut().pages().len();
        inner.total = inner.total.saturating_sub(lost);
        let rest = match lost {
            0 => inner.keep(sink),
            _ => Some(sink),
        };
        drop(inner);
        drop((over, rest));
    }

    /// Says that `pages` pages which were lent will not come back.
    pub(crate) fn lost_pages(&self, pages: usize) {
        let mut inner = self.inner.lock();
        inner.total = inner.total.saturating_sub(pages);
    }

    /// A sink for `call`, or the Call waits for one. Returns the Call when it cannot even wait.
    pub(crate) fn sink(&self, call: W) -> Sink<W> {
        let mut inner = self.inner.lock();
        if inner.pd.is_none() {
            return Sink::Refused(Refused::Closed(call));
        }
        let standing = call.standing();
        if inner.is_first(standing, ReadPages::now(), call.pages()) {
            if let Some(sink) = inner.lend(standing, Wanted::by(&call)) {
                return Sink::Ready(call, sink);
            }
        }
        match inner.lines.of(standing).wait(call) {
            Ok(()) => Sink::Waits,
            Err(call) => Sink::Refused(Refused::Full(call)),
        }
    }

    /// Starts the Reads of Calls that waited, as long as there are pages for the first that may have some.
    pub(crate) fn serve(&self) {
        if core::mem::replace(&mut self.inner.lock().serving, true) {
            return;
        }
        while let Some(served) = self.next_served() {
            match served {
                (call, Some(sink)) => {
                    if let Some(sink) = call.start(sink) {
                        self.keep_sink(sink);
                    }
                }
                (call, None) => call.give_up(),
            }
        }
    }

    /// The next Call with its sink, or without one if its connection closes.
    fn next_served(&self) -> Option<(W, Option<Loan>)> {
        let mut inner = self.inner.lock();
        let served = inner.take_served(ReadPages::now());
        // Under the lock that found nothing more to serve: whoever comes now serves by himself.
        inner.serving = served.is_some();
        served
    }

    /// What is in them.
    pub(crate) fn count(&self) -> Count {
        self.inner.lock().count()
    }
}

/// What became of a request for a sink.
pub(crate) enum Sink<W> {
    /// There is one.
    Ready(W, Loan),
    /// The Call waits and will be started.
    Waits,
    /// Too many wait, or the device is gone and all its connections close.
    Refused(Refused<W>),
}

/// An empty page region with room for `pages` pages. May sleep.
pub(crate) fn new_page_region(pages: usize) -> Result<KBox<PageRegion>> {
    PageRegion::with_capacity(room_for(pages))
}

/// The room of a page region for `pages` pages.
pub(crate) fn room_for(pages: usize) -> usize {
    match pages <= SMALL {
        true => SMALL,
        false => LARGE.max(pages),
    }
}

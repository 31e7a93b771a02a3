// SPDX-License-Identifier: GPL-2.0

//! The refill: makes the objects that the pool lends, and frees those that were not needed.
//!
//! The pool has a reserve of one Call's objects from the first connection on, so that Calls proceed
//! when memory is short. The refill makes more for waiting Calls and restores the reserve. The
//! watchdog frees half of the pages beyond the reserve that were not needed since its last tick.
//!
//! # Context
//!
//! The workqueue, the watchdog, and for the first connection of a device the thread that accepts
//! it. All may sleep. Objects are made and freed without the lock of the pool.

use super::{
    pool::Pool,
    reply::Reply,
    sizes::{
        size_for,
        LARGE,
        MAX_FREE,
        MAX_FREE_MEMORY_REGIONS,
        RESERVE_REPLIES,
        SMALL, //
    },
    stock::{
        new_page_region, //
        Demand,
    },
};
use crate::svc::settings::{
    self,
    ReadPages, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    device::Pd,
    mem::memory_region::{
        Kind,
        MemoryRegion, //
    },
};
use sunrpc::class::MAX_PAYLOAD;
use support::{
    page::{
        Effort,
        FreshPage,
        PAGE_SIZE, //
    },
    stream::Stream, //
};

/// Pages that exist from the first connection on and are never trimmed: those of the largest Call,
/// 4 MiB.
const RESERVE_PAGES: usize = LARGE;

// nfsd takes as many pages with a Call (`svc_serv_maxpages` in include/linux/sunrpc/svc.h).
const _: () = assert!(RESERVE_PAGES == MAX_PAYLOAD / PAGE_SIZE + 4);

// No value of `read_pages_per_device` starves the largest Call.
const _: () = assert!(RESERVE_PAGES <= settings::MIN_READ_PAGES as usize);

/// Small page regions of the reserve, which also has a large one.
const RESERVE_PAGE_REGIONS: usize = 16;

// The stock has room for the regions of the reserve, and for those that `trim` retains.
const _: () = assert!(SMALL < LARGE && RESERVE_PAGE_REGIONS <= MAX_FREE);
const _: () = assert!(RETAINED_MEMORY_REGIONS <= MAX_FREE_MEMORY_REGIONS);

/// Free memory regions of a size that `trim` retains.
const RETAINED_MEMORY_REGIONS: usize = 64;

/// Pages that the refill makes before it tries again to unpark Calls, which may need fewer by then.
const BATCH: usize = 64;

impl Pool {
    /// Makes the page regions of the reserve, and as many of its pages as memory allows. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if a page region cannot be allocated.
    pub(crate) fn fill(&self) -> Result {
        let (small, large) = {
            let inner = self.inner.lock();
            let small = RESERVE_PAGE_REGIONS.saturating_sub(inner.small.len());
            (small, usize::from(inner.large.is_empty()))
        };
        for (count, size) in [(small, SMALL), (large, LARGE)] {
            for _ in 0..count {
                self.put_page_region(new_page_region(size)?);
            }
        }
        // The watchdog has the missing pages made.
        let _ = self.refill_reserve();
        Ok(())
    }

    /// Restores the reserve: pages, and regions of each size. May sleep.
    fn refill_reserve(&self) -> Result {
        self.make_regions(Demand::reserve(SMALL))?;
        self.make_regions(Demand::reserve(LARGE))?;
        let missing = RESERVE_PAGES.saturating_sub(self.inner.lock().total);
        self.make_pages(missing)
    }

    /// Restores the reply contexts, warns once if memory for pages is short, and returns true if
    /// the refill should run. The watchdog calls this. May sleep.
    pub(crate) fn check_reserve(&self) -> bool {
        self.refill_replies();
        let mut inner = self.inner.lock();
        let is_new = inner.no_memory && !inner.has_warned;
        inner.has_warned = inner.no_memory;
        let is_open = inner.pd.is_some();
        let has_reserve = inner.total >= RESERVE_PAGES
            && inner.has_regions(Demand::reserve(SMALL))
            && inner.has_regions(Demand::reserve(LARGE));
        let needs_refill = inner.no_memory || !inner.lines.are_empty() || !has_reserve;
        drop(inner);
        if is_new {
            pr_warn!("Read chunks: no memory for more pages or regions, Calls may wait\n");
        }
        is_open && needs_refill
    }

    /// Restores the free reply contexts, which completions take but cannot make. May sleep.
    fn refill_replies(&self) {
        let (missing, pd) = {
            let inner = self.inner.lock();
            let missing = RESERVE_REPLIES.saturating_sub(inner.replies.len());
            (missing, inner.pd.clone())
        };
        // The protection domain is missing before the first connection. After an allocation failure the next
        // tick tries again.
        if let Some(Ok(replies)) = pd.map(|pd| Reply::several(&pd, missing)) {
            self.put_replies(replies);
        }
    }

    /// Makes pages and regions until no Call waits or the limit is reached, and restores the
    /// reserve. On the workqueue.
    pub(crate) fn refill(&self) {
        // After an error the waiting Calls start when lent pages come back, and the next tick of the
        // watchdog queues the refill again.
        let made = self
            .refill_for_parked()
            .and_then(|()| self.refill_reserve());
        self.inner.lock().no_memory = made.is_err();
        // The refill may have made some objects before the error.
        self.unpark();
    }

    /// Makes what waiting Calls need. Stops when all that is left to do is to wait for returned
    /// pages.
    fn refill_for_parked(&self) -> Result {
        loop {
            self.unpark();
            let Some((demand, missing)) = self.next_shortfall() else {
                return Ok(());
            };
            // Without a new region the Call takes a returned one, and must then find all its pages.
            let made = self.make_regions(demand);
            self.make_pages(match made {
                Ok(()) => missing.min(BATCH),
                Err(_) => missing,
            })?;
            made?;
        }
    }

    /// Returns what the next Call that may start lacks, and how many of its pages can be made.
    /// Returns None if there is no such Call, or if it must wait for returned pages.
    fn next_shortfall(&self) -> Option<(Demand, usize)> {
        let mut inner = self.inner.lock();
        let limits = ReadPages::now();
        let room = limits.device.saturating_sub(inner.total);
        let (_, demand) = inner.next_demand(limits)?;
        let missing = demand.pages.saturating_sub(inner.pages.len()).min(room);
        (missing > 0 || !inner.has_regions(demand)).then_some((demand, missing))
    }

    /// Makes `count` pages. May sleep.
    fn make_pages(&self, count: usize) -> Result {
        for missing in (1..=count).rev() {
            let mut page = FreshPage::new(Effort::Little)?;
            while let Err(homeless) = self.add_page(page) {
                page = homeless;
                self.make_room(missing)?;
            }
        }
        Ok(())
    }

    /// Adds a page to the stock. Returns the page if the stock lacks room: there must be room for
    /// each page, lent ones included, because the return of a page must not fail. Room and pages
    /// are compared under one lock, because two refills may run at a time.
    fn add_page(&self, page: FreshPage) -> Result<(), FreshPage> {
        let mut inner = self.inner.lock();
        if inner.total >= inner.pages.capacity() {
            return Err(page);
        }
        inner.pages.push(page)?;
        inner.total = inner.total.saturating_add(1);
        Ok(())
    }

    /// Allocates room for all present pages and `more`. May sleep.
    fn make_room(&self, more: usize) -> Result {
        let total = self.inner.lock().total.saturating_add(more);
        let room = total.checked_next_power_of_two().ok_or(ENOMEM)?;
        let wider = Stream::with_capacity(room)?;
        let unused = self.inner.lock().pages.widen(wider);
        drop(unused);
        Ok(())
    }

    /// Makes the page region and the memory region for `demand` that the stock lacks. May sleep.
    fn make_regions(&self, demand: Demand) -> Result {
        let pages = demand.pages;
        let (has_page_region, kind, pd) = {
            let mut inner = self.inner.lock();
            let has_memory_region = inner.has_memory_region(demand);
            let kind = inner.registers.filter(|_| !has_memory_region);
            (
                !inner.page_regions(pages).is_empty(),
                kind,
                inner.pd.clone(),
            )
        };
        if !has_page_region {
            let page_region = new_page_region(pages)?;
            let over = self.inner.lock().keep_page_region(page_region);
            drop(over);
        }
        if let (Some(kind), Some(pd)) = (kind, pd) {
            let memory_region = self.new_memory_region(&pd, kind, demand)?;
            let over = self.inner.lock().keep_memory_region(memory_region);
            drop(over);
        }
        Ok(())
    }

    /// Allocates a memory region. A device may have few of them, so for a waiting Call idle ones are
    /// destroyed until the allocation succeeds. May sleep.
    fn new_memory_region(
        &self,
        pd: &Arc<Pd>,
        kind: Kind,
        demand: Demand,
    ) -> Result<KBox<MemoryRegion>> {
        loop {
            let made = MemoryRegion::new(pd, kind, size_for(demand.pages));
            let idle = match &made {
                // These errors mean a broken or removed device, not a lack of regions.
                Ok(_) | Err(EIO | ENODEV) => None,
                Err(_) => self.inner.lock().reclaim_idle(demand),
            };
            if idle.is_none() {
                return made;
            }
        }
    }

    /// Frees half of the pages that were not needed since the last call, and half of the free
    /// memory regions beyond [`RETAINED_MEMORY_REGIONS`]. Frees nothing while Calls wait. May sleep.
    pub(crate) fn trim(&self) {
        if !self.inner.lock().lines.are_empty() {
            return;
        }
        self.trim_pages();
        for size in [SMALL, LARGE] {
            let kept = self.inner.lock().memory_regions(size).len();
            for _ in 0..kept.saturating_sub(RETAINED_MEMORY_REGIONS).div_ceil(2) {
                let memory_region = self.inner.lock().memory_regions(size).pop();
                drop(memory_region);
            }
        }
    }

    /// Frees half of the pages that stayed free since the last call, but none of the reserve.
    fn trim_pages(&self) {
        let count = {
            let mut inner = self.inner.lock();
            let spare = inner
                .min_free
                .min(inner.pages.len().saturating_sub(RESERVE_PAGES));
            inner.min_free = inner.pages.len();
            spare.div_ceil(2)
        };
        for _ in 0..count {
            let mut inner = self.inner.lock();
            let page = inner.pages.pop();
            inner.total = inner.total.saturating_sub(usize::from(page.is_some()));
            drop(inner);
            drop(page);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The refill: makes what the pool of a device lend, and frees what was not needed.
//!
//! It runs on our workqueue, and for the first connection of a device in the thread that accepts
//! it. It may sleep: under the pool' lock things are only put in and taken out. What is there
//! with the first connection is enough for any one Call, so that Calls go on when there is no memory.
//! Pages beyond that which were not needed since the last tick of the watchdog are freed, half of
//! them at a time.

use super::{
    pool::{
        new_page_region,
        room_for,
        Pool, //
    },
    reply::Reply,
    sizes::{
        KEEP,
        LARGE,
        MEMORY_REGIONS,
        REPLIES,
        SMALL, //
    },
    stock::Wanted,
    waiter::Waiter, //
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
    memory_region::{
        Kind,
        MemoryRegion, //
    },
};
use sunrpc::class::MAX_PAYLOAD;
use support::page::{
    Effort,
    FreshPage,
    PAGE_SIZE, //
};

/// Pages that are there from the first connection on, and are not freed: those of the largest Call,
/// 4 MiB.
const PAGES: usize = LARGE;

// nfsd takes as many pages with a Call (`svc_serv_maxpages` in include/linux/sunrpc/svc.h).
const _: () = assert!(PAGES == MAX_PAYLOAD / PAGE_SIZE + 4);

// Whatever an admin sets, the largest Call gets its pages in the end.
const _: () = assert!(PAGES <= settings::MIN_READ_PAGES as usize);

/// Small page regions that are made with them, beside a large one.
const PAGE_REGIONS: usize = 16;

// Page regions and memory regions that are made beforehand, or are not freed, are also kept.
const _: () =
    assert!(SMALL < LARGE && PAGE_REGIONS <= KEEP && KEEP_MEMORY_REGIONS <= MEMORY_REGIONS);

/// Memory regions of a size that are kept when nobody needs them.
const KEEP_MEMORY_REGIONS: usize = 64;

/// Pages that the refill makes between two looks at the queue of waiting Calls.
const BATCH: usize = 64;

impl<W: Waiter> Pool<W> {
    /// Makes the page regions that are there from the first connection on, and pages as far as there is
    /// memory. May sleep.
    pub(crate) fn fill(&self) -> Result {
        let (small, large) = {
            let inner = self.inner.lock();
            let small = PAGE_REGIONS.saturating_sub(inner.small.len());
            (small, usize::from(inner.large.is_empty()))
        };
        for (count, size) in [(small, SMALL), (large, LARGE)] {
            for _ in 0..count {
                self.put_page_region(new_page_region(size)?);
            }
        }
        // What is missing the watchdog has made.
        let _ = self.restore();
        Ok(())
    }

    /// Makes what is there without being waited for: pages, and a page region of each size. May sleep.
    fn restore(&self) -> Result {
        self.make_page_region(Wanted::by_any(SMALL))?;
        self.make_page_region(Wanted::by_any(LARGE))?;
        let missing = PAGES.saturating_sub(self.inner.lock().total);
        self.make_pages(missing)
    }

    /// The watchdog looks after these: returns whether something is to be refilled. May sleep.
    pub(crate) fn look(&self) -> bool {
        self.top_up();
        let mut inner = self.inner.lock();
        let is_new = inner.no_memory && !inner.told;
        inner.told = inner.no_memory;
        let is_open = inner.pd.is_some();
        let has_reserve = inner.total >= PAGES
            && inner.has_page_region(Wanted::by_any(SMALL))
            && inner.has_page_region(Wanted::by_any(LARGE));
        let needs_refill = inner.no_memory || !inner.lines.are_empty() || !has_reserve;
        drop(inner);
        if is_new {
            pr_warn!("Read chunks: no memory for more pages or regions, Calls may wait\n");
        }
        is_open && needs_refill
    }

    /// Makes replies that completions have taken, as they cannot make any. May sleep.
    fn top_up(&self) {
        let (missing, pd) = {
            let inner = self.inner.lock();
            let missing = REPLIES.saturating_sub(inner.replies.len());
            (missing, inner.pd.clone())
        };
        // There is none before there is hardware. What there is no memory for waits for the next
        // tick.
        if let Some(Ok(replies)) = pd.map(|pd| Reply::several(&pd, missing)) {
            self.put_replies(replies);
        }
    }

    /// Makes pages and page regions until no Call waits or the limit is reached. On our workqueue.
    pub(crate) fn refill(&self) {
        // Without memory pages that are lent will come back and serve the Call; the next tick tries
        // again.
        let made = self.make_for_waiting().and_then(|()| self.restore());
        self.inner.lock().no_memory = made.is_err();
        // Some may have been made before it failed.
        self.serve();
    }

    fn make_for_waiting(&self) -> Result {
        loop {
            self.serve();
            let Some((wanted, missing)) = self.shortage() else {
                return Ok(());
            };
            // Another page region may come back, and then finds all pages.
            let made = self.make_page_region(wanted);
            self.make_pages(match made {
                Ok(()) => missing.min(BATCH),
                Err(_) => missing,
            })?;
            made?;
        }
    }

    /// What the first Call needs that may go on, and how many of its pages can be made; none when there
    /// is no such Call, or when all that can be done is to wait.
    fn shortage(&self) -> Option<(Wanted, usize)> {
        let mut inner = self.inner.lock();
        let limits = ReadPages::now();
        let room = limits.device.saturating_sub(inner.total);
        let (_, wanted) = inner.next_allowed(limits)?;
        let missing = wanted.pages.saturating_sub(inner.pages.len()).min(room);
        (missing > 0 || !inner.has_page_region(wanted)).then_some((wanted, missing))
    }

    /// Adds `count` pages. May sleep.
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

    /// Adds a page. Gives it back if there is no room for all pages, lent ones included: taking one back
    /// must never fail. Refills may run at the same time, so room and number are looked at under one
    /// lock.
    fn add_page(&self, page: FreshPage) -> Result<(), FreshPage> {
        let mut inner = self.inner.lock();
        if inner.total >= inner.pages.capacity() {
            return Err(page);
        }
        inner.pages.push(page)?;
        inner.total = inner.total.saturating_add(1);
        Ok(())
    }

    /// Makes room for `more` pages beside all that there are. May sleep.
    fn make_room(&self, more: usize) -> Result {
        let total = self.inner.lock().total.saturating_add(more);
        let room = total.checked_next_power_of_two().ok_or(ENOMEM)?;
        let mut wider = KVVec::with_capacity(room, GFP_KERNEL)?;
        for _ in 0..room {
            wider.push(None, GFP_KERNEL)?;
        }
        let unused = self.inner.lock().pages.widen(wider);
        drop(unused);
        Ok(())
    }

    /// Adds a page region of that size, and a memory region that the user may have, if there is none. May
    /// sleep.
    fn make_page_region(&self, wanted: Wanted) -> Result {
        let pages = wanted.pages;
        let (has_page_region, kind, pd) = {
            let mut inner = self.inner.lock();
            let has_memory_region = inner.has_memory_region(wanted);
            let kind = inner.registers.filter(|_| !has_memory_region);
            (
                !inner.page_regions(pages).is_empty(),
                kind,
                inner.pd.clone(),
            )
        };
        if !has_page_region {
            let page_region = new_page_region(pages)?;
            let over = self.inner.lock().keep(page_region);
            drop(over);
        }
        if let (Some(kind), Some(pd)) = (kind, pd) {
            let memory_region = self.new_memory_region(&pd, kind, wanted)?;
            let over = self.inner.lock().keep_memory_region(memory_region);
            drop(over);
        }
        Ok(())
    }

    /// A memory region, for a Call if need be in the room of those that idle: a device can have so many
    /// regions. May sleep.
    fn new_memory_region(
        &self,
        pd: &Arc<Pd>,
        kind: Kind,
        wanted: Wanted,
    ) -> Result<KBox<MemoryRegion>> {
        loop {
            let made = MemoryRegion::new(pd, kind, room_for(wanted.pages));
            let idle = match &made {
                // A device that is broken or gone has no room for another one either.
                Ok(_) | Err(EIO | ENODEV) => None,
                Err(_) => self.inner.lock().next_idle(wanted),
            };
            if idle.is_none() {
                return made;
            }
        }
    }

    /// Frees what was not needed since the last tick, half of it at a time. May sleep.
    pub(crate) fn trim(&self) {
        self.trim_pages();
        for size in [SMALL, LARGE] {
            let kept = self.inner.lock().memory_regions(size).len();
            for _ in 0..kept.saturating_sub(KEEP_MEMORY_REGIONS).div_ceil(2) {
                let memory_region = self.inner.lock().memory_regions(size).pop();
                drop(memory_region);
            }
        }
    }

    fn trim_pages(&self) {
        let count = {
            let mut inner = self.inner.lock();
            let spare = inner.spare.min(inner.pages.len().saturating_sub(PAGES));
            inner.spare = inner.pages.len();
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

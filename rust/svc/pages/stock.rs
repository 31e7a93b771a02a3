// SPDX-License-Identifier: GPL-2.0

//! Stock: the data under the lock of the pool.
//!
//! The functions here run under a spinlock, so they neither allocate nor free nor sleep. They
//! return the objects that they have no room for, and the caller drops these after it has released
//! the lock.

use super::{
    line::{
        Lines,
        Waiter, //
    },
    read_buffer::ReadBuffer,
    reply::Reply,
    sizes::{
        size_for,
        LARGE,
        MAX_FREE,
        SMALL, //
    }, //
};
use crate::svc::settings::ReadPages;
use kernel::{
    prelude::*,
    sync::Arc, //
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
};
use support::stream::Stream;
use svcrdma_proto::{
    shares::PeerClass,
    shortage::{
        keeps_last,
        Awaited, //
    }, //
};

/// The data under the lock of the pool.
pub(crate) struct Stock {
    /// The free pages. There is room for all `total` pages, so a returned page always fits.
    pub(crate) pages: Stream,
    /// The number of pages that the pool has made, lent ones included.
    pub(crate) total: usize,
    /// The smallest number of free pages since the last [`trim`](super::pool::Pool::trim).
    pub(crate) min_free: usize,
    /// Free page regions of [`SMALL`] pages.
    pub(crate) small: KVec<KBox<PageRegion>>,
    /// Free page regions of [`LARGE`] pages or more.
    pub(crate) large: KVec<KBox<PageRegion>>,
    /// Free reply contexts.
    pub(crate) replies: KVec<KBox<Reply>>,
    /// The waiting connections.
    pub(crate) lines: Lines,
    /// True if the last refill failed for lack of memory.
    pub(crate) no_memory: bool,
    /// True if the log has a warning about `no_memory`.
    pub(crate) has_warned: bool,
    /// True while a thread unparks Calls. Starting a Call may return pages, and a thread that
    /// returns pages unparks Calls: the flag keeps that from recursing.
    pub(crate) unparking: bool,
    /// The protection domain, which send buffers and memory regions need. None before the first
    /// connection and after the device was removed.
    pub(crate) pd: Option<Arc<Pd>>,
    /// The kind of memory regions that RDMA Reads need. None if the device reads into local memory.
    pub(crate) registers: Option<Kind>,
    /// Free memory regions of [`SMALL`] pages.
    pub(crate) small_memory_regions: KVec<KBox<MemoryRegion>>,
    /// Free memory regions of [`LARGE`] pages or more.
    pub(crate) large_memory_regions: KVec<KBox<MemoryRegion>>,
}

/// The objects that the Read chunks of a Call need: pages, a page region for them, and a memory
/// region where the device needs one.
#[derive(Clone, Copy)]
pub(crate) struct Demand {
    /// The number of pages.
    pub(crate) pages: usize,
    /// The number of the Call's connection. None for the reserve, which any connection may use.
    pub(crate) user: Option<u64>,
}

impl Demand {
    /// Returns the demand for a reserve of regions for `pages` pages.
    pub(crate) fn reserve(pages: usize) -> Self {
        Self { pages, user: None }
    }
}

/// A connection that has left its line.
pub(crate) enum Unparked {
    /// The first waiting Call starts, with this sink.
    Ready(Waiter, ReadBuffer),
    /// The connection is closing.
    Closing(Waiter),
}

/// The numbers of the pool's objects, for debugfs.
pub(crate) struct Count {
    /// Pages that the pool has made, lent ones included.
    pub(crate) pages: usize,
    /// Free pages.
    pub(crate) pages_free: usize,
    /// Connections whose Calls wait for pages.
    pub(crate) waiting: usize,
    /// Free reply contexts.
    pub(crate) replies: usize,
    /// Pages that are lent to Calls of peers that nfsd has not validated.
    pub(crate) unvalidated: usize,
    /// Connections of such peers whose Calls wait for pages.
    pub(crate) unvalidated_waiting: usize,
}

impl Stock {
    /// Returns the numbers of objects.
    pub(crate) fn count(&mut self) -> Count {
        let unvalidated = self.lines.of(PeerClass::Unvalidated);
        Count {
            unvalidated: unvalidated.lent(),
            unvalidated_waiting: unvalidated.len(),
            pages: self.total,
            pages_free: self.pages.len(),
            waiting: self.lines.len(),
            replies: self.replies.len(),
        }
    }

    /// Returns the free page regions for `pages` pages.
    pub(crate) fn page_regions(&mut self, pages: usize) -> &mut KVec<KBox<PageRegion>> {
        if pages <= SMALL {
            &mut self.small
        } else {
            &mut self.large
        }
    }

    /// Returns the free memory regions for `pages` pages.
    pub(crate) fn memory_regions(&mut self, pages: usize) -> &mut KVec<KBox<MemoryRegion>> {
        if pages <= SMALL {
            &mut self.small_memory_regions
        } else {
            &mut self.large_memory_regions
        }
    }

    /// Returns the index of a memory region for `demand`: the last one that was used for the same
    /// connection, or the last unused one. No other connection may have a used one, because its
    /// peer can guess the next key from the last.
    fn find_memory_region(&mut self, demand: Demand) -> Option<usize> {
        let kept = self.memory_regions(demand.pages);
        last_of(kept, demand.user).or_else(|| last_of(kept, None))
    }

    /// Returns true if the stock has a memory region for `demand`, or if the device needs none.
    pub(crate) fn has_memory_region(&mut self, demand: Demand) -> bool {
        self.registers.is_none() || self.find_memory_region(demand).is_some()
    }

    /// Takes a memory region for `demand` and dedicates it to the connection.
    fn take_memory_region(&mut self, demand: Demand) -> Option<KBox<MemoryRegion>> {
        let at = self.find_memory_region(demand)?;
        let mut memory_region = self.memory_regions(demand.pages).remove(at).ok()?;
        memory_region.set_user(demand.user);
        Some(memory_region)
    }

    /// Takes a memory region that was used for the connection `user`.
    pub(crate) fn take_used_by(&mut self, user: u64) -> Option<KBox<MemoryRegion>> {
        [SMALL, LARGE].into_iter().find_map(|pages| {
            let kept = self.memory_regions(pages);
            let at = last_of(kept, Some(user))?;
            kept.remove(at).ok()
        })
    }

    /// Takes an idle memory region whose destruction gives the device room for the one that a Call
    /// needs. A used one is taken first, because its connection can get another; the unused ones
    /// left are of the other size. Returns None for a reserve, which does not justify the
    /// destruction.
    pub(crate) fn reclaim_idle(&mut self, demand: Demand) -> Option<KBox<MemoryRegion>> {
        demand.user?;
        let used = [SMALL, LARGE].into_iter().find_map(|pages| {
            let kept = self.memory_regions(pages);
            let at = kept.iter().position(|one| one.user().is_some())?;
            kept.remove(at).ok()
        });
        used.or_else(|| self.small_memory_regions.pop())
            .or_else(|| self.large_memory_regions.pop())
    }

    /// Returns true if the stock has all regions for `demand`; pages are not considered.
    pub(crate) fn has_regions(&mut self, demand: Demand) -> bool {
        !self.page_regions(demand.pages).is_empty() && self.has_memory_region(demand)
    }

    /// Lends a page region with the pages of `demand`, which count in the line of `class`.
    /// Returns None if a page or a region is missing.
    pub(crate) fn lend(&mut self, class: PeerClass, demand: Demand) -> Option<ReadBuffer> {
        let sink = self.take_sink(demand)?;
        Some(self.lines.of(class).lend(sink, demand.pages))
    }

    /// Takes the page region, fills it with pages and attaches the memory region.
    fn take_sink(&mut self, demand: Demand) -> Option<KBox<PageRegion>> {
        let left = self.pages.len().checked_sub(demand.pages)?;
        if self.page_regions(demand.pages).is_empty() {
            return None;
        }
        let memory_region = match self.registers {
            Some(_) => Some(self.take_memory_region(demand)?),
            None => None,
        };
        let mut sink = self.page_regions(demand.pages).pop()?;
        if let Some(memory_region) = memory_region {
            sink.set_memory_region(memory_region);
        }
        // The page region has room for all of them.
        self.pages.move_to(sink.stream_mut(), demand.pages);
        self.min_free = self.min_free.min(left);
        Some(sink)
    }

    /// Takes the first connection whose Call may start out of its line. Returns None if no Call may
    /// start, or if the stock lacks something that the first one needs: validated peers have
    /// precedence, so no other Call is tried.
    pub(crate) fn unpark(&mut self, limits: ReadPages) -> Option<Unparked> {
        let (class, demand) = self.next_demand(limits)?;
        if let Some(waiter) = self.lines.of(class).take_closing() {
            return Some(Unparked::Closing(waiter));
        }
        let read_buffer = self.lend(class, demand)?;
        let waiter = self.lines.of(class).serve()?;
        Some(Unparked::Ready(waiter, read_buffer))
    }

    /// Returns the demand of the first Call that may start once its pages and regions are in stock,
    /// and the line of its connection. Such a Call fits into the budget of the line, or its
    /// connection is closing.
    pub(crate) fn next_demand(&mut self, limits: ReadPages) -> Option<(PeerClass, Demand)> {
        PeerClass::ALL.into_iter().find_map(|class| {
            let line = self.lines.of(class);
            let first = line.waiting.first()?;
            let demand = Demand {
                pages: first.pages as usize,
                user: Some(first.owner),
            };
            let may_go = first.item.connection.is_closing() || line.fits(limits, demand.pages);
            may_go.then_some((class, demand))
        })
    }

    /// Adds a free memory region. Returns the region that has been in stock longest if there are
    /// too many: a waiting Call may need the new one.
    pub(crate) fn keep_memory_region(
        &mut self,
        memory_region: KBox<MemoryRegion>,
    ) -> Option<KBox<MemoryRegion>> {
        if self.pd.is_none() {
            return Some(memory_region);
        }
        let kept = self.memory_regions(memory_region.capacity());
        let Err(e) = kept.push_within_capacity(memory_region) else {
            return None;
        };
        let oldest = kept.remove(0).ok();
        let over = kept.push_within_capacity(e.0).err().map(|e| e.0);
        over.or(oldest)
    }

    /// Adds an empty page region. Returns it if there are enough of its size.
    pub(crate) fn keep_page_region(
        &mut self,
        page_region: KBox<PageRegion>,
    ) -> Option<KBox<PageRegion>> {
        let kept = self.page_regions(page_region.capacity());
        if kept.len() < MAX_FREE {
            kept.push_within_capacity(page_region).err().map(|e| e.0)
        } else {
            Some(page_region)
        }
    }

    /// Lends a page region to a Call of `class` that does not wait. Returns None if the Call must wait:
    /// connections wait in its line, a validated peer could take the pages, or something is missing.
    pub(crate) fn lend_first(&mut self, class: PeerClass, demand: Demand) -> Option<ReadBuffer> {
        let limits = ReadPages::now();
        let line = self.lines.of(class);
        let may_go = line.is_empty() && line.fits(limits, demand.pages);
        let first = &self.lines.validated;
        let is_first =
            class == PeerClass::Validated || first.is_empty() || first.is_blocked(limits);
        if may_go && is_first {
            self.lend(class, demand)
        } else {
            None
        }
    }

    /// Returns true if Calls wait for pages that connections of `class` hold: the budget of
    /// that line is used up, or there is no memory for new pages.
    pub(crate) fn is_short(&mut self, class: PeerClass, limits: ReadPages) -> bool {
        let lines = &mut self.lines;
        self.no_memory && keeps_last(class, |line| !lines.of(line).is_empty())
            || lines.of(class).is_blocked(limits)
    }

    /// Returns the origin of the pages that waiting Calls of `class` need.
    pub(crate) fn awaited(&mut self, class: PeerClass, limits: ReadPages) -> Awaited {
        // No page can be made: memory is short, or the limit was lowered below the pages that
        // exist.
        let is_exhausted = self.no_memory || self.total >= limits.device;
        match (self.lines.of(class).is_blocked(limits), is_exhausted) {
            (true, _) => Awaited::Own,
            (false, true) => Awaited::Any,
            (false, false) => Awaited::New,
        }
    }
}

/// Returns the index of the last memory region that was used for `user`, or of the last unused one
/// for None.
fn last_of(kept: &[KBox<MemoryRegion>], user: Option<u64>) -> Option<usize> {
    let is_one = |&at: &usize| kept.get(at).is_some_and(|one| one.user() == user);
    (0..kept.len()).rev().find(is_one)
}

/// Allocates an empty page region for `pages` pages. May sleep.
pub(crate) fn new_page_region(pages: usize) -> Result<KBox<PageRegion>> {
    PageRegion::with_capacity(size_for(pages))
}

/// Allocates one memory region of each size if the device needs them: enough for any one Call. May
/// sleep.
pub(crate) fn new_memory_regions(
    pd: &Arc<Pd>,
    registers: Option<Kind>,
) -> Result<KVec<KBox<MemoryRegion>>> {
    let mut memory_regions = KVec::new();
    if let Some(kind) = registers {
        for size in [SMALL, LARGE] {
            memory_regions.push(MemoryRegion::new(pd, kind, size)?, GFP_KERNEL)?;
        }
    }
    Ok(memory_regions)
}

// SPDX-License-Identifier: GPL-2.0

//! Stock: what is in the pool of a device, and who waits for it.
//!
//! Nothing here allocates, frees or sleeps, as it is done under the pool' spinlock: what there is
//! no room for is given back to the caller.

use super::{
    line::{
        Awaited,
        Lines, //
    },
    loan::Loan,
    reply::Reply,
    sizes::{
        KEEP,
        LARGE,
        SMALL, //
    },
    waiter::Waiter, //
};
use crate::svc::settings::ReadPages;
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
    page_region::PageRegion, //
};
use support::page::FreshPage;
use svcrdma_proto::{
    shares::Standing,
    stack::Stack, //
};

/// Pages that nobody uses.
pub(crate) type Pages = Stack<KVVec<Option<FreshPage>>>;

/// What the lock of the pool protects.
pub(crate) struct Stock<W> {
    pub(crate) pages: Pages,
    /// Pages that exist for this pool, lent ones included.
    pub(crate) total: usize,
    /// The least number of pages that were here since the last tick.
    pub(crate) spare: usize,
    pub(crate) small: KVec<KBox<PageRegion>>,
    pub(crate) large: KVec<KBox<PageRegion>>,
    pub(crate) replies: KVec<KBox<Reply>>,
    /// The Calls that wait.
    pub(crate) lines: Lines<W>,
    /// Whether the last refill has found no memory.
    pub(crate) no_memory: bool,
    /// Whether the log says so.
    pub(crate) told: bool,
    /// Whether somebody serves these: serving one may give pages back, and must not serve the next.
    pub(crate) serving: bool,
    /// Where send buffers are made; gone when the device is.
    pub(crate) pd: Option<Arc<Pd>>,
    /// How memory is registered for a device that reads into such only.
    pub(crate) registers: Option<Kind>,
    pub(crate) small_memory_regions: KVec<KBox<MemoryRegion>>,
    pub(crate) large_memory_regions: KVec<KBox<MemoryRegion>>,
}

/// What is wanted for Reads.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) pages: usize,
    /// The number of the connection; none if it is for any.
    pub(crate) user: Option<u64>,
}

impl Wanted {
    /// Returns what `call` wants.
    pub(crate) fn by(call: &impl Waiter) -> Self {
        Self {
            pages: call.pages(),
            user: Some(call.user()),
        }
    }

    /// What any Call of up to so many pages may want.
    pub(crate) fn by_any(pages: usize) -> Self {
        Self { pages, user: None }
    }
}

/// What is in the pool.
pub(crate) struct Count {
    /// Pages that exist for Read chunks.
    pub(crate) pages: usize,
    /// Those of them that nobody uses.
    pub(crate) pages_free: usize,
    /// Calls that wait for pages.
    pub(crate) waiting: usize,
    /// Send contexts that nobody uses.
    pub(crate) replies: usize,
    /// Pages that Calls of peers have which nfsd has not validated, and how many of these Calls wait.
    pub(crate) unvalidated: usize,
    pub(crate) unvalidated_waiting: usize,
}

impl<W: Waiter> Stock<W> {
    /// How much there is.
    pub(crate) fn count(&mut self) -> Count {
        let unvalidated = self.lines.of(Standing::Unvalidated);
        Count {
            unvalidated: unvalidated.lent(),
            unvalidated_waiting: unvalidated.len(),
            pages: self.total,
            pages_free: self.pages.len(),
            waiting: self.lines.waiting(),
            replies: self.replies.len(),
        }
    }

    /// Takes a Call that waits.
    pub(crate) fn next_waiting(&mut self) -> Option<W> {
        let mut lines = Standing::ALL.into_iter();
        lines.find_map(|standing| self.lines.of(standing).pop())
    }

    pub(crate) fn page_regions(&mut self, pages: usize) -> &mut KVec<KBox<PageRegion>> {
        match pages <= SMALL {
            true => &mut self.small,
            false => &mut self.large,
        }
    }

    pub(crate) fn memory_regions(&mut self, pages: usize) -> &mut KVec<KBox<MemoryRegion>> {
        match pages <= SMALL {
            true => &mut self.small_memory_regions,
            false => &mut self.large_memory_regions,
        }
    }

    /// Where a memory region is that the user may have: of its own, or one that nobody has used.
    fn find_memory_region(&mut self, wanted: Wanted) -> Option<usize> {
        let kept = self.memory_regions(wanted.pages);
        last_of(kept, wanted.user).or_else(|| last_of(kept, None))
    }

    /// Whether there is one, if one is needed.
    pub(crate) fn has_memory_region(&mut self, wanted: Wanted) -> bool {
        self.registers.is_none() || self.find_memory_region(wanted).is_some()
    }

    fn take_memory_region(&mut self, wanted: Wanted) -> Option<KBox<MemoryRegion>> {
        let at = self.find_memory_region(wanted)?;
        let mut memory_region = self.memory_regions(wanted.pages).remove(at).ok()?;
        memory_region.set_user(wanted.user);
        Some(memory_region)
    }

    /// Takes a memory region that was used for `user`.
    pub(crate) fn next_used(&mut self, user: u64) -> Option<KBox<MemoryRegion>> {
        [SMALL, LARGE].into_iter().find_map(|pages| {
            let kept = self.memory_regions(pages);
            let at = last_of(kept, Some(user))?;
            kept.remove(at).ok()
        })
    }

    /// Takes a memory region that idles, for the device to have room for what a Call wants and is not
    /// here: the first one that was used, as its user can get another one; or one that was not, which is
    /// of the other size. None to have something in reserve.
    pub(crate) fn next_idle(&mut self, wanted: Wanted) -> Option<KBox<MemoryRegion>> {
        wanted.user?;
        let used = [SMALL, LARGE].into_iter().find_map(|pages| {
            let kept = self.memory_regions(pages);
            let at = kept.iter().position(|one| one.user().is_some())?;
            kept.remove(at).ok()
        });
        used.or_else(|| self.small_memory_regions.pop())
            .or_else(|| self.large_memory_regions.pop())
    }

    /// Whether all that such a sink needs is here, but for the pages.
    pub(crate) fn has_page_region(&mut self, wanted: Wanted) -> bool {
        !self.page_regions(wanted.pages).is_empty() && self.has_memory_region(wanted)
    }

    /// A page region with the pages in it, if there is all that it needs; they count for `standing`.
    pub(crate) fn lend(&mut self, standing: Standing, wanted: Wanted) -> Option<Loan> {
        let sink = self.take_sink(wanted)?;
        Some(self.lines.of(standing).lend(sink, wanted.pages))
    }

    fn take_sink(&mut self, wanted: Wanted) -> Option<KBox<PageRegion>> {
        let left = self.pages.len().checked_sub(wanted.pages)?;
        if self.page_regions(wanted.pages).is_empty() {
            return None;
        }
        let memory_region = match self.registers {
            Some(_) => Some(self.take_memory_region(wanted)?),
            None => None,
        };
        let mut sink = self.page_regions(wanted.pages).pop()?;
        if let Some(memory_region) = memory_region {
            sink.set_memory_region(memory_region);
        }
        for _ in 0..wanted.pages {
            if let Some(page) = self.pages.pop() {
                // `sink` has room for as many.
                let _ = sink.stream_mut().push(page);
            }
        }
        self.spare = self.spare.min(left);
        Some(sink)
    }

    /// The first Call that the budgets allow to go on, with its sink if that is here; or a Call whose
    /// connection closes, without one.
    pub(crate) fn take_served(&mut self, limits: ReadPages) -> Option<(W, Option<Loan>)> {
        let (standing, wanted) = self.next_allowed(limits)?;
        let is_worthwhile = self.lines.of(standing).front()?.is_worthwhile();
        let loan = match is_worthwhile {
            true => Some(self.lend(standing, wanted)?),
            false => None,
        };
        let call = self.lines.of(standing).pop()?;
        Some((call, loan))
    }

    /// What the first Call wants that may go on, if the rest is here: one that the budget of its peer's
    /// standing allows for, or whose connection closes.
    pub(crate) fn next_allowed(&mut self, limits: ReadPages) -> Option<(Standing, Wanted)> {
        Standing::ALL.into_iter().find_map(|standing| {
            let line = self.lines.of(standing);
            let call = line.front()?;
            let (wanted, is_worthwhile) = (Wanted::by(call), call.is_worthwhile());
            let may_go = !is_worthwhile || line.fits(limits, wanted.pages);
            may_go.then_some((standing, wanted))
        })
    }

    /// Keeps a memory region for its user. Gives one back when there are enough: that which was here
    /// longest, as this one may be what a Call waits for.
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

    /// Keeps an empty page region for the next user, or gives it back when there are enough.
    pub(crate) fn keep(&mut self, page_region: KBox<PageRegion>) -> Option<KBox<PageRegion>> {
        let kept = self.page_regions(page_region.capacity());
        match kept.len() < KEEP {
            true => kept.push_within_capacity(page_region).err().map(|e| e.0),
            false => Some(page_region),
        }
    }

    /// Returns true if a Call of `standing` and `pages` pages need not wait for another one: those of
    /// validated peers have precedence in what there is.
    pub(crate) fn is_first(&mut self, standing: Standing, limits: ReadPages, pages: usize) -> bool {
        let line = self.lines.of(standing);
        let may_go = line.is_empty() && line.fits(limits, pages);
        let first = &mut self.lines.validated;
        may_go && (standing == Standing::Validated || first.is_empty() || first.is_blocked(limits))
    }

    /// Returns true if Calls wait for pages of the line of `standing`: no more of it may be lent, or none
    /// can be made, for whatever line.
    pub(crate) fn is_short(&mut self, standing: Standing, limits: ReadPages) -> bool {
        let no_memory = self.no_memory && !self.lines.are_empty();
        no_memory || self.lines.of(standing).is_blocked(limits)
    }

    /// Returns whose pages Calls of `standing` wait for.
    pub(crate) fn awaited(&mut self, standing: Standing, limits: ReadPages) -> Awaited {
        // No more pages can be made: there is no memory, or the limit was lowered while others had them.
        let is_exhausted = self.no_memory || self.total >= limits.device;
        match (self.lines.of(standing).is_blocked(limits), is_exhausted) {
            (true, _) => Awaited::Of(standing),
            (false, true) => Awaited::Any,
            (false, false) => Awaited::New,
        }
    }
}

/// Where the last of those memory regions is that were used for this connection, or for none.
fn last_of(kept: &[KBox<MemoryRegion>], user: Option<u64>) -> Option<usize> {
    let is_one = |&at: &usize| kept.get(at).is_some_and(|one| one.user() == user);
    (0..kept.len()).rev().find(is_one)
}

/// Makes a memory region of each size if memory is registered: enough to read any one Call. May sleep.
pub(super) fn new_memory_regions(
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

// SPDX-License-Identifier: GPL-2.0

//! Caches: the idle page regions of a lane, so that Calls rarely borrow from the pool.
//!
//! A cache has two kinds of page regions: sinks, which keep their pages, and large empty regions
//! for Replies. A sink is lent again to a Call that needs as many pages. In the books of the pool
//! the pages of cached sinks stay lent to validated peers. So the pool alone divides the pages
//! between peers, and takes back what caches hold as soon as a Call has to wait.
//!
//! # Context
//!
//! Under the lock of the lane; nothing here sleeps, frees memory, or depends on the number of
//! pages.

use super::{
    read_buffer::ReadBuffer,
    sizes::SMALL, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    device::Pd,
    mem::page_region::PageRegion, //
};
use svcrdma_proto::shares::PeerClass;

/// The most sinks of a size that a cache has room for.
const MAX_SINKS: usize = 64;

/// The most empty page regions that a cache has room for.
const MAX_EMPTY: usize = 16;

/// The sinks at the end of a list that are compared with what a Call needs.
const SEARCHED: usize = 4;

/// The idle page regions of a lane. The lock of the lane protects it.
pub(super) struct Cache {
    /// The protection domain, which new mappings need. None once the lane is retired.
    pub(super) pd: Option<Arc<Pd>>,
    /// Sinks of up to [`SMALL`] pages, and larger ones.
    sinks: [KVec<KBox<PageRegion>>; 2],
    /// Pages of the sinks.
    pages: usize,
    /// The fewest sinks since the last look.
    fewest: [usize; 2],
    /// Large empty page regions.
    empty: KVec<KBox<PageRegion>>,
    /// The fewest empty page regions since the last look.
    fewest_empty: usize,
}

/// Returns the index of the list for sinks of `pages` pages.
fn list_of(pages: usize) -> usize {
    usize::from(pages > SMALL)
}

impl Cache {
    /// Creates an empty cache. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(pd: Arc<Pd>) -> Result<Self> {
        Ok(Self {
            pd: Some(pd),
            sinks: [
                KVec::with_capacity(MAX_SINKS, GFP_KERNEL)?,
                KVec::with_capacity(MAX_SINKS, GFP_KERNEL)?,
            ],
            pages: 0,
            fewest: [0; 2],
            empty: KVec::with_capacity(MAX_EMPTY, GFP_KERNEL)?,
            fewest_empty: 0,
        })
    }

    /// Returns the number of pages of the sinks.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// Takes a sink with `pages` pages.
    pub(super) fn take_sink(&mut self, pages: usize) -> Option<ReadBuffer> {
        let list = list_of(pages);
        let sinks = self.sinks.get_mut(list)?;
        let fits = |at: &usize| sinks.get(*at).is_some_and(|sink| sink.pages() == pages);
        let at = (0..sinks.len()).rev().take(SEARCHED).find(fits)?;
        let last = sinks.pop()?;
        // The last sink takes the place of the one at `at`, unless both are the same.
        let sink = match sinks.get_mut(at) {
            Some(place) => core::mem::replace(place, last),
            None => last,
        };
        self.note_taken(list, pages);
        Some(ReadBuffer::new(sink, PeerClass::Validated, pages))
    }

    /// Takes any sink.
    pub(super) fn take_any_sink(&mut self) -> Option<ReadBuffer> {
        let (list, sink) = (0..).zip(&mut self.sinks).find_map(|(list, sinks)| {
            let sink = sinks.pop()?;
            Some((list, sink))
        })?;
        let pages = sink.pages();
        self.note_taken(list, pages);
        Some(ReadBuffer::new(sink, PeerClass::Validated, pages))
    }

    /// Takes a sink that was idle since the last look. The caller repeats this until it returns
    /// None, which ends the look.
    pub(super) fn take_surplus(&mut self) -> Option<ReadBuffer> {
        for (list, sinks) in (0..).zip(&mut self.sinks) {
            let Some(fewest) = self.fewest.get_mut(list) else {
                break;
            };
            let Some(left) = fewest.checked_sub(1) else {
                continue;
            };
            *fewest = left;
            if let Some(sink) = sinks.pop() {
                let pages = sink.pages();
                self.pages = self.pages.saturating_sub(pages);
                return Some(ReadBuffer::new(sink, PeerClass::Validated, pages));
            }
        }
        self.fewest = self.sinks.each_ref().map(|sinks| sinks.len());
        None
    }

    /// Notes that a sink of `pages` pages was taken from list `list`.
    fn note_taken(&mut self, list: usize, pages: usize) {
        self.pages = self.pages.saturating_sub(pages);
        let left = self.sinks.get(list).map_or(0, |sinks| sinks.len());
        if let Some(fewest) = self.fewest.get_mut(list) {
            *fewest = left.min(*fewest);
        }
    }

    /// Keeps an idle sink, unless the cache has `limit` pages already. Returns the sink if it is
    /// not kept.
    pub(super) fn keep_sink(&mut self, sink: ReadBuffer, limit: usize) -> Option<ReadBuffer> {
        let (class, pages) = sink.charge();
        let is_whole = sink.pages() == pages && pages > 0;
        let is_kept = class == PeerClass::Validated && is_whole && self.pages < limit;
        if !is_kept || self.pd.is_none() {
            return Some(sink);
        }
        let Some(sinks) = self.sinks.get_mut(list_of(pages)) else {
            return Some(sink);
        };
        if sinks.len() >= MAX_SINKS {
            return Some(sink);
        }
        let (sink, ..) = sink.end();
        let refused = sinks.push_within_capacity(sink).err();
        // There is room, as was checked.
        if let Some(e) = refused {
            return Some(ReadBuffer::new(e.0, class, pages));
        }
        self.pages = self.pages.saturating_add(pages);
        None
    }

    /// Takes an empty page region for `pages` pages.
    pub(super) fn take_empty(&mut self, pages: usize) -> Option<KBox<PageRegion>> {
        let last = self.empty.last()?;
        if pages <= SMALL || last.capacity() < pages {
            return None;
        }
        let page_region = self.empty.pop();
        self.fewest_empty = self.fewest_empty.min(self.empty.len());
        page_region
    }

    /// Keeps an empty page region. Returns it if it is small or the cache has enough.
    pub(super) fn keep_empty(&mut self, page_region: KBox<PageRegion>) -> Option<KBox<PageRegion>> {
        if page_region.capacity() <= SMALL || self.pd.is_none() {
            return Some(page_region);
        }
        let kept = self.empty.push_within_capacity(page_region);
        kept.err().map(|e| e.0)
    }

    /// Takes an empty page region that was idle since the last look, see [`Self::take_surplus`].
    pub(super) fn take_surplus_empty(&mut self) -> Option<KBox<PageRegion>> {
        match self.fewest_empty.checked_sub(1) {
            Some(fewest) => {
                self.fewest_empty = fewest;
                self.empty.pop()
            }
            None => {
                self.fewest_empty = self.empty.len();
                None
            }
        }
    }

    /// Takes any empty page region.
    pub(super) fn take_any_empty(&mut self) -> Option<KBox<PageRegion>> {
        self.empty.pop()
    }
}

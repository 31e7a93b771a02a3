// SPDX-License-Identifier: GPL-2.0

//! Lanes: the objects that the connections of one completion vector share.
//!
//! A connection stays in its lane. While Calls find what they need in the cache of their lane,
//! their path touches nothing that all CPUs share.
//!
//! A lane is *live* until no connection uses it any more or the device is removed. It is *retired*
//! then: it lends nothing, and is freed when nobody refers to it. A live lane with a failed
//! completion queue gets no more connections.

use super::cqs::Cqs;
use crate::svc::pages::{
    cache::Cache,
    pool::Pool,
    read_buffer::ReadBuffer, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use rdma::{
    cq::{
        Completes,
        CqReservation, //
    },
    device::Pd,
    mem::{
        dma::Direction,
        page_region::PageRegion, //
    },
};

/// A lane: completion queues and idle page regions of the connections on one completion vector.
///
/// # Locking
///
/// A spinlock protects the cache. It is a leaf, and no section depends on the number of pages.
#[pin_data]
pub(crate) struct Lane {
    /// The number of the lane. Each live lane of the device has a different one.
    index: u32,
    /// The most lanes of the device.
    most: u32,
    /// False if RDMA Reads need memory regions, which belong to one connection each.
    keeps_sinks: bool,
    receives: Cqs,
    sends: Cqs,
    #[pin]
    cache: SpinLock<Cache>,
}

impl Lane {
    /// Creates lane `index` of at most `most`, on completion vector `vector`, without completion
    /// queues. It keeps no sinks unless `keeps_sinks`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `ENODEV` if the device is being removed.
    pub(super) fn new(
        pd: &Arc<Pd>,
        index: u32,
        most: u32,
        vector: u32,
        keeps_sinks: bool,
    ) -> Result<Arc<Self>> {
        let receives = Cqs::new(Completes::Receives, vector)?;
        let sends = Cqs::new(Completes::Sends, vector)?;
        // The CPUs of a lane count their references apart from others.
        let cache = Cache::new(pd.handle()?)?;
        Arc::pin_init(
            pin_init!(Self {
                index,
                most,
                keeps_sinks,
                receives,
                sends,
                cache <- new_spinlock!(cache, "svcrdma lane"),
            }),
            GFP_KERNEL,
        )
    }

    /// Reserves entries of completion queues for `receives` Receives and `sends` other work requests
    /// of a connection. Queues have up to `max_cqe` entries. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the lane is retired, and those of creating a queue.
    pub(crate) fn reserve(
        &self,
        receives: u32,
        sends: u32,
        max_cqe: u32,
    ) -> Result<(CqReservation, CqReservation)> {
        let pd = self.pd()?;
        Ok((
            self.receives.reserve(&pd, max_cqe, receives)?,
            self.sends.reserve(&pd, max_cqe, sends)?,
        ))
    }

    /// Returns the protection domain. In any process context.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the lane is retired.
    pub(crate) fn pd(&self) -> Result<Arc<Pd>> {
        self.cache.lock().pd.clone().ok_or(ENODEV)
    }

    /// Maps `page_region` for the device. If the device lacks room for that now, the send queue maps
    /// the region later, when it posts the work. In any process context.
    ///
    /// # Errors
    ///
    /// - `ENODEV` if the lane is retired.
    /// - `EINVAL` as for [`PageRegion::map`].
    pub(crate) fn map(&self, page_region: &mut PageRegion, direction: Direction) -> Result {
        match page_region.map(self.pd()?, direction) {
            Err(ENOMEM) => Ok(()),
            mapped => mapped,
        }
    }

    /// Takes an idle sink with `pages` pages. In any process context.
    pub(crate) fn take_sink(&self, pages: usize) -> Option<ReadBuffer> {
        self.cache.lock().take_sink(pages)
    }

    /// Keeps the sink of a Call that has ended. All lanes of the device keep at most half of the
    /// pages that `pages` returns, and one sink each; `pages` is called under the lock. Returns the
    /// sink if it is not kept. In any process context.
    pub(crate) fn keep_sink(
        &self,
        mut sink: ReadBuffer,
        pages: impl FnOnce() -> usize,
    ) -> Option<ReadBuffer> {
        if !self.keeps_sinks || sink.has_memory_region() || !sink.stream_mut().is_fresh() {
            return Some(sink);
        }
        let mut cache = self.cache.lock();
        let part = pages().checked_div(self.most.saturating_mul(2) as usize);
        cache.keep_sink(sink, part.unwrap_or(0))
    }

    /// Takes an idle empty page region for `pages` pages. In any process context.
    pub(crate) fn take_empty(&self, pages: usize) -> Option<KBox<PageRegion>> {
        self.cache.lock().take_empty(pages)
    }

    /// Keeps an empty page region, which is not mapped, unless Calls wait in `pool`. Returns the region if
    /// it is not kept. In any process context.
    pub(crate) fn keep_empty(
        &self,
        pool: &Pool,
        page_region: KBox<PageRegion>,
    ) -> Option<KBox<PageRegion>> {
        let mut cache = self.cache.lock();
        // A connection that waits after this check reclaims what the lane has kept.
        if pool.has_parked() {
            return Some(page_region);
        }
        cache.keep_empty(page_region)
    }

    /// Returns the number of the lane, which no other live lane of the device has.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Returns the number of pages of idle sinks. In any process context.
    pub(crate) fn idle_pages(&self) -> usize {
        self.cache.lock().pages()
    }

    /// Returns the number of completion queue entries that connections use. May sleep.
    pub(super) fn load(&self) -> u32 {
        self.receives.used().saturating_add(self.sends.used())
    }

    /// Returns true if a completion queue has failed. May sleep.
    pub(super) fn is_broken(&self) -> bool {
        self.receives.is_broken() || self.sends.is_broken()
    }

    /// Returns what the lane keeps to `pool`. The caller starts the Calls that wait there, after it has
    /// released its locks. In any process context.
    pub(crate) fn reclaim(&self, pool: &Pool) {
        self.give_back(pool, Cache::take_any_sink, Cache::take_any_empty);
    }

    /// Returns what the lane has not used since the last call to `pool`, and destroys completion
    /// queues that no connection uses. The caller starts waiting Calls, as after [`Self::reclaim`]. May
    /// sleep.
    pub(super) fn trim(&self, pool: &Pool) {
        self.give_back(pool, Cache::take_surplus, Cache::take_surplus_empty);
        self.receives.trim();
        self.sends.trim();
    }

    /// Retires the lane: returns what it keeps to `pool`, and releases the rest. Connections keep
    /// their shares. May sleep.
    pub(super) fn retire(&self, pool: &Pool) {
        let pd = self.cache.lock().pd.take();
        drop(pd);
        self.reclaim(pool);
        self.receives.release();
        self.sends.release();
    }

    /// Returns sinks and empty page regions to `pool` until `sink` and `empty` return None.
    fn give_back(
        &self,
        pool: &Pool,
        sink: impl Fn(&mut Cache) -> Option<ReadBuffer>,
        empty: impl Fn(&mut Cache) -> Option<KBox<PageRegion>>,
    ) {
        // The lock is released before the pool is called.
        let take_sink = || sink(&mut self.cache.lock());
        let take_empty = || empty(&mut self.cache.lock());
        while let Some(sink) = take_sink() {
            pool.keep_sink(sink);
        }
        while let Some(page_region) = take_empty() {
            pool.keep_page_region(page_region);
        }
    }
}

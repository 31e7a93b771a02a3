// SPDX-License-Identifier: GPL-2.0

//! Shortages: while Calls wait for pages, closes the connections that keep the most of them and whose
//! peers do not serve their RDMA Reads.
//!
//! Pages of Calls that nfsd has, or that wait for it, do not count: they do not wait for the peer. The
//! decisions are proto's `shortage`; the device's watchdog looks often, as the shortage is to end
//! before clients notice.

use super::{
    cause::Cause,
    device::Device,
    endpoint::Endpoint,
    line,
    stats,
    work::Work, //
};
use svcrdma_proto::{
    shares::Standing,
    shortage::Largest, //
};

/// Milliseconds between two looks.
pub(super) const INTERVAL: u32 = 500;

/// Connections of a standing that are closed at a time.
const MOST: usize = 16;

impl Device {
    /// Ends shortages; this is the look with the number `at`. May sleep.
    pub(super) fn end_shortages(&self, at: u32) {
        let late = Standing::ALL.map(|standing| self.pools.look_at_line(standing));
        if late.iter().all(Option::is_none) {
            return;
        }
        let mut holders = late.map(|_| Largest::<_, MOST>::default());
        self.for_each(|shared| {
            let endpoint = shared.snapshot().endpoint;
            let unserved = endpoint.and_then(|endpoint| endpoint.unserved_pages(at));
            for (pages, largest) in unserved.into_iter().flatten().zip(&mut holders) {
                if pages > 0 {
                    largest.add(pages, shared.clone());
                }
            }
        });
        for (standing, (late, largest)) in
            Standing::ALL.into_iter().zip(late.into_iter().zip(holders))
        {
            for shared in largest.take(late.unwrap_or(0)) {
                shared.close(Cause::PageShortage);
                self.pools.restart_line(standing);
            }
        }
    }
}

impl Endpoint {
    /// Returns the pages that are under RDMA Read, for each line that they count in; none if the peer
    /// serves its Reads well enough. This is the look with the number `at`.
    fn unserved_pages(&self, at: u32) -> Option<[u32; 2]> {
        let mut held = [0u32; 2];
        let filled = self.fifo.survey(|work| {
            let Work::Read(call) = work else {
                return;
            };
            let charge = call.sink.as_ref().map(|loan| loan.charge());
            for (standing, held) in Standing::ALL.into_iter().zip(&mut held) {
                if let Some((_, pages)) = charge.filter(|charge| charge.0 == standing) {
                    *held = held.saturating_add(line::count(pages));
                }
            }
        });
        let all = held
            .iter()
            .fold(0u32, |all, held| all.saturating_add(*held));
        let seconds = stats::SHORTAGE_SECONDS.get();
        let holder = &mut self.quota.lock().holder;
        let is_unserved = holder.look(at, all, filled, 1000 / INTERVAL, seconds);
        is_unserved.then_some(held)
    }
}

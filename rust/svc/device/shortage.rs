// SPDX-License-Identifier: GPL-2.0

//! Shortages: while Calls wait for pages, closes the connections that keep the most of them and whose
//! peers do not serve their RDMA Reads.
//!
//! Pages of Calls that nfsd has, or that wait for it, do not count: they do not wait for the peer. The
//! decisions are proto's `shortage`; the device's watchdog looks often, as the shortage is to end
//! before clients notice.

use super::Device;
use crate::svc::{
    close_reason::CloseReason,
    conn::{
        connection::Connection,
        endpoint::Endpoint,
        work::Work, //
    },
    lane::{
        line::{
            self,
            Awaited, //
        },
        watch::Late, //
    },
    settings,
    watchdog::SHORTAGE_MSECS, //
};
use svcrdma_proto::{
    shares::Standing,
    shortage::Largest, //
};

/// Connections of a standing that are closed at a look.
const MOST: u32 = 16;

impl Device {
    /// Ends shortages; this is the look with the number `at`. May sleep.
    pub(crate) fn end_shortages(&self, at: u32) {
        let late = Standing::ALL.map(|standing| self.lane.pool.look_at_line(standing));
        if late.iter().all(Option::is_none) {
            return;
        }
        self.lane.for_each(|connection| {
            if let Some(endpoint) = connection.snapshot().endpoint {
                endpoint.look_at_reads(at);
            }
        });
        for (standing, late) in Standing::ALL.into_iter().zip(late) {
            if let Some(late) = late {
                self.close_largest(standing, late);
            }
        }
    }

    /// Closes connections until they give back the pages that Calls of `standing` wait for.
    // Out of line, as it is rarely needed.
    #[inline(never)]
    fn close_largest(&self, standing: Standing, late: Late) {
        let mut missing = late.pages;
        for _ in 0..MOST {
            if missing == 0 {
                return;
            }
            let mut largest = Largest::default();
            self.lane.for_each(|connection| {
                largest.add(unserved(connection, late), || connection.clone())
            });
            let Some((pages, connection)) = largest.take() else {
                return;
            };
            connection.close(CloseReason::PageShortage);
            self.lane.pool.restart_line(standing);
            missing = missing.saturating_sub(pages);
        }
    }
}

/// Returns how many of those pages the connection keeps from others, as the last look has found.
fn unserved(connection: &Connection, late: Late) -> u32 {
    let Some(endpoint) = connection.snapshot().endpoint else {
        return 0;
    };
    let (unserved, looks) = {
        let quota = endpoint.quota.lock();
        (quota.unserved, quota.unserved_looks)
    };
    if looks <= late.patience {
        return 0;
    }
    let lines = unserved.into_iter().zip(Standing::ALL);
    let counted = lines.filter(|(_, standing)| match late.awaited {
        Awaited::Of(one) => *standing == one,
        Awaited::Any => true,
        Awaited::New => false,
    });
    counted.fold(0, |all, (pages, _)| all.saturating_add(pages))
}

impl Endpoint {
    /// Notes how many pages are under RDMA Read for each line, or that the peer serves its Reads well
    /// enough. This is the look with the number `at`.
    fn look_at_reads(&self, at: u32) {
        let mut held = [0u32; 2];
        let filled = self.send_queue.survey(|work| {
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
        let seconds = settings::SHORTAGE_SECONDS.get();
        let mut quota = self.quota.lock();
        quota.unserved_looks = quota
            .holder
            .look(at, all, filled, 1000 / SHORTAGE_MSECS, seconds);
        quota.unserved = held;
    }
}

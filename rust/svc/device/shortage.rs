// SPDX-License-Identifier: GPL-2.0

//! Page shortages: while Calls wait for pages, closes the connections whose peers do not serve
//! their RDMA Reads, those with the most pages first. A shortage of unvalidated peers never closes a
//! validated one.
//!
//! Only pages under RDMA Read count. The pages of a Call that waits for nfsd, or that nfsd has, do
//! not wait for the peer. `svcrdma_proto::shortage` makes the decisions. The watchdog of the device
//! looks every [`SHORTAGE_MSECS`] milliseconds, so that a shortage ends before clients notice it.
//!
//! # Context
//!
//! The watchdog; everything here may sleep.

use super::Device;
use crate::svc::{
    close_reason::CloseReason,
    conn::{
        connection::Connection,
        endpoint::Endpoint,
        work::Work, //
    },
    lane::{
        line,
        watch::Watched, //
    },
    settings,
    watchdog::SHORTAGE_MSECS, //
};
use svcrdma_proto::{
    shares::PeerClass,
    shortage::{
        self,
        Largest, //
    }, //
};

/// The most connections that a look closes for the Calls of one class.
const MOST_CLOSES: u32 = 16;

impl Device {
    /// Looks for a shortage in each line, and ends it. `at` is the number of this look.
    pub(crate) fn end_shortages(&self, at: u32) {
        let lines = PeerClass::ALL.map(|class| self.domain.pool.look_at_line(class));
        if lines.iter().all(Option::is_none) {
            return;
        }
        self.domain.for_each(|connection| {
            if let Some(endpoint) = connection.snapshot().endpoint {
                endpoint.look_at_reads(at);
            }
        });
        for line in lines.into_iter().flatten() {
            self.close_largest(line);
        }
    }

    /// Closes the connections with the most unserved pages, until they return as many pages as the
    /// late Calls of `line` want.
    // Out of line: rarely needed.
    #[inline(never)]
    fn close_largest(&self, line: Watched) {
        let mut missing = 0u32;
        self.domain.for_each(|connection| {
            missing = missing.saturating_add(wanted(connection, line));
        });
        for _ in 0..MOST_CLOSES {
            if missing == 0 {
                return;
            }
            let mut largest = Largest::default();
            self.domain.for_each(|connection| {
                largest.add(unserved(connection, line), || connection.clone())
            });
            let Some((pages, connection)) = largest.take() else {
                return;
            };
            connection.close(CloseReason::PageShortage);
            self.domain.pool.restart_line(line.class);
            missing = missing.saturating_sub(pages);
        }
    }
}

/// Returns the pages that `connection` wants for a late Call in `line`, as of the last look. A
/// connection that has pages wants none: it waits for its own peer as well.
fn wanted(connection: &Connection, line: Watched) -> u32 {
    let endpoint = connection.snapshot().endpoint;
    let Some(endpoint) = endpoint.filter(|_| connection.class() == line.class) else {
        return 0;
    };
    let reads = endpoint.reads.lock();
    if line.queue.is_late(reads.waited_looks) {
        reads.wanted
    } else {
        0
    }
}

/// Returns the number of pages that `connection` keeps from the late Calls of `line`, as of the last
/// look: 0 if the peer serves its RDMA Reads, or has been unserved for too few looks.
fn unserved(connection: &Connection, line: Watched) -> u32 {
    let Some(endpoint) = connection.snapshot().endpoint else {
        return 0;
    };
    let (unserved, looks) = {
        let reads = endpoint.reads.lock();
        (reads.unserved, reads.unserved_looks)
    };
    if looks <= line.queue.patience() {
        return 0;
    }
    shortage::unserved(line.class, line.awaited, connection.class(), unserved)
}

impl Endpoint {
    /// Counts the pages under RDMA Read for each line, and judges if the peer serves its Reads fast
    /// enough and if a Call waits too long. `at` is the number of the look.
    ///
    /// # Locking
    ///
    /// Takes the locks of the send queue, the quota and the progress, one after the other.
    fn look_at_reads(&self, at: u32) {
        let mut held = [0u32; 2];
        let filled = {
            let sq = self.send_queue.lock();
            for work in sq.work() {
                let Work::Read(call) = work else {
                    continue;
                };
                let charge = call.sink.as_ref().map(|read_buffer| read_buffer.charge());
                for (class, held) in PeerClass::ALL.into_iter().zip(&mut held) {
                    if let Some((_, pages)) = charge.filter(|charge| charge.0 == class) {
                        *held = held.saturating_add(line::count(pages));
                    }
                }
            }
            sq.filled()
        };
        let all = held
            .iter()
            .fold(0u32, |all, held| all.saturating_add(*held));
        let seconds = settings::SHORTAGE_SECONDS.get();
        let first = self.quota.first();
        let mut reads = self.reads.lock();
        reads.waited_looks = reads.wait.look(at, first.as_ref().map(|first| first.turn));
        reads.wanted = first.map_or(0, |first| line::count(first.wanted));
        reads.unserved_looks = reads
            .holder
            .look(at, all, filled, 1000 / SHORTAGE_MSECS, seconds);
        reads.unserved = held;
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Reads: judges if a peer serves its RDMA Reads fast enough while pages are short.
//!
//! # Context
//!
//! The watchdog of the device; any process context.

use super::{
    connection::Connection,
    endpoint::Endpoint,
    work::Work, //
};
use crate::svc::{
    pages::{
        line,
        watch::WatchedLine, //
    },
    settings,
    watchdog::SHORTAGE_MSECS, //
};
use svcrdma_proto::{
    shares::PeerClass,
    shortage, //
};

impl Connection {
    /// Judges the RDMA Reads, see [`Endpoint::look_at_reads`].
    pub(crate) fn look_at_reads(&self, at: u32) {
        if let Some(endpoint) = self.endpoint() {
            endpoint.look_at_reads(at);
        }
    }

    /// Returns the pages that the connection wants for a late Call in `line`, as of the last look. A
    /// connection that has pages wants none: it waits for its own peer as well.
    pub(crate) fn wanted_pages(&self, line: WatchedLine) -> u32 {
        let endpoint = self.endpoint();
        let Some(endpoint) = endpoint.filter(|_| self.class() == line.class) else {
            return 0;
        };
        let reads = endpoint.reads.lock();
        if line.queue.is_late(reads.waited_looks) {
            reads.wanted
        } else {
            0
        }
    }

    /// Returns the number of pages that the connection keeps from the late Calls of `line`, as of the
    /// last look: 0 if the peer serves its RDMA Reads, or has not been unserved for long enough.
    pub(crate) fn unserved_pages(&self, line: WatchedLine) -> u32 {
        let Some(endpoint) = self.endpoint() else {
            return 0;
        };
        let (is_unserved, pages) = {
            let reads = endpoint.reads.lock();
            (reads.is_unserved, reads.under_read)
        };
        if !is_unserved {
            return 0;
        }
        shortage::unserved(line.class, line.awaited, self.class(), pages)
    }
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
        reads.is_unserved = reads
            .holder
            .look(at, all, filled, 1000 / SHORTAGE_MSECS, seconds);
        reads.under_read = held;
    }
}

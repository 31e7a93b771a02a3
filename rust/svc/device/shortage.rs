// SPDX-License-Identifier: GPL-2.0

//! Page shortages: while Calls wait for pages, closes the connections whose peers do not serve
//! their RDMA Reads, those with the most pages first. A shortage of unvalidated peers never closes a
//! validated one.
//!
//! Only pages under RDMA Read count. The pages of a Call that waits for nfsd, or that nfsd has, do
//! not wait for the peer. `svcrdma_proto::shortage` makes the decisions. The watchdog of the device
//! looks every [`SHORTAGE_MSECS`](crate::svc::watchdog::SHORTAGE_MSECS) milliseconds, so that a shortage ends before clients notice it.
//!
//! # Context
//!
//! The watchdog; everything here may sleep.

use super::device::Device;
use crate::svc::{
    close_reason::CloseReason,
    pages::watch::{
        Look,
        WatchedLine, //
    }, //
};
use support::trace;
use svcrdma_proto::{
    shares::PeerClass,
    shortage::Largest, //
};

/// The most connections that a look closes for the Calls of one class.
const MOST_CLOSES: u32 = 16;

impl Device {
    /// Looks for a shortage in each line, and ends it. `at` is the number of this look.
    pub(super) fn end_shortages(&self, at: u32) {
        let lines = PeerClass::ALL.map(|class| match self.pool.look_at_line(class) {
            Look::Waiting(line) => Some(line),
            Look::Empty { ends_shortage } => {
                if ends_shortage {
                    self.trace_shortage(class, 0);
                }
                None
            }
        });
        if lines.iter().all(Option::is_none) {
            return;
        }
        self.for_each(|connection| connection.look_at_reads(at));
        for line in lines.into_iter().flatten() {
            self.close_largest(line);
        }
    }

    /// Records in the trace that Calls of `class` wait too long for `pages` pages, or that none waits
    /// any more if `pages` is 0.
    fn trace_shortage(&self, class: PeerClass, pages: u32) {
        let unvalidated = u32::from(class == PeerClass::Unvalidated);
        trace::shortage(u32::from(pages > 0), unvalidated, pages, &self.name());
    }

    /// Closes the connections with the most unserved pages, until they return as many pages as the
    /// late Calls of `line` want.
    // Out of line: rarely needed.
    #[inline(never)]
    fn close_largest(&self, line: WatchedLine) {
        let mut missing = 0u32;
        self.for_each(|connection| {
            missing = missing.saturating_add(connection.wanted_pages(line));
        });
        if missing > 0 && !line.is_short {
            self.pool.begin_shortage(line.class);
            self.trace_shortage(line.class, missing);
        }
        for _ in 0..MOST_CLOSES {
            if missing == 0 {
                return;
            }
            let mut largest = Largest::default();
            self.for_each(|connection| {
                largest.add(connection.unserved_pages(line), || connection.clone())
            });
            let Some((pages, connection)) = largest.take() else {
                return;
            };
            connection.close(CloseReason::PageShortage);
            self.pool.restart_line(line.class);
            missing = missing.saturating_sub(pages);
        }
    }
}

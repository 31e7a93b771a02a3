// SPDX-License-Identifier: GPL-2.0

//! Watching the lines: the Calls that are parked for too long, and the pages that they wait for.
//!
//! # Context
//!
//! Any process context; nothing here sleeps. The functions take the lock of the pool.

use super::{
    line::count,
    pool::Pool,
    waiter::Waiter, //
};
use crate::svc::settings::ReadPages;
use svcrdma_proto::{
    shares::PeerClass,
    shortage::Awaited, //
};

/// The late Calls of a line: those that are parked for too long.
#[derive(Clone, Copy)]
pub(crate) struct Late {
    /// The line.
    pub(crate) class: PeerClass,
    /// The pages that the late Calls need.
    pub(crate) pages: u32,
    /// The origin of these pages.
    pub(crate) awaited: Awaited,
    /// The number of successive looks at which a connection may be unserved before it is closed.
    pub(crate) patience: u32,
    /// The number of the connection that all parked Calls belong to, if they belong to one. It keeps
    /// pages from nobody but itself.
    pub(crate) only_user: Option<u64>,
}

impl<W: Waiter> Pool<W> {
    /// Returns true if parked Calls wait for pages that Calls of `class` hold.
    pub(crate) fn is_short(&self, class: PeerClass) -> bool {
        self.inner.lock().is_short(class, ReadPages::now())
    }

    /// Begins another look at the lines and returns its number. Lanes keep `idle` pages, which do not
    /// lower the shares of connections.
    pub(crate) fn number_look(&self, idle: usize) -> u32 {
        let mut inner = self.inner.lock();
        inner.lines.validated.idle = idle;
        // The settings may have changed.
        self.publish(&mut inner);
        inner.lines.looks = inner.lines.looks.wrapping_add(1);
        inner.lines.looks
    }

    /// Looks at the line of `class`. Returns its late Calls, or None if no Call is parked there.
    pub(crate) fn look_at_line(&self, class: PeerClass) -> Option<Late> {
        let mut inner = self.inner.lock();
        let line = inner.lines.of(class);
        let pages = line.lateness.look(count(line.demand));
        let patience = line.lateness.patience();
        if line.is_empty() {
            return None;
        }
        let only_user = line.only_user();
        Some(Late {
            class,
            pages,
            awaited: inner.awaited(class, ReadPages::now()),
            patience,
            only_user,
        })
    }

    /// Restarts the wait of the late Calls of `class` after a connection was closed for them:
    /// its pages take some time to come back.
    pub(crate) fn restart_line(&self, class: PeerClass) {
        self.inner.lock().lines.of(class).lateness.restart();
    }
}

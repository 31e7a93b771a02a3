// SPDX-License-Identifier: GPL-2.0

//! Watching the lines: the connections that wait for too long, and the pages that they need.
//!
//! # Context
//!
//! Any process context; nothing here sleeps. The functions take the lock of the pool.

use super::pool::Pool;
use crate::svc::settings::ReadPages;
use svcrdma_proto::{
    shares::PeerClass,
    shortage::{
        Awaited,
        Queue, //
    }, //
};

/// A line in which connections wait, as of the last look.
#[derive(Clone, Copy)]
pub(crate) struct WatchedLine {
    /// The class of the peers.
    pub(crate) class: PeerClass,
    /// The progress of the line.
    pub(crate) queue: Queue,
    /// The origin of the pages that the waiting Calls need.
    pub(crate) awaited: Awaited,
    /// True if [`Pool::begin_shortage`] was called and the line was not empty since.
    pub(crate) is_short: bool,
}

/// The result of a look at a line.
pub(crate) enum Look {
    /// No connection waits. `ends_shortage` is true if this ends a shortage.
    Empty { ends_shortage: bool },
    /// Connections wait.
    Waiting(WatchedLine),
}

impl Pool {
    /// Returns true if Calls wait for pages that Calls of `class` hold.
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

    /// Looks at the line of `class`.
    pub(crate) fn look_at_line(&self, class: PeerClass) -> Look {
        let mut inner = self.inner.lock();
        let line = inner.lines.of(class);
        line.queue.look();
        if line.is_empty() {
            let ends_shortage = core::mem::take(&mut line.is_short);
            return Look::Empty { ends_shortage };
        }
        let (queue, is_short) = (line.queue, line.is_short);
        Look::Waiting(WatchedLine {
            class,
            queue,
            awaited: inner.awaited(class, ReadPages::now()),
            is_short,
        })
    }

    /// Records that Calls in the line of `class` are late, until a look finds the line empty.
    pub(crate) fn begin_shortage(&self, class: PeerClass) {
        self.inner.lock().lines.of(class).is_short = true;
    }

    /// Restarts the wait of the late Calls of `class` after a connection was closed for them:
    /// its pages take some time to come back.
    pub(crate) fn restart_line(&self, class: PeerClass) {
        self.inner.lock().lines.of(class).queue.restart();
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Watching the lines: which Calls have waited for pages for too long, and whose pages they wait for.
//!
//! Contexts: any process context; nothing here sleeps.

use super::{
    line::{
        count,
        Awaited, //
    },
    pool::Pool,
    waiter::Waiter, //
};
use crate::svc::settings::ReadPages;
use svcrdma_proto::shares::Standing;

/// The Calls of a line that have waited for too long.
#[derive(Clone, Copy)]
pub(crate) struct Late {
    /// The pages that they want.
    pub(crate) pages: u32,
    /// Whose pages they wait for.
    pub(crate) awaited: Awaited,
    /// Successive looks at which a connection may be unserved.
    pub(crate) patience: u32,
}

impl<W: Waiter> Pool<W> {
    /// Returns how many pages a connection of `standing` may have.
    pub(crate) fn share(&self, standing: Standing) -> usize {
        self.inner.lock().lines.of(standing).share(ReadPages::now())
    }

    /// Returns true if Calls wait until those of `standing` give pages back.
    pub(crate) fn is_short(&self, standing: Standing) -> bool {
        self.inner.lock().is_short(standing, ReadPages::now())
    }

    /// Returns the number of a new look at the lines.
    pub(crate) fn number_look(&self) -> u32 {
        let lines = &mut self.inner.lock().lines;
        lines.looks = lines.looks.wrapping_add(1);
        lines.looks
    }

    /// Looks at the line of `standing`; returns what is late, or none if no Call waits.
    pub(crate) fn look_at_line(&self, standing: Standing) -> Option<Late> {
        let mut inner = self.inner.lock();
        let line = inner.lines.of(standing);
        let pages = line.queue.look(count(line.wanted));
        let patience = line.queue.patience();
        if line.is_empty() {
            return None;
        }
        Some(Late {
            pages,
            awaited: inner.awaited(standing, ReadPages::now()),
            patience,
        })
    }

    /// Gives what was done about Calls of `standing` that were late some time to work.
    pub(crate) fn restart_line(&self, standing: Standing) {
        self.inner.lock().lines.of(standing).queue.restart();
    }
}

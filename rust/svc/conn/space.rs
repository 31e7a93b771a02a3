// SPDX-License-Identifier: GPL-2.0

//! Space: the pages that the Replies of a connection hold until they are sent.
//!
//! nfsd continues with other pages as soon as a Reply is queued, while the peer may take its
//! Replies slowly or never. So nfsd may take another Call only while the connection has space, as
//! [`Standing`] decides. `xpo_has_wspace` reports that. No thread waits, and the Calls stay in the
//! inbox.
//!
//! nfsd asks again after each event that can make space:
//!
//! - sunrpc counts the Calls in its threads (`xpt_nr_rqsts`) from before `xpo_recvfrom` until after
//!   `xpo_sendto`, a drop or a deferral. It then enqueues the connection (`svc_xprt_release`).
//! - When a Reply releases its pages, [`Space::put`] tells the caller to wake nfsd.
//!
//! So there is no list of connections that wait for space.
//!
//! # Context
//!
//! Any; takes no lock.

use crate::svc::{
    lane::held::Held,
    settings::ReplyPages, //
};
use kernel::sync::atomic::{
    Atomic,
    AtomicFlag,
    Full,
    Relaxed, //
};
use svcrdma_proto::space::Standing;

/// The space of a connection. The endpoint owns it.
pub(crate) struct Space {
    /// Pages that the Replies hold.
    held: Atomic<i32>,
    /// True if nfsd was refused a Call and is to be woken.
    needs_wake: AtomicFlag,
}

impl Space {
    /// Returns a space in which no Reply holds pages.
    pub(crate) const fn new() -> Self {
        Self {
            held: Atomic::new(0),
            needs_wake: AtomicFlag::new(false),
        }
    }

    /// Counts the `pages` pages of a Reply that is queued.
    pub(crate) fn take(&self, device: &Held, pages: usize) {
        let pages = count(pages);
        device.add(pages);
        // Before sunrpc counts the Call as done, so that the connection never seems idle in
        // between.
        self.held.fetch_add(pages, Full);
    }

    /// Releases the `pages` pages of a Reply. Returns true if the caller must wake nfsd.
    pub(crate) fn put(&self, device: &Held, pages: usize) -> bool {
        let pages = count(pages);
        if pages == 0 {
            return false;
        }
        device.add(-pages);
        // A full barrier: either this load sees the flag, or the thread that sets it sees the
        // released pages.
        self.held.fetch_add(-pages, Full);
        self.needs_wake.load(Relaxed) && self.needs_wake.xchg(false, Full)
    }

    /// Returns true if nfsd may take another Call. Calls `on_refused` at the first refusal since
    /// nfsd was last woken. `running` returns the number of Calls in nfsd threads.
    pub(crate) fn allows_call(
        &self,
        device: &Held,
        limits: ReplyPages,
        running: impl Fn() -> i32,
        on_refused: impl FnOnce(),
    ) -> bool {
        if self.fits(device, limits, running()) {
            return true;
        }
        // The end of a Reply and the end of a Call each cause another call of this function after
        // their own change. If both end at a time, the barrier makes one of them see the change of
        // the other.
        let was_refused = self.needs_wake.xchg(true, Full);
        let fits = self.fits(device, limits, running());
        if !fits && !was_refused {
            on_refused();
        }
        fits
    }

    /// Returns true if the connection has space now.
    fn fits(&self, device: &Held, limits: ReplyPages, running: i32) -> bool {
        let standing = Standing {
            running,
            held: self.held.load(Relaxed),
            limit: limits.connection,
            left: device.left(limits.device),
        };
        standing.has_space()
    }

    /// Returns the number of pages that the Replies hold.
    pub(crate) fn held(&self) -> usize {
        usize::try_from(self.held.load(Relaxed)).unwrap_or(0)
    }
}

/// Converts a number of pages. The number never exceeds `i32::MAX`, because a Reply has at most the
/// pages of an nfsd thread.
fn count(pages: usize) -> i32 {
    i32::try_from(pages).unwrap_or(i32::MAX)
}

// SPDX-License-Identifier: GPL-2.0

//! Space: the pages that the Replies of a connection hold until they are sent.
//!
//! nfsd goes on as soon as a Reply is queued, with other pages, and a peer may take its Replies
//! slowly or never. [`Standing`] says if nfsd may take another Call of the connection.
//! `xpo_has_wspace` passes that on, no thread waits, and the Calls stay in the inbox.
//!
//! sunrpc counts the Calls that its threads have at hand (`xpt_nr_rqsts`), from before
//! `xpo_recvfrom` until after `xpo_sendto`, a drop or a deferral, and then looks at the connection
//! again by itself (`svc_xprt_release`). When a Reply gives its pages back, [`Space::put`] tells the
//! caller to have nfsd look again. So nobody has to remember which connections wait.

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

/// The space of a connection.
pub(crate) struct Space {
    /// Pages that its replies hold.
    held: Atomic<i32>,
    /// Whether nfsd was told that there is no space, and is to look again.
    is_missed: AtomicFlag,
}

impl Space {
    pub(crate) const fn new() -> Self {
        Self {
            held: Atomic::new(0),
            is_missed: AtomicFlag::new(false),
        }
    }

    /// A reply with `pages` pages is queued.
    pub(crate) fn take(&self, device: &Held, pages: usize) {
        let pages = count(pages);
        device.add(pages);
        // Before sunrpc counts the Call as done: the connection never looks as if it held nothing.
        self.held.fetch_add(pages, Full);
    }

    /// A reply gives its pages back; whether nfsd is to look again.
    pub(crate) fn put(&self, device: &Held, pages: usize) -> bool {
        let pages = count(pages);
        if pages == 0 {
            return false;
        }
        device.add(-pages);
        // Either this sees that space is missed, or who misses it sees what this has given back.
        self.held.fetch_add(-pages, Full);
        self.is_missed.load(Relaxed) && self.is_missed.xchg(false, Full)
    }

    /// Returns true if nfsd may take another Call; calls `on_miss` the first time that it may not.
    /// `running` returns the Calls that threads have at hand.
    ///
    /// # Context
    ///
    /// Any; takes no lock.
    pub(crate) fn is_there(
        &self,
        device: &Held,
        limits: ReplyPages,
        running: impl Fn() -> i32,
        on_miss: impl FnOnce(),
    ) -> bool {
        if self.fits(device, limits, running()) {
            return true;
        }
        // A Reply that ends, and a Call that ends, each have this run again after their own change.
        // The barrier makes one of two that end at once see the other's.
        let was_missed = self.is_missed.xchg(true, Full);
        let fits = self.fits(device, limits, running());
        if !fits && !was_missed {
            on_miss();
        }
        fits
    }

    fn fits(&self, device: &Held, limits: ReplyPages, running: i32) -> bool {
        let standing = Standing {
            running,
            held: self.held.load(Relaxed),
            limit: limits.connection,
            left: device.left(limits.device),
        };
        standing.has_space()
    }

    /// Pages that its replies hold.
    pub(crate) fn held(&self) -> usize {
        usize::try_from(self.held.load(Relaxed)).unwrap_or(0)
    }
}

/// As they are counted: no reply has more pages than nfsd has for one.
fn count(pages: usize) -> i32 {
    i32::try_from(pages).unwrap_or(i32::MAX)
}

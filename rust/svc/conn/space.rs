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
//! - When a Reply has released its pages, [`Space::should_wake`] tells the caller to wake nfsd.
//!
//! So there is no list of connections that wait for space.
//!
//! # Context
//!
//! Any; takes no lock. The functions that change the number of pages are called under the lock of
//! the send queue, which serialises them. They draw pages of the host in batches, so that a Reply
//! rarely touches what connections share. A connection has room for some thousand Calls, and a
//! Reply has at most the pages of an nfsd thread, so the numbers of pages never overflow.

use crate::svc::{
    pages::host::Host,
    settings::ReplyPages, //
};
use kernel::sync::{
    atomic::{
        AtomicFlag,
        Full, //
    },
    Arc, //
};
use support::figure::Figure;
use svcrdma_proto::space::Standing;

/// The number of pages that a connection draws at a time.
const BATCH: i32 = 16;

/// The space of a connection.
pub(crate) struct Space {
    /// Pages that the Replies hold.
    held: Figure<i32>,
    /// Pages that count in `host`: at least `held`.
    drawn: Figure<i32>,
    /// The host, which counts the pages of its connections.
    host: Arc<Host>,
    /// True if nfsd was refused a Call and is to be woken.
    needs_wake: AtomicFlag,
}

impl Space {
    /// Returns a space in which no Reply holds pages.
    pub(crate) fn new(host: Arc<Host>) -> Self {
        Self {
            held: Figure::default(),
            drawn: Figure::default(),
            host,
            needs_wake: AtomicFlag::new(false),
        }
    }

    /// Counts the `pages` pages of a Reply that is queued. Under the lock of the send queue.
    #[inline]
    pub(crate) fn take(&self, pages: i32) {
        let held = self.held.get().wrapping_add(pages);
        if held > self.drawn.get() {
            self.draw_for(held);
        }
        self.held.set(held);
    }

    /// Releases the `pages` pages of a Reply. Under the lock of the send queue. The caller calls
    /// [`Self::should_wake`] after it has released the lock.
    #[inline]
    pub(crate) fn put(&self, pages: i32) {
        let held = self.held.get().wrapping_sub(pages);
        self.held.set(held);
        let spare = self.drawn.get().wrapping_sub(held);
        if spare > 2 * BATCH {
            self.draw(BATCH.saturating_sub(spare));
        }
    }

    /// Draws the pages that `held` pages lack, and more if the connection has many Replies.
    #[cold]
    #[inline(never)]
    fn draw_for(&self, held: i32) {
        let lacking = held.saturating_sub(self.drawn.get());
        self.draw(lacking.max(held.min(BATCH)));
    }

    /// Gives the pages back that no Reply holds. Under the lock of the send queue.
    pub(crate) fn trim(&self) {
        self.draw(self.held.get().saturating_sub(self.drawn.get()));
    }

    /// Draws `pages` pages of the host, or gives pages back if the number is negative.
    #[cold]
    #[inline(never)]
    fn draw(&self, pages: i32) {
        self.host.add_reply_pages(pages);
        self.drawn.set(self.drawn.get().saturating_add(pages));
    }

    /// Returns true if the caller, which has released pages, must wake nfsd.
    #[inline]
    pub(crate) fn should_wake(&self) -> bool {
        // A full barrier: either this sees the flag, or the thread that sets it sees the released
        // pages.
        self.needs_wake.xchg(false, Full)
    }

    /// Returns true if nfsd may take another Call. Calls `on_refused` at the first refusal since
    /// nfsd was last woken. `running` returns the number of Calls in nfsd threads.
    #[inline]
    pub(crate) fn allows_call(
        &self,
        limits: ReplyPages,
        running: impl Fn() -> i32,
        on_refused: impl FnOnce(),
    ) -> bool {
        self.fits(limits, &running) || self.allows_again(limits, running, on_refused)
    }

    /// Decides again after a first refusal, see [`Self::allows_call`].
    #[cold]
    #[inline(never)]
    fn allows_again(
        &self,
        limits: ReplyPages,
        running: impl Fn() -> i32,
        on_refused: impl FnOnce(),
    ) -> bool {
        // The end of a Reply and the end of a Call each cause another call of this function after
        // their own change. If both end at a time, the barrier makes one of them see the change of
        // the other.
        let was_refused = self.needs_wake.xchg(true, Full);
        let fits = self.fits(limits, running);
        if !fits && !was_refused {
            on_refused();
        }
        fits
    }

    /// Returns true if the connection has space now.
    #[inline]
    fn fits(&self, limits: ReplyPages, running: impl FnOnce() -> i32) -> bool {
        self.standing(limits).has_space(running)
    }

    /// Returns true if the Read chunks of another Call may be read, whose pages would wait behind
    /// the Replies. Changes when a Reply releases pages.
    #[inline]
    pub(crate) fn may_read(&self, limits: ReplyPages) -> bool {
        self.standing(limits).has_room()
    }

    /// Returns the numbers that decide.
    #[inline]
    fn standing(&self, limits: ReplyPages) -> Standing {
        Standing {
            held: self.held.get(),
            limit: limits.connection,
            left: self.host.reply_pages_left(limits.device),
        }
    }

    /// Returns true if Replies hold pages, and the host may hold no more while all may hold `limit`.
    pub(crate) fn is_short(&self, limit: u32) -> bool {
        self.held.get() > 0 && self.host.reply_pages_left(limit) <= 0
    }

    /// Returns the number of pages that the Replies hold.
    pub(crate) fn held(&self) -> usize {
        usize::try_from(self.held.get()).unwrap_or(0)
    }
}

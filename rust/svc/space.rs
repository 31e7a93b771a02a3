// SPDX-License-Identifier: GPL-2.0

//! Space: how many pages the replies of a connection hold until they are sent.
//!
//! nfsd goes on as soon as a reply is queued, with other pages, and a peer may take its replies
//! slowly or never. So a connection whose replies hold as many pages as they may gets no more of
//! its Calls handled: `xpo_has_wspace` says so, no thread waits, and the Calls stay in the inbox.
//! What may be held beyond that are the replies of the Calls that threads have at hand: until the
//! first of these is queued nothing is known of them, so each connection may come to one for each
//! thread.
//!
//! A connection without such pages always has space. So one without space holds such pages, and gets
//! space when the device is done with them: nobody has to remember who waits.

use super::stats;
use kernel::sync::atomic::{
    Atomic,
    AtomicFlag,
    Full,
    Relaxed, //
};

/// The pages that the replies of all connections of a device hold.
pub(super) struct Held(Atomic<i32>);

impl Held {
    pub(super) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Whether they are as many as they may be.
    pub(super) fn is_full(&self) -> bool {
        self.left() <= 0
    }

    /// How many they are.
    pub(super) fn count(&self) -> i64 {
        i64::from(self.0.load(Relaxed))
    }

    fn left(&self) -> i64 {
        i64::from(stats::REPLY_PAGES.get()) - self.count()
    }
}

/// The space of a connection.
pub(super) struct Space {
    /// Pages that its replies hold.
    held: Atomic<i32>,
    /// Whether nfsd was told that there is no space, and is to look again.
    is_missed: AtomicFlag,
}

impl Space {
    pub(super) const fn new() -> Self {
        Self {
            held: Atomic::new(0),
            is_missed: AtomicFlag::new(false),
        }
    }

    /// A reply with `pages` pages is queued.
    pub(super) fn take(&self, device: &Held, pages: usize) {
        let pages = count(pages);
        device.0.add(pages, Relaxed);
        self.held.add(pages, Relaxed);
    }

    /// A reply gives its pages back; whether nfsd is to look again.
    pub(super) fn put(&self, device: &Held, pages: usize) -> bool {
        let pages = count(pages);
        if pages == 0 {
            return false;
        }
        device.0.add(-pages, Relaxed);
        // Either this sees that space is missed, or who misses it sees what this has given back.
        self.held.fetch_add(-pages, Full);
        self.is_missed.load(Relaxed) && self.is_missed.xchg(false, Full)
    }

    /// Whether nfsd may handle another Call; calls `on_miss` the first time that it may not. In any
    /// context; takes no lock.
    pub(super) fn is_there(&self, device: &Held, on_miss: impl FnOnce()) -> bool {
        if self.fits(device) {
            return true;
        }
        let was_missed = self.is_missed.xchg(true, Full);
        let fits = self.fits(device);
        if !fits && !was_missed {
            on_miss();
        }
        fits
    }

    /// The more of the device's pages are held, the fewer a connection may hold.
    fn fits(&self, device: &Held) -> bool {
        let held = self.held.load(Relaxed);
        let most = i64::from(stats::REPLY_PAGES_CONNECTION.get()).min(device.left());
        held <= 0 || i64::from(held) < most
    }

    /// Pages that its replies hold.
    pub(super) fn held(&self) -> usize {
        usize::try_from(self.held.load(Relaxed)).unwrap_or(0)
    }
}

/// As they are counted: no reply has more pages than nfsd has for one.
fn count(pages: usize) -> i32 {
    i32::try_from(pages).unwrap_or(i32::MAX)
}

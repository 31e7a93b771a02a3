// SPDX-License-Identifier: GPL-2.0

//! Reply memory: the pages that the Replies of all connections of a device hold.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The number of these pages. Any context.
pub(crate) struct Held(Atomic<i32>);

impl Held {
    /// Returns a count of 0.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Adds `pages` pages, or removes them if the number is negative.
    pub(crate) fn add(&self, pages: i32) {
        self.0.add(pages, Relaxed);
    }

    /// Returns the number of pages.
    pub(crate) fn count(&self) -> i64 {
        i64::from(self.0.load(Relaxed))
    }

    /// Returns the pages that are left of `limit`; 0 or less if none are.
    pub(crate) fn left(&self, limit: u32) -> i64 {
        i64::from(limit).saturating_sub(self.count())
    }
}

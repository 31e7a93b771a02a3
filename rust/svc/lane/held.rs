// SPDX-License-Identifier: GPL-2.0

//! Held pages: the number of pages in the Replies of a device's or a host's connections, send buffers
//! included.
//!
//! Connections draw pages in batches, so the number includes up to two batches more for each
//! connection that is busy.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The number of these pages.
///
/// # Context
///
/// Any; the number is atomic. Readers may see changes late.
pub(crate) struct Held(Atomic<i32>);

impl Held {
    /// Returns a count of 0.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Adds `pages` pages, or subtracts them if the number is negative.
    pub(crate) fn add(&self, pages: i32) {
        self.0.add(pages, Relaxed);
    }

    /// Returns the number of pages.
    #[inline]
    pub(crate) fn count(&self) -> i64 {
        i64::from(self.0.load(Relaxed))
    }
}

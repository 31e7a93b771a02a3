// SPDX-License-Identifier: GPL-2.0

//! The budget of Receive buffers that the connections of a device share.

use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};

/// Counts Receive buffers, which it outlives.
pub struct Budget(Atomic<i32>);

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

impl Budget {
    /// Begins with none.
    pub const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Returns how many buffers there are.
    pub fn used(&self) -> u32 {
        u32::try_from(self.0.load(Relaxed)).unwrap_or(0)
    }

    /// Counts one more buffer. Returns false, and counts none, if there are `limit` already.
    pub(super) fn take(&self, limit: Option<u32>) -> bool {
        let before = self.0.fetch_add(1, Full);
        let fits = limit.is_none_or(|limit| i64::from(before) < i64::from(limit));
        if !fits {
            self.put();
        }
        fits
    }

    /// Counts one buffer less.
    pub(super) fn put(&self) {
        self.0.add(-1, Relaxed);
    }
}

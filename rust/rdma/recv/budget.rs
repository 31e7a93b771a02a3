// SPDX-License-Identifier: GPL-2.0

//! The budget of Receive buffers that connections share.

use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};

/// The number of Receive buffers of all [`ReceivePool`](crate::recv::pool::ReceivePool)s that
/// share the budget.
///
/// A ULP has one budget for each device, for example, and passes its limit to
/// [`ReceivePool::resize`](crate::recv::pool::ReceivePool::resize). Each pool holds a reference,
/// so the budget outlives the buffers. Lock-free; all functions may be called in any context.
pub struct Budget(Atomic<i32>);

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

impl Budget {
    /// Creates a budget without buffers.
    pub const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Returns the number of buffers.
    pub fn used(&self) -> u32 {
        u32::try_from(self.0.load(Relaxed)).unwrap_or(0)
    }

    /// Counts one more buffer. Returns false, and counts none, if there are `limit` buffers
    /// already.
    pub(crate) fn take(&self, limit: Option<u32>) -> bool {
        let before = self.0.fetch_add(1, Full);
        let fits = limit.is_none_or(|limit| i64::from(before) < i64::from(limit));
        if !fits {
            self.put();
        }
        fits
    }

    /// Counts one buffer less.
    pub(crate) fn put(&self) {
        self.0.add(-1, Relaxed);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The budget of Receive buffers that connections share.

use kernel::sync::{
    atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
    Arc, //
};

/// The number of Receive buffers of all [`ReceivePool`](crate::recv::pool::ReceivePool)s that
/// share the budget.
///
/// A ULP has one budget for each device, for example, and passes its limit to
/// [`ReceivePool::resize`](crate::recv::pool::ReceivePool::resize). A budget may be part of
/// another one, which then counts its buffers too. Each pool holds a reference, so the budget
/// outlives the buffers. Lock-free; all functions may be called in any context.
pub struct Budget {
    used: Atomic<i32>,
    /// The budget that this one is part of.
    whole: Option<Arc<Budget>>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

impl Budget {
    /// Creates a budget without buffers.
    pub const fn new() -> Self {
        Self {
            used: Atomic::new(0),
            whole: None,
        }
    }

    /// Creates a budget without buffers that is part of `whole`. The limit of a pool is compared
    /// with this part alone.
    pub const fn part_of(whole: Arc<Budget>) -> Self {
        Self {
            used: Atomic::new(0),
            whole: Some(whole),
        }
    }

    /// Returns the number of buffers.
    pub fn used(&self) -> u32 {
        u32::try_from(self.used.load(Relaxed)).unwrap_or(0)
    }

    /// Counts one more buffer. Returns false, and counts none, if there are `limit` buffers
    /// already.
    pub(crate) fn take(&self, limit: Option<u32>) -> bool {
        let before = self.used.fetch_add(1, Full);
        let fits = limit.is_none_or(|limit| i64::from(before) < i64::from(limit));
        if !fits {
            self.used.add(-1, Relaxed);
        } else if let Some(whole) = &self.whole {
            whole.used.add(1, Relaxed);
        }
        fits
    }

    /// Counts one buffer less.
    pub(crate) fn put(&self) {
        self.used.add(-1, Relaxed);
        if let Some(whole) = &self.whole {
            whole.used.add(-1, Relaxed);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Model of `rdma::device`: a protection domain that counts what is mapped for it.

use core::ops::Deref;
use kernel::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

#[derive(Default)]
pub struct Pd {
    /// Counts, and orders nothing: loom does not know it.
    mapped: AtomicI32,
}

impl Pd {
    pub(crate) fn is(&self, other: &Arc<Pd>) -> bool {
        core::ptr::eq(self, other.deref())
    }

    /// Adds to the buffers that are mapped.
    pub(crate) fn map(&self, count: i32) {
        self.mapped.fetch_add(count, Relaxed);
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(*self.mapped.get_mut(), 0, "buffers are mapped");
        }
    }
}

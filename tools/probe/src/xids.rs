// SPDX-License-Identifier: GPL-2.0

//! XIDs, which are unique among all connections of a command.
//!
//! A server may take a Call with a known XID for a retransmission and repeat its old reply. XIDs start
//! at a random number. A connection takes them in blocks, so that it rarely touches what all share.

use std::{
    cell::Cell,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        atomic::{AtomicU32, Ordering},
        Arc,
    },
};

/// The number of XIDs in a block.
const BLOCK: u32 = 256;

/// The XIDs that no connection has taken.
#[derive(Clone, Debug)]
pub(crate) struct Xids(Arc<AtomicU32>);

impl Xids {
    /// Creates XIDs that start at a random number.
    pub(crate) fn new() -> Self {
        let start = RandomState::new().build_hasher().finish();
        // CAST: the upper half is not needed.
        Self(Arc::new(AtomicU32::new(start as u32)))
    }

    /// Returns the XIDs of a connection.
    pub(crate) fn own(&self) -> OwnXids {
        OwnXids {
            all: self.clone(),
            next: Cell::new(0),
            left: Cell::new(0),
        }
    }
}

/// The XIDs of one connection.
#[derive(Debug)]
pub(crate) struct OwnXids {
    all: Xids,
    /// The next XID, and the number of XIDs that are left in the block.
    next: Cell<u32>,
    left: Cell<u32>,
}

impl OwnXids {
    /// Returns a new XID.
    pub(crate) fn take(&self) -> u32 {
        if self.left.get() == 0 {
            self.next
                .set(self.all.0.fetch_add(BLOCK, Ordering::Relaxed));
            self.left.set(BLOCK);
        }
        let xid = self.next.get();
        self.next.set(xid.wrapping_add(1));
        self.left.set(self.left.get() - 1);
        xid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_xid_comes_twice() {
        let xids = Xids::new();
        // Reaches the largest number soon.
        xids.0.store(u32::MAX - 2 * BLOCK, Ordering::Relaxed);
        let (one, other) = (xids.own(), xids.own());
        let taken = (0..5 * BLOCK).flat_map(|_| [one.take(), other.take()]);
        let different: HashSet<u32> = taken.collect();
        assert_eq!(different.len(), 10 * BLOCK as usize);
    }
}

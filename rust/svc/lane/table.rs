// SPDX-License-Identifier: GPL-2.0

//! The table of a device's connections.
//!
//! A connection is in the table from its connect request until its id is destroyed. After its queue pair
//! is gone it may stay there to wait for the peer's confirmation of the disconnect
//! (`Phase::Leaving`). At most [`LEAVING`] connections wait; the one that
//! has waited longest gives way to the next.

use super::waiter::Waiter;
use kernel::{
    prelude::*,
    rbtree::RBTree,
    sync::Arc, //
};
use support::ring::Ring;

/// A connection, as a lane knows it.
pub(crate) trait Tenant: Send + Sync + Sized + 'static {
    /// A Call that waits for pages.
    type Read: Waiter;

    /// Returns the number of the connection, which no other connection has.
    fn number(&self) -> u64;

    /// Stops waiting for the peer's confirmation of the disconnect. In any process context.
    fn hang_up(self: &Arc<Self>);
}

/// The number of connections that may wait for a confirmation. Each has a message with the connection
/// manager, which has 128 of a port under way at a time (`sol_fc_max` in
/// drivers/infiniband/core/mad.c): half of these are left to others.
const LEAVING: usize = 64;

/// The connections of a device, pending ones included.
pub(crate) struct Table<C: Tenant> {
    table: RBTree<u64, Arc<C>>,
    /// The numbers of the last connections that began to wait for a confirmation, the oldest first. Some
    /// of them may be gone.
    leaving: Ring<u64>,
    /// False from when the device is being removed.
    is_open: bool,
}

impl<C: Tenant> Table<C> {
    /// Makes an empty table. May sleep.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            table: RBTree::new(),
            leaving: Ring::with_capacity(LEAVING)?,
            is_open: true,
        })
    }

    /// Adds a connection. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed, `ENOMEM`.
    pub(crate) fn add(&mut self, connection: &Arc<C>) -> Result {
        if !self.is_open {
            return Err(ENODEV);
        }
        let (number, connection) = (connection.number(), connection.clone());
        self.table
            .try_create_and_insert(number, connection, GFP_KERNEL)?;
        Ok(())
    }

    /// Notes that a connection waits for its peer's confirmation. Returns the connection that must not
    /// wait any longer for its own, if there is one: this one, if the device is being removed.
    pub(crate) fn leave(&mut self, number: u64) -> Option<Arc<C>> {
        if !self.is_open {
            return self.get(number);
        }
        let refused = self.leaving.push(number).err()?;
        let oldest = self.leaving.pop();
        // There is room for it now.
        let _ = self.leaving.push(refused);
        self.get(oldest?)
    }

    /// Takes a connection out.
    pub(crate) fn take(&mut self, number: u64) -> Option<Arc<C>> {
        self.table.remove(&number)
    }

    /// Lets no more connections in, and none wait for its peer.
    pub(crate) fn close(&mut self) {
        self.is_open = false;
    }

    /// Returns true if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Iterates over all connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<C>> {
        self.table.values()
    }

    fn get(&self, number: u64) -> Option<Arc<C>> {
        self.table.get(&number).cloned()
    }
}

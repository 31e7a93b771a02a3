// SPDX-License-Identifier: GPL-2.0

//! The table of a device's connections.
//!
//! A connection is in the table from its connect request until its id is destroyed. After its queue
//! pair is destroyed it may wait there for its peer to confirm the disconnect (`Phase::Leaving`).
//! At most [`MAX_LEAVING`] connections wait; one more makes the oldest hang up.

use crate::svc::conn::connection::Connection;
use kernel::{
    prelude::*,
    rbtree::RBTree,
    sync::Arc, //
};
use support::ring::Ring;

/// The most connections that wait for a confirmation. Each has a message in flight with the
/// connection manager, which handles 128 of a port at a time (`sol_fc_max` in
/// drivers/infiniband/core/mad.c). Half of these are left to others.
const MAX_LEAVING: usize = 64;

/// The connections of a device, pending ones included. The mutex of the device protects the table.
pub(super) struct Table {
    table: RBTree<u64, Arc<Connection>>,
    /// The numbers of the connections that began to wait for a confirmation last, the oldest first.
    /// Some of them may be gone; they are removed when the room is used up.
    leaving: Ring<u64>,
    /// False once the device is being removed.
    is_open: bool,
}

impl Table {
    /// Creates an empty table. May sleep.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            table: RBTree::new(),
            leaving: Ring::with_capacity(MAX_LEAVING)?,
            is_open: true,
        })
    }

    /// Adds a connection. May sleep.
    ///
    /// # Errors
    ///
    /// - `ENODEV` if the device is being removed.
    /// - `ENOMEM`.
    pub(super) fn add(&mut self, connection: &Arc<Connection>) -> Result {
        if !self.is_open {
            return Err(ENODEV);
        }
        let (number, connection) = (connection.number(), connection.clone());
        self.table
            .try_create_and_insert(number, connection, GFP_KERNEL)?;
        Ok(())
    }

    /// Records that connection `number` waits for its peer to confirm the disconnect. Returns a
    /// connection that must hang up instead: the oldest one if too many wait, or `number` itself if
    /// the device is being removed.
    pub(super) fn leave(&mut self, number: u64) -> Option<Arc<Connection>> {
        if !self.is_open {
            return self.get(number);
        }
        let refused = self.leaving.push(number).err()?;
        let table = &self.table;
        self.leaving
            .remove_if(|number| table.get(number).is_none(), drop);
        let oldest = if self.leaving.is_full() {
            self.leaving.pop()
        } else {
            None
        };
        // There is room now.
        let _ = self.leaving.push(refused);
        self.get(oldest?)
    }

    /// Removes a connection and returns it.
    pub(super) fn take(&mut self, number: u64) -> Option<Arc<Connection>> {
        self.table.remove(&number)
    }

    /// Refuses further connections, and lets none wait for a confirmation from now on.
    pub(super) fn close(&mut self) {
        self.is_open = false;
    }

    /// Returns true if the table is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Iterates over all connections.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Connection>> {
        self.table.values()
    }

    /// Returns connection `number`.
    fn get(&self, number: u64) -> Option<Arc<Connection>> {
        self.table.get(&number).cloned()
    }
}

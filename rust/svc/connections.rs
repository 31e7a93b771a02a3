// SPDX-License-Identifier: GPL-2.0

//! The connections of a device, those included of which only the id is left.

use super::conn::Shared;
use kernel::{
    prelude::*,
    rbtree::RBTree,
    sync::Arc, //
};

/// How many closed connections at most have their ids kept until the peer knows.
const LEAVING: usize = 1024;

/// The same for one whose peer's device acknowledges nothing, so that the peer hardly answers: what is
/// told it stays among the 128 messages that a port's connection manager has under way (`sol_fc_max` in
/// drivers/infiniband/core/mad.c).
const SILENT_LEAVING: usize = 64;

/// The connections of a device, pending ones included.
pub(super) struct Connections {
    pub(super) table: RBTree<u64, Arc<Shared>>,
    /// Those of which only the id is left.
    pub(super) leaving: RBTree<u64, Arc<Shared>>,
    /// Whether more may come.
    pub(super) is_open: bool,
}

impl Connections {
    /// Adds one.
    pub(super) fn add(&mut self, shared: &Arc<Shared>) -> Result {
        if !self.is_open {
            return Err(ENODEV);
        }
        let (number, shared) = (shared.number(), shared.clone());
        self.table
            .try_create_and_insert(number, shared, GFP_KERNEL)?;
        Ok(())
    }

    /// As [`Device::let_leave`](super::device::Device::let_leave).
    pub(super) fn let_leave(&mut self, number: u64, is_silent: bool) -> bool {
        let most = if is_silent { SILENT_LEAVING } else { LEAVING };
        if !self.is_open || self.leaving_count() >= most {
            return false;
        }
        let Some(node) = self.table.remove_node(&number) else {
            return false;
        };
        self.leaving.insert(node);
        true
    }

    /// The number of those of which only the id is left.
    pub(super) fn leaving_count(&self) -> usize {
        // Not `count`, which the compiler takes for something that can overflow.
        self.leaving
            .values()
            .fold(0, |n: usize, _| n.saturating_add(1))
    }

    /// Takes the connection out, wherever it is.
    pub(super) fn take(&mut self, number: u64) -> Option<Arc<Shared>> {
        let known = self.table.remove(&number);
        known.or_else(|| self.leaving.remove(&number))
    }

    /// Whether nothing is left of any.
    pub(super) fn are_gone(&self) -> bool {
        self.table.is_empty() && self.leaving.is_empty()
    }

    pub(super) fn new() -> Self {
        Self {
            table: RBTree::new(),
            leaving: RBTree::new(),
            is_open: true,
        }
    }
}

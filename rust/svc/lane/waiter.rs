// SPDX-License-Identifier: GPL-2.0

//! Waiters: the pool's view of a Call that borrows pages.

use super::read_buffer::ReadBuffer;
use svcrdma_proto::shares::PeerClass;

/// A Call whose Read chunks need pages. The pool may park it until it has pages.
pub(crate) trait Waiter: Send + 'static {
    /// Returns the number of pages that the Call needs.
    fn pages(&self) -> usize;

    /// Returns the number of the Call's connection.
    fn user(&self) -> u64;

    /// Returns the present class of the Call's peer.
    fn class(&self) -> PeerClass;

    /// Returns false if the connection is closing, so that the Call needs no pages any more.
    fn is_worthwhile(&self) -> bool;

    /// Starts the RDMA Reads of the Call into `sink`. Returns the sink if the connection is
    /// closing. In any process context; must not sleep.
    fn start(self, sink: ReadBuffer) -> Option<ReadBuffer>;

    /// Drops the Call, because its connection is closing. In any process context; must not sleep.
    fn give_up(self);
}

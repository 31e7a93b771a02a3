// SPDX-License-Identifier: GPL-2.0

//! Waiters: the pool's view of a connection whose Calls wait for pages.

use super::read_buffer::ReadBuffer;
use kernel::sync::Arc;
use svcrdma_proto::shares::PeerClass;

/// A connection whose Calls may wait for pages.
pub(crate) trait Waiter: Send + Sync {
    /// Returns the present class of the peer. In any context.
    fn class(&self) -> PeerClass;

    /// Returns true if the connection is closing, so that its Calls need no pages any more. In any
    /// context.
    fn is_closing(&self) -> bool;

    /// Starts the RDMA Reads of the first waiting Call into `sink`, and makes the connection wait
    /// for the next Call. Returns the sink if the connection is closing. In any process context;
    /// must not sleep.
    fn serve(self: Arc<Self>, sink: ReadBuffer) -> Option<ReadBuffer>;
}

// SPDX-License-Identifier: GPL-2.0

//! Own Receives: the Receive buffers of a connection that shares none with others.

use super::{
    endpoint::Endpoint,
    stats, //
};
use crate::abstractions::{
    rdma::srq::Receives,
    sunrpc::backchannel::SLOTS, //
};
use svcrdma_proto::credits::START;

/// Buffers beside one for each credit: replies to our Calls, and messages that are not counted or
/// are just being handled.
pub(super) const SPARE: u32 = SLOTS + 8;

/// Buffers that a connection begins with.
pub(super) const FIRST: u32 = START + SPARE;

/// The Receive buffers of one connection.
pub(super) struct OwnReceives(Receives<Endpoint>);

impl OwnReceives {
    /// There are none yet; as many may be made as `receives` has room for.
    pub(super) fn new(receives: Receives<Endpoint>) -> Self {
        Self(receives)
    }

    /// The buffers, for what a queue pair is made of.
    pub(super) fn receives(&self) -> &Receives<Endpoint> {
        &self.0
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.count()
    }

    /// The credits that there are buffers for.
    pub(super) fn most_credits(&self) -> u32 {
        let usable = u32::try_from(self.0.usable()).unwrap_or(u32::MAX);
        usable.saturating_sub(SPARE)
    }

    /// Posts what could not be posted; makes half as many more for a busy client that has been
    /// granted `granted` credits, if these are all that there are buffers for. May sleep.
    pub(super) fn tick(&self, is_busy: bool, granted: u32) {
        self.0.retry();
        if !is_busy || granted < self.most_credits() {
            return;
        }
        // Without memory it goes on with what there is, until the next time.
        let before = self.count();
        let _ = self.0.grow((before / 2).max(1));
        let added = self.count().saturating_sub(before);
        stats::RECEIVES_ADDED.add(u32::try_from(added).unwrap_or(u32::MAX));
    }
}

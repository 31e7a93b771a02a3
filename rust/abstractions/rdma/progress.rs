// SPDX-License-Identifier: GPL-2.0

//! Progress: what has completed of the work of a [`Fifo`](super::fifo::Fifo), under its lock, and how
//! long its peer is waited for.

use svcrdma_proto::pace::Pace;

/// How much a piece of work moves.
#[derive(Clone, Copy)]
pub(crate) struct Amount {
    /// Bytes, to the peer or from it.
    pub(crate) bytes: u32,
    /// Pages that RDMA Reads fill.
    pub(crate) filled: u32,
}

/// How much there is in a [`Fifo`](super::fifo::Fifo).
pub(crate) struct Load {
    /// Work requests that are posted.
    pub(crate) posted: u32,
    /// Work that waits.
    pub(crate) waiting: usize,
    /// Seconds that the oldest awaited completion is awaited, 0 if none is.
    pub(crate) oldest: u32,
    /// Seconds that the peer is behind.
    pub(crate) behind: u32,
}

/// How long a peer has been waited for.
#[derive(Default)]
pub(crate) struct Age {
    /// Seconds that the oldest awaited completion is awaited, 0 if none is.
    pub(crate) oldest: u32,
    /// Seconds that the peer is behind, beyond what the largest work that is under way may take; 0 if
    /// no completion is awaited.
    pub(crate) behind: u32,
}

/// What has completed.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) pace: Pace,
    /// Pages that RDMA Reads have filled; wraps around.
    pub(super) filled: u32,
}

impl Progress {
    /// Work has completed that moved so much.
    pub(super) fn count(&mut self, amount: Amount) {
        self.pace.complete(amount.bytes);
        self.filled = self.filled.wrapping_add(amount.filled);
    }
}

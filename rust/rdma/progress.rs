// SPDX-License-Identifier: GPL-2.0

//! Progress: what has completed of the work of a [`SendQueue`](super::send_queue::SendQueue), under its lock, and how
//! long its peer is waited for.

use kernel::time::{
    Instant,
    Monotonic, //
};
use svcrdma_proto::pace::Pace;

/// How much a piece of work moves.
#[derive(Clone, Copy)]
pub struct Amount {
    /// Bytes, to the peer or from it.
    pub bytes: u32,
    /// Pages that RDMA Reads fill.
    pub filled: u32,
}

/// How much there is in a [`SendQueue`](super::send_queue::SendQueue).
pub struct Load {
    /// Work requests that are posted.
    pub posted: u32,
    /// Work that waits.
    pub waiting: usize,
    /// Seconds that the oldest awaited completion is awaited, 0 if none is.
    pub oldest: u32,
    /// Seconds that the peer is behind.
    pub behind: u32,
}

/// How long a peer has been waited for.
#[derive(Default)]
pub struct Age {
    /// Seconds that the oldest awaited completion is awaited, 0 if none is.
    pub oldest: u32,
    /// Seconds that the peer is behind, beyond what the largest work that is under way may take; 0 if
    /// no completion is awaited.
    pub behind: u32,
}

/// The completed work of a `SendQueue`.
pub(super) struct Progress {
    /// When it was made.
    since: Instant<Monotonic>,
    pace: Pace,
    /// Pages that RDMA Reads have filled; wraps around.
    pub(super) filled: u32,
}

impl Progress {
    /// Begins with nothing.
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            pace: Pace::default(),
            filled: 0,
        }
    }

    /// A completion is awaited, or none.
    pub(super) fn set_awaited(&mut self, is_awaited: bool) {
        let since = self.since;
        self.pace.set_awaited(is_awaited, || millis(since));
    }

    /// Looks at the peer, of whom `rate` bytes a second are expected.
    pub(super) fn look(&mut self, rate: u32) {
        self.pace.look(millis(self.since), rate);
    }

    /// Seconds that the peer was behind at the last look.
    pub(super) fn seconds(&self) -> u32 {
        self.pace.seconds()
    }

    /// The same, beyond what `bytes` that are under way may take.
    pub(super) fn behind(&self, bytes: u32, rate: u32) -> u32 {
        self.pace.behind(bytes, rate)
    }

    /// Work has completed that moved so much.
    pub(super) fn count(&mut self, amount: Amount) {
        self.pace.complete(amount.bytes);
        self.filled = self.filled.wrapping_add(amount.filled);
    }
}

/// Milliseconds since then.
// Out of line: scripts/allow-panics names it.
#[inline(never)]
fn millis(since: Instant<Monotonic>) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(0)
}

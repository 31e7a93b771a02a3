// SPDX-License-Identifier: GPL-2.0

//! Progress: the work of a [`SendQueue`](crate::send::queue::SendQueue) that has completed, and the
//! time by which its peer is behind.
//!
//! A peer is behind if it serves RDMA Reads, or takes Sends and RDMA Writes, more slowly than at a
//! minimum rate; see [`svcrdma_proto::pace`].

use svcrdma_proto::pace::Pace;

/// The bytes and pages that a piece of work moves.
#[derive(Clone, Copy, Default)]
pub struct Amount {
    /// Bytes to or from the peer.
    pub bytes: u32,
    /// Pages that RDMA Reads fill.
    pub filled: u32,
}

/// The load of a [`SendQueue`](crate::send::queue::SendQueue).
pub struct Load {
    /// Number of posted work requests.
    pub posted: u32,
    /// Pieces of work that wait, in part or completely, to be posted.
    pub waiting: usize,
    /// Seconds that the oldest awaited completion is awaited, 0 if none is.
    pub oldest: u32,
    /// Seconds by which the peer was behind at the last tick.
    pub behind: u32,
}

/// The time for which completions of a peer are awaited.
#[derive(Default)]
pub struct Age {
    /// Seconds that the oldest awaited completion is awaited, 0 if none is.
    pub oldest: u32,
    /// Seconds by which the peer is behind, less the time that the largest piece of work in the
    /// `SendQueue` may take; 0 if no completion is awaited.
    pub behind: u32,
}

/// The progress of a `SendQueue`, which protects it with its lock.
pub(crate) struct Progress {
    /// Time of creation in milliseconds; times of `pace` count from it.
    since: u64,
    pace: Pace,
    /// Pages that completed RDMA Reads have filled; wraps around.
    pub(crate) filled: u32,
}

impl Progress {
    /// Creates the progress of a `SendQueue` without work.
    pub(crate) fn new() -> Self {
        Self {
            since: uptime(),
            pace: Pace::default(),
            filled: 0,
        }
    }

    /// Starts the completion timer, or stops it.
    #[inline]
    pub(crate) fn set_awaited(&mut self, is_awaited: bool) {
        let since = self.since;
        self.pace
            .set_awaited(is_awaited, || uptime().wrapping_sub(since));
    }

    /// Updates the time by which the peer is behind. `rate` is the minimum rate in bytes per
    /// second.
    pub(crate) fn look(&mut self, rate: u32) {
        let now = uptime().wrapping_sub(self.since);
        self.pace.look(now, rate);
    }

    /// Returns the seconds by which the peer was behind at the last look.
    pub(crate) fn seconds(&self) -> u32 {
        self.pace.seconds()
    }

    /// Returns the seconds by which the peer was behind at the last look, less the time that
    /// `bytes` in flight may take at `rate` bytes per second.
    pub(crate) fn behind(&self, bytes: u32, rate: u32) -> u32 {
        self.pace.behind(bytes, rate)
    }

    /// Counts a completed piece of work that has moved `amount`.
    #[inline]
    pub(crate) fn count(&mut self, amount: Amount) {
        self.pace.complete(amount.bytes);
        self.filled = self.filled.wrapping_add(amount.filled);
    }
}

/// Returns the milliseconds since the boot, in steps of a few: the kernel's clock of higher
/// resolution costs more than a small Reply may.
fn uptime() -> u64 {
    // SAFETY: The function has no preconditions.
    unsafe { bindings::uptime_ms() }
}

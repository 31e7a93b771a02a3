// SPDX-License-Identifier: GPL-2.0

//! Published numbers of a connection: the numbers that its threads read without the lock of the send
//! queue.
//!
//! The endpoint and the [`Sender`](super::sender::Sender), which that lock protects, share them. Each
//! of the numbers is changed by one thread at a time, because a lock or a worker
//! serialises the changes, and is read by others without a lock.
//!
//! # Context
//!
//! Any; takes no lock.

use super::space::Space;
use crate::svc::{
    counters::Enrolled,
    latency::{
        Stamp,
        PERIOD, //
    },
    pages::reply::Reply, //
};
use kernel::time::Instant;
use support::{
    figure::Figure,
    free_list::FreeList, //
};
use svcrdma_proto::credits::{
    Arrivals,
    Overrun, //
};

/// The most idle reply contexts of a connection.
const MAX_CONTEXTS: usize = 24;

/// The published numbers of a connection.
pub(crate) struct Published {
    /// Calls that have arrived, and the credits that the last one has asked for. The worker of the
    /// Receive completion queue changes them.
    calls: Figure<u64>,
    requested: Figure<u32>,
    /// The number of Calls that the client may have sent; wraps around. Changed under the lock of the
    /// send queue.
    pub(super) allowed: Figure<u32>,
    /// The pages of the Replies.
    pub(crate) space: Space,
    /// Idle contexts for Replies.
    pub(crate) contexts: FreeList<Reply, MAX_CONTEXTS>,
    /// The numbers of the connection. The worker of the Receive completion queue counts Calls; all
    /// others change under the lock of the send queue.
    pub(crate) tally: Enrolled,
    /// Calls until the next one that is timed. The worker of the Receive completion queue changes it.
    untimed: Figure<u32>,
}

impl Published {
    /// Creates the numbers of a connection without Calls, whose client may send `allowed` Calls before
    /// the first Reply.
    pub(super) fn new(arrivals: Arrivals, allowed: u32, space: Space, tally: Enrolled) -> Self {
        Self {
            calls: Figure::default(),
            requested: Figure::new(arrivals.requested),
            allowed: Figure::new(allowed),
            space,
            contexts: FreeList::new(),
            tally,
            untimed: Figure::default(),
        }
    }

    /// Returns the number of Calls that have arrived.
    #[inline]
    pub(crate) fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// Returns the time if the next Call is timed. The first Call of a connection is. Only for the
    /// worker of the Receive completion queue.
    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        let left = self.untimed.get();
        if left > 0 {
            self.untimed.set(left.wrapping_sub(1));
            return None;
        }
        self.untimed.set(PERIOD.wrapping_sub(1));
        Some(Instant::now())
    }

    /// Returns the Calls that have arrived.
    ///
    /// The result includes a Call that the calling thread works on: the worker has counted the Call
    /// before it passed the Call on, through the lock of the inbox or of the send queue.
    #[inline]
    pub(super) fn arrivals(&self) -> Arrivals {
        Arrivals {
            // CAST: The credits need the lower half.
            calls: self.calls.get() as u32,
            requested: self.requested.get(),
        }
    }

    /// Counts a Call, which asks for `requested` credits, until its Reply is built or it ends
    /// without one. `requested` is None for a message whose header could not be decoded. Only for
    /// the worker of the Receive completion queue.
    ///
    /// The allowed number that this reads is recent enough for a client that keeps to its grants:
    /// `allowed` is set before the Reply with the grant is posted, and a message that the Reply
    /// allows can only arrive afterwards. The driver orders memory before it rings the doorbell, and
    /// after it has seen a completion.
    ///
    /// # Errors
    ///
    /// [`Overrun`] if the client has sent more Calls than its grants allow.
    #[inline]
    pub(crate) fn on_call(&self, requested: Option<u32>) -> Result<(), Overrun> {
        let mut arrivals = self.arrivals();
        arrivals.on_call(requested, self.allowed.get())?;
        self.calls.add(1);
        self.requested.set(arrivals.requested);
        Ok(())
    }
}

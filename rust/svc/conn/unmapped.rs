// SPDX-License-Identifier: GPL-2.0

//! Shortages of DMA mappings: bounce buffers or IOMMU addresses are used up for some time.
//!
//! A Read or a Reply whose memory cannot be mapped waits in the send queue, and all work behind it.
//! Each completion of the connection tries to map it. The work item of the endpoint tries every
//! [`PAUSE`] besides, because other connections and other drivers may hold the mappings. The
//! connection is closed if mapping fails for `stall_seconds`.

use super::endpoint::Endpoint;
use crate::svc::{
    close_reason::CloseReason,
    settings, //
};
use kernel::{
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};
use rdma::send::queue::Stop;

/// The pause before the next try.
const PAUSE: Delta = Delta::from_millis(5);

/// The number of tries in a second.
const TRIES: u32 = 200;

impl Endpoint {
    /// Counts that work begins to wait for memory to be mapped, and queues the work item that tries
    /// again.
    #[cold]
    #[inline(never)]
    pub(super) fn map_later(&self) {
        // `map_again` clears the flag before each try, and counts the tries of one wait.
        if !self.is_unmapped.xchg(true, Relaxed) && self.mapping_tries.get() == 0 {
            self.connection.counters.mapping_waits.inc();
        }
        // A connection that closes ends all of its work, and has no endpoint any more. One that is being
        // accepted has none yet, see `map_from_now`.
        if let Some(endpoint) = self.connection.endpoint() {
            endpoint.grow_later();
        }
    }

    /// Queues the work item if work waits for memory already. Accept calls this after the connection is
    /// established.
    pub(crate) fn map_from_now(self: &Arc<Self>) {
        if self.is_unmapped.load(Relaxed) {
            self.grow_later();
        }
    }

    /// Pauses, and tries to map the memory that work waits for. Closes the connection if that has
    /// failed for too long. Sleeps.
    pub(super) fn map_again(&self) {
        fsleep(PAUSE);
        self.is_unmapped.store(false, Relaxed);
        let stop = self.send_queue.lock().resume();
        let tries = match stop {
            Stop::Unmapped => self.mapping_tries.get().saturating_add(1),
            _ => 0,
        };
        self.mapping_tries.set(tries);
        self.follow(stop);
        if tries > settings::STALL_SECONDS.get().saturating_mul(TRIES) {
            self.connection.close(CloseReason::NoMemory);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Standing: what nfsd knows of the peer of a connection, and what that lets it have.
//!
//! nfsd threads look at the transport's flag when they have results; all others read what the
//! connection remembers, with one load. A peer that is validated stays so.

use super::connection::Connection;
use kernel::sync::atomic::Relaxed;
use sunrpc::results::Results;
use svcrdma_proto::shares::Standing;

/// The most credits of a peer that is not validated.
const CREDITS: u32 = 8;

impl Connection {
    /// nfsd has results for the peer, and may have validated it. In an nfsd thread.
    pub(crate) fn note_peer(&self, results: &Results<'_>) {
        if self.standing() == Standing::Unvalidated && results.is_peer_valid() {
            self.is_validated.store(true, Relaxed);
        }
    }

    /// Returns the standing of the peer. In any context.
    pub(crate) fn standing(&self) -> Standing {
        match self.is_validated.load(Relaxed) {
            true => Standing::Validated,
            false => Standing::Unvalidated,
        }
    }

    /// Returns how many credits the peer may have.
    pub(crate) fn most_credits(&self) -> u32 {
        match self.standing() {
            Standing::Validated => u32::MAX,
            Standing::Unvalidated => CREDITS,
        }
    }
}

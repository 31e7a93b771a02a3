// SPDX-License-Identifier: GPL-2.0

//! Peer classes: whether the peer of a connection is validated, and the credits that this allows.
//!
//! nfsd sets a flag of the `svc_xprt` when a Call has a valid file handle. nfsd threads note that
//! when they have results. A peer that was validated recently begins as validated
//! ([`recent_peers`](crate::svc::recent_peers)); only what nfsd has seen of this connection makes the
//! peer remembered again. A validated peer stays validated.

use super::connection::Connection;
use sunrpc::results::Results;
use svcrdma_proto::shares::PeerClass;

/// The most credits of a peer that is not validated.
const CREDITS: u32 = 8;

impl Connection {
    /// Copies nfsd's flag, which the Call with these results may have set. Returns true if that
    /// changes the class. In an nfsd thread.
    #[inline]
    pub(crate) fn note_peer(&self, results: &Results<'_>) -> bool {
        if self.is_confirmed.get() || !results.is_peer_valid() {
            return false;
        }
        let is_new = self.class() == PeerClass::Unvalidated;
        self.is_confirmed.set(true);
        self.is_validated.set(true);
        self.counters.recent_peers.note(self.offer.origin);
        is_new
    }

    /// Returns the class of the peer. In any context.
    #[inline]
    pub(crate) fn class(&self) -> PeerClass {
        if self.is_validated.get() {
            PeerClass::Validated
        } else {
            PeerClass::Unvalidated
        }
    }

    /// Returns the most credits that the class of the peer allows.
    #[inline]
    pub(crate) fn most_credits(&self) -> u32 {
        match self.class() {
            PeerClass::Validated => u32::MAX,
            PeerClass::Unvalidated => CREDITS,
        }
    }
}

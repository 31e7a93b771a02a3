// SPDX-License-Identifier: GPL-2.0

//! Peer classes: whether the peer of a connection is validated, and the credits that this allows.
//!
//! nfsd sets a flag of the `svc_xprt` when a Call has a valid file handle. nfsd threads note that
//! when they have results. A peer that was validated recently begins as validated
//! ([`recent_peers`](crate::svc::recent_peers)); only what nfsd has seen of this connection makes the
//! peer remembered again. A validated peer stays validated.

use super::connection::Connection;
use sunrpc::results::Results;
use support::figure::Figure;
use svcrdma_proto::shares::PeerClass;

/// The most credits of a peer that is not validated.
const CREDITS: u32 = 8;

/// The class of a connection's peer. nfsd threads change it, one at a time; others read it.
#[derive(Default)]
pub(crate) struct Validation {
    /// True if the peer counts as validated.
    is_validated: Figure<bool>,
    /// True once nfsd has validated this connection.
    is_confirmed: Figure<bool>,
}

impl Validation {
    /// Returns the class of a new connection, whose peer was validated recently or not.
    pub(crate) fn new(is_recent: bool) -> Self {
        let this = Self::default();
        this.is_validated.set(is_recent);
        this
    }
}

impl Connection {
    /// Copies nfsd's flag, which the Call with these results may have set. In an nfsd thread.
    #[inline]
    pub(crate) fn note_peer(&self, results: &Results<'_>) {
        if !self.validation.is_confirmed.get() && results.is_peer_valid() {
            self.validation.is_confirmed.set(true);
            self.validation.is_validated.set(true);
            self.remember_peer();
        }
    }

    /// Remembers the peer, if nfsd has validated this connection.
    pub(crate) fn remember_peer(&self) {
        if self.validation.is_confirmed.get() {
            self.counters.recent_peers.note(self.offer.origin);
        }
    }

    /// Returns the class of the peer. In any context.
    #[inline]
    pub(crate) fn class(&self) -> PeerClass {
        if self.validation.is_validated.get() {
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

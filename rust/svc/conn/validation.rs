// SPDX-License-Identifier: GPL-2.0

//! Validation: whether the peer of a connection counts as validated, and why.

use support::figure::Figure;
use svcrdma_proto::shares::PeerClass;

/// The validation of a connection's peer. nfsd threads change it, one at a time; others read it.
#[derive(Default)]
pub(crate) struct Validation {
    /// True if the peer counts as validated.
    is_validated: Figure<bool>,
    /// True once nfsd has validated this connection.
    is_confirmed: Figure<bool>,
}

impl Validation {
    /// Returns the validation of a new connection, whose peer was validated recently or not.
    pub(super) fn new(is_recent: bool) -> Self {
        let this = Self::default();
        this.is_validated.set(is_recent);
        this
    }

    /// Returns true if nfsd has validated this connection.
    #[inline]
    pub(super) fn is_confirmed(&self) -> bool {
        self.is_confirmed.get()
    }

    /// Records that nfsd has validated this connection. In an nfsd thread.
    pub(super) fn confirm(&self) {
        self.is_confirmed.set(true);
        self.is_validated.set(true);
    }

    /// Returns the class of the peer. In any context.
    #[inline]
    pub(super) fn class(&self) -> PeerClass {
        if self.is_validated.get() {
            PeerClass::Validated
        } else {
            PeerClass::Unvalidated
        }
    }
}

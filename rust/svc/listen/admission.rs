// SPDX-License-Identifier: GPL-2.0

//! Admission: the decision whether a connect request may wait to be accepted.
//!
//! The connections that wait at a listener are counted by their source ([`svcrdma_proto::source`]),
//! because an attacker has to pay for each further source. When all places are taken, the newest connection
//! of the most frequent source gives way. So whoever fills a listener loses a place to each peer
//! that comes from elsewhere. A connection that has closed stays in the inbox until an nfsd thread takes
//! it, but does not count, and gives way to anyone.

use super::port::{
    Incoming,
    Port, //
};
use crate::svc::counters::Counters;
use core::net::IpAddr;
use kernel::{
    fmt,
    prelude::*, //
};
use sunrpc::inbox::Inbox;
use support::ring::Ring;
use svcrdma_proto::source::{
    Admission,
    Origin,
    Places,
    Source, //
};

/// The connections of a listener that may wait to be accepted.
pub(super) const PLACES: Places = Places { all: 128, each: 16 };

/// The reason why a connect request is refused.
pub(super) enum Refusal {
    /// The setting `release` is 1.
    Released,
    /// The setting `accept_from` does not have this address.
    Address(IpAddr),
    /// The source has as many places as it may take.
    Flood,
    /// All places are taken, and no source has more of them than this one would have.
    Full,
    /// The connection could not be created.
    Error(Error),
}

impl Refusal {
    /// Counts the refusal.
    pub(super) fn count(&self, counters: &Counters) {
        match self {
            Self::Address(_) => counters.rejected_by_address.inc(),
            _ => counters.rejected.inc(),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Places { all, each } = PLACES;
        match self {
            Self::Released => f.write_str("sunrpc/svcrdma/release is 1"),
            Self::Address(address) => {
                write!(f, "{address} is not in sunrpc/svcrdma/accept_from")
            }
            Self::Flood => write!(f, "{each} connections of its source wait already"),
            Self::Full => write!(f, "{all} connections of as many sources wait already"),
            Self::Error(e) => write!(f, "error {}", e.to_errno()),
        }
    }
}

/// Checks a connect request before anything is allocated, so that a refusal costs little.
///
/// Requests that arrive over several devices at the same time may exceed the places of a source by
/// one for each device.
pub(super) fn check(port: &Port, origin: &Origin) -> Result<(), Refusal> {
    if port.is_refusing() {
        return Err(Refusal::Released);
    }
    if let Some(address) = port.counters.accept_from.missing(origin) {
        return Err(Refusal::Address(address));
    }
    match port.inbox.look(|waiting| admit(waiting, &origin.source())) {
        Admission::Free | Admission::Instead(_) => Ok(()),
        Admission::Flood => Err(Refusal::Flood),
        Admission::Full => Err(Refusal::Full),
    }
}

/// Queues a connection for nfsd to accept. If the inbox is full, another one may give way. Returns the
/// connection that has no place.
pub(super) fn queue(inbox: &Inbox<Incoming>, incoming: Incoming) -> Option<Incoming> {
    let choose = |waiting: &Ring<Incoming>, new: &Incoming| match admit(waiting, &new.source) {
        Admission::Instead(index) => Some(index),
        Admission::Free | Admission::Flood | Admission::Full => None,
    };
    match inbox.push_instead(incoming, choose) {
        Ok(gone) => gone,
        Err(refused) => Some(refused.into_inner()),
    }
}

/// Decides on a request from `new` while `waiting` wait.
fn admit(waiting: &Ring<Incoming>, new: &Source) -> Admission {
    let is_closed = |one: &Incoming| one.connection.is_closing();
    // `Iterator::position()` panics on an overflow.
    let mut numbered = waiting.iter().zip(0..usize::MAX);
    let Some((_, closed)) = numbered.find(|(one, _)| is_closed(one)) else {
        return PLACES.admit(waiting.iter().map(|one| &one.source), new);
    };
    let open = waiting.iter().filter(|one| !is_closed(one));
    match PLACES.admit(open.map(|one| &one.source), new) {
        Admission::Free if waiting.is_full() => Admission::Instead(closed),
        admission => admission,
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Recent peers: the peers that nfsd has validated in a network namespace not long ago.
//!
//! A client that connects again counts as validated from its first Call on, so that it does not wait
//! with the peers that nfsd has never validated. A peer is noted when nfsd validates one of its
//! connections and when that connection closes. It is forgotten after the setting
//! `validated_seconds`, or when 256 others have been noted since.
//!
//! # Context
//!
//! Any process context. Nothing is allocated after the table is created.
//!
//! # Locking
//!
//! A spinlock, a leaf. It is taken when a connection comes or goes and when nfsd validates one.

use super::{
    history::seconds_since,
    settings, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock,
    time::{
        Instant,
        Monotonic, //
    },
};
use svcrdma_proto::{
    recent_peers::{
        is_recent,
        note,
        Place, //
    },
    source::Origin, //
};

/// The number of peers that a namespace remembers.
const PEERS: usize = 256;

/// The peers of one network namespace.
pub(crate) struct RecentPeers {
    places: Pin<KBox<SpinLock<KVec<Place>>>>,
    /// The time that the times in the table count from.
    since: Instant<Monotonic>,
}

impl RecentPeers {
    /// Creates a table without peers. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let places = KVec::from_elem(Place::default(), PEERS, GFP_KERNEL)?;
        let lock = new_spinlock!(places, "svcrdma recent peers");
        Ok(Self {
            places: KBox::pin_init(lock, GFP_KERNEL)?,
            since: Instant::now(),
        })
    }

    /// Notes that `peer` is validated now.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&self, peer: Origin) {
        note(&mut self.places.lock(), peer, self.now());
    }

    /// Returns true if `peer` was validated recently.
    pub(crate) fn has(&self, peer: &Origin) -> bool {
        let seconds = settings::VALIDATED_SECONDS.get();
        is_recent(&self.places.lock(), peer, self.now(), seconds)
    }

    /// Returns the present time, in seconds.
    // Out of line, so that scripts/allow-panics names this function and not its callers.
    #[inline(never)]
    fn now(&self) -> u64 {
        u64::try_from(seconds_since(self.since)).unwrap_or(0)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Recent peers: a table of the peers that the server has validated, of fixed size.
//!
//! A peer is known by its [`Origin`]: by the address that it states, and by the address that the
//! server has sent its reply to. Unlike shares, which count by [`Source`](crate::source::Source),
//! other addresses of the same network are other peers. When the table is full, a new peer replaces
//! the one that was noted least recently.

use crate::source::Origin;

/// A place of the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// The peer, if there is one.
    peer: Option<Origin>,
    /// The time at which the peer was noted last, in seconds.
    at: u64,
}

/// Notes in `places` that `peer` is a validated peer at the time `now`, in seconds.
pub fn note(places: &mut [Place], peer: Origin, now: u64) {
    let new = Some(peer);
    let at = places.iter().position(|place| place.peer == new);
    // Free places come first, as `false` is less than `true`.
    let place = match at {
        Some(at) => places.get_mut(at),
        None => places
            .iter_mut()
            .min_by_key(|place| (place.peer.is_some(), place.at)),
    };
    if let Some(place) = place {
        *place = Place { peer: new, at: now };
    }
}

/// Returns true if `peer` was noted in `places` less than `seconds` seconds before the time `now`.
pub fn is_recent(places: &[Place], peer: &Origin, now: u64, seconds: u32) -> bool {
    places
        .iter()
        .find(|place| place.peer.as_ref() == Some(peer))
        .is_some_and(|place| now.saturating_sub(place.at) < seconds.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Fabric;
    use core::net::{
        IpAddr,
        Ipv4Addr, //
    };

    const SECONDS: u32 = 600;

    fn iwarp(last: u8) -> Origin {
        Origin {
            address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)),
            fabric: Fabric::Iwarp,
        }
    }

    #[test]
    fn a_noted_peer_is_recent_for_some_time() {
        let mut places = [Place::default(); 4];
        assert!(!is_recent(&places, &iwarp(1), 0, SECONDS));
        note(&mut places, iwarp(1), 100);
        for (now, expected) in [(100, true), (699, true), (700, false), (u64::MAX, false)] {
            assert_eq!(is_recent(&places, &iwarp(1), now, SECONDS), expected);
        }
        assert!(!is_recent(&places, &iwarp(2), 100, SECONDS));
        assert!(!is_recent(&places, &iwarp(1), 100, 0));
    }

    #[test]
    fn a_peer_that_is_noted_again_takes_no_second_place() {
        let mut places = [Place::default(); 2];
        note(&mut places, iwarp(1), 1);
        note(&mut places, iwarp(2), 2);
        note(&mut places, iwarp(1), 3);
        note(&mut places, iwarp(3), 4);
        let recent = [1, 2, 3].map(|last| is_recent(&places, &iwarp(last), 4, SECONDS));
        assert_eq!(recent, [true, false, true]);
    }

    #[test]
    fn the_least_recently_noted_peer_gives_way() {
        let mut places = [Place::default(); 8];
        // The first eight fill the table at the time 0.
        for last in 0..200 {
            note(&mut places, iwarp(last), (last / 8).into());
            let known = (0..=last).filter(|last| is_recent(&places, &iwarp(*last), 25, SECONDS));
            let known: Vec<u8> = known.collect();
            assert_eq!(known.len(), usize::from(last).min(7) + 1);
            assert!(known.contains(&last));
            assert!(known.iter().all(|one| last / 8 - one / 8 <= 1));
        }
    }

    #[test]
    fn a_table_without_places_knows_nobody() {
        note(&mut [], iwarp(1), 0);
        assert!(!is_recent(&[], &iwarp(1), 0, SECONDS));
    }

    /// A peer may state the address of another one, but has another GID, and the other way round.
    #[test]
    fn both_addresses_of_a_peer_count() {
        let mut places = [Place::default(); 4];
        let at = |address, fabric| Origin { address, fabric };
        let (ours, theirs) = (iwarp(1).address, iwarp(2).address);
        let client = at(ours, Fabric::InfiniBand([1; 16]));
        note(&mut places, client, 0);
        assert!(is_recent(&places, &client, 0, SECONDS));
        for other in [
            at(ours, Fabric::InfiniBand([2; 16])),
            at(theirs, Fabric::InfiniBand([1; 16])),
            at(ours, Fabric::Roce([1; 16])),
            at(ours, Fabric::Iwarp),
        ] {
            assert!(!is_recent(&places, &other, 0, SECONDS), "{other:?}");
        }
    }
}

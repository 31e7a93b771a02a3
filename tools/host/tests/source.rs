// SPDX-License-Identifier: GPL-2.0

//! Connect requests: a listener with a sequence of requests and accepts agrees with a simple model,
//! and no source gets places at the expense of one that has fewer.

mod common;

use common::*;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use svcrdma_proto::ring::Ring;
use svcrdma_proto::source::{Admission, Fabric, Origin, Places, Source};

/// The event of a listener.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request arrives from this source.
    Request(u32),
    /// nfsd accepts the oldest request.
    Accept,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let request = pick![3 => 0..4u32, 1 => 0..100u32];
    let step = pick![9 => request.prop_map(Step::Request), 1 => Just(Step::Accept)];
    prop::collection::vec(step, 0..200)
}

/// A request of a listener: its source, and its number.
type Waiting = (Source, usize);

/// Returns how many requests a source has.
fn of(waiting: &[Waiting], source: Source) -> usize {
    waiting.iter().filter(|(one, _)| *one == source).count()
}

/// Decides as the documentation says: over the list of all requests, the oldest first.
fn model(places: Places, waiting: &mut Vec<Waiting>, new: Waiting) -> Option<usize> {
    let mine = of(waiting, new.0);
    if mine >= places.each {
        return None;
    }
    let mut gone = None;
    if waiting.len() >= places.all {
        let most = waiting.iter().map(|(one, _)| of(waiting, *one)).max()?;
        if most <= mine + 1 {
            return None;
        }
        let last = waiting
            .iter()
            .rposition(|(one, _)| of(waiting, *one) == most)?;
        gone = Some(waiting.remove(last).1);
    }
    waiting.push(new);
    gone.or(Some(usize::MAX))
}

/// Does what [`model`] does with the code of the listener.
fn listener(places: Places, ring: &mut Ring<Vec<Option<Waiting>>>, new: Waiting) -> Option<usize> {
    let admission = places.admit(ring.iter().map(|(source, _)| source), &new.0);
    let gone = match admission {
        Admission::Free => usize::MAX,
        Admission::Instead(index) => ring.remove(index)?.1,
        Admission::Flood | Admission::Full => return None,
    };
    ring.push(new).ok().map(|()| gone)
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn listeners_agree_with_the_model(steps in steps(), all in 0..24usize, each in 1..8usize) {
        let places = Places { all, each };
        let mut ring = Ring::new(vec![None; all]);
        let mut waiting = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Accept => {
                    let oldest = (!waiting.is_empty()).then(|| waiting.remove(0));
                    prop_assert_eq!(ring.pop(), oldest);
                }
                Step::Request(host) => {
                    let new = (Source::Host(host), number);
                    let before = waiting.clone();
                    let expected = model(places, &mut waiting, new);
                    prop_assert_eq!(listener(places, &mut ring, new), expected);
                    prop_assert!(waiting.len() <= all);
                    // Nobody loses a place to a source that has as many.
                    for (source, _) in &before {
                        let (had, has) = (of(&before, *source), of(&waiting, *source));
                        prop_assert!(has >= had || has >= of(&waiting, new.0));
                    }
                    prop_assert!(of(&waiting, new.0) <= each);
                }
            }
            prop_assert!(ring.iter().eq(&waiting));
        }
    }

    #[test]
    fn a_network_of_64_bits_is_one_source(one in any::<u128>(), other in any::<u128>()) {
        let address = |bits| IpAddr::V6(Ipv6Addr::from_bits(bits));
        let source = |bits: u128| {
            let (address, gid) = (address(bits), bits.to_be_bytes());
            let [iwarp, roce] = [Fabric::Iwarp, Fabric::Roce(gid)]
                .map(|fabric| Origin { address, fabric }.source());
            assert_eq!(iwarp, roce);
            roce
        };
        let mapped = |host: u128| 0xffff_0000_0000 | (host & 0xffff_ffff);
        let network = |bits: u128| (bits >> 64 << 64) | (1 << 63);
        let (a, b) = (network(one) | (other >> 65), network(one) | (one & 0xffff));
        prop_assert_eq!(source(a), source(b));
        prop_assert_ne!(source(a), source(a ^ (1 << 64)));
        prop_assert_eq!(source(mapped(one)) == source(mapped(other)), one as u32 == other as u32);
        let plain = Origin {
            address: IpAddr::V4(Ipv4Addr::from_bits(one as u32)),
            fabric: Fabric::Iwarp,
        };
        prop_assert_eq!(source(mapped(one)), plain.source());
    }
}

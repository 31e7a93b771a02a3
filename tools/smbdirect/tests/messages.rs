// SPDX-License-Identifier: GPL-2.0

//! Messages: arbitrary bytes are refused or mean what they are encoded to.

mod common;

use common::*;
use proptest::prelude::*;
use smbdirect::{
    bulk::{
        Head,
        Operation,
        Segments, //
    },
    data::Header,
    descriptor::Descriptor,
};

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 1024,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    // Small numbers are what lengths and counts need to make sense.
    let byte = prop_oneof![3 => Just(0u8), 2 => 0..33u8, 1 => any::<u8>()];
    prop::collection::vec(byte, 0..200)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn arbitrary_bytes_are_decoded(bytes in bytes()) {
        decode(&bytes);
        arbitrary(&bytes);
        let bulk = [b"BULK", &bytes[..]].concat();
        decode(&bulk);
    }

    #[test]
    fn data_come_back(
        requested in any::<u16>(),
        granted in any::<u16>(),
        response_requested in any::<bool>(),
        remaining in any::<u32>(),
        data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let header = Header {
            credits_requested: requested,
            credits_granted: granted,
            response_requested,
            remaining,
            len: data.len() as u32,
        };
        let whole = message(&header, &data);
        prop_assert_eq!(Header::decode(&whole), Ok((header, &data[..])));
    }

    #[test]
    fn pieces_cover_what_the_request_moves(
        lengths in prop::collection::vec(prop_oneof![0..3u32, 0..5000u32], 0..=16),
        part in 0..=100u64,
        cuts in prop::collection::vec(1..2000u32, 1..5),
    ) {
        let room: u64 = lengths.iter().map(|len| u64::from(*len)).sum();
        let length = (room * part / 100) as u32;
        let mut payload = Vec::new();
        for (token, length) in lengths.iter().enumerate() {
            let mut out = [0; Descriptor::LEN];
            let descriptor = Descriptor {
                offset: 10_000 * token as u64,
                token: token as u32,
                length: *length,
            };
            descriptor.encode(&mut out).expect("room");
            payload.extend(out);
        }
        let mut head = Head::request(Operation::Pull, 0);
        (head.length, head.count) = (length, lengths.len() as u16);
        let mut segments = Segments::decode(&head, &payload).expect("room");
        let mut cuts = cuts.iter().cycle();
        let (mut at, mut used) = (0, vec![0; lengths.len()]);
        while let Some(piece) = segments.peek() {
            let len = piece.len.min(*cuts.next().expect("endless"));
            let token = piece.token as usize;
            prop_assert_eq!(piece.at, at);
            prop_assert_eq!(piece.offset, 10_000 * token as u64 + u64::from(used[token]));
            used[token] += len;
            prop_assert!(used[token] <= lengths[token]);
            at += len;
            segments.advance(len);
        }
        prop_assert_eq!(at, length);
    }
}

#[test]
fn there_are_five_operations() {
    assert_eq!(operations().len(), 5);
}

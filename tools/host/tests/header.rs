// SPDX-License-Identifier: GPL-2.0

//! Decoding: what a client encodes comes back, and nothing else gets through or panics.

mod common;

use common::*;
use proptest::prelude::*;
use svcrdma_proto::credits::{Credits, Room};
use svcrdma_proto::encode;
use svcrdma_proto::error::{Answer, DecodeError};
use svcrdma_proto::header::*;
use svcrdma_proto::layout;
use svcrdma_proto::layout::ReadCursor;
use svcrdma_proto::reply;
use svcrdma_proto::reply::{Payload, WriteCursor};

/// Reads back everything a header says.
fn respec(header: &Header, msg: &[u8]) -> Spec {
    let segments = |chunk: svcrdma_proto::chunk::Chunk| -> Vec<Seg> {
        let segments: Vec<_> = chunk.iter(msg).map(|s| tuple(&s)).collect();
        assert_eq!(segments.len() as u32, chunk.segments());
        let sum = segments.iter().map(|s| u64::from(s.1)).sum::<u64>();
        assert_eq!(sum, chunk.capacity(msg));
        segments
    };
    let writes: Vec<_> = header.writes.iter(msg).map(segments).collect();
    assert_eq!(writes.len() as u32, header.writes.chunks());
    let reads: Vec<_> = header
        .reads
        .iter(msg)
        .map(|read| (read.position, tuple(&read.segment)))
        .collect();
    assert_eq!(reads.is_empty(), header.reads.is_empty());
    Spec {
        xid: header.xid,
        credits: header.credits,
        nomsg: header.kind == Kind::Nomsg,
        reads,
        writes,
        reply: header.reply.map(segments),
        body: msg[header.body..].to_vec(),
    }
}

/// Does all that can be done with a received message, to the end.
fn exercise(msg: &[u8], pages: u32, len: u32, payloads: &[Payload], limit: u32, cut: u32) {
    let header = match decode(msg) {
        Ok(Received::Call(header)) => header,
        Ok(Received::Reverse(reverse)) => {
            assert!(reverse.body + 8 <= msg.len());
            return;
        }
        Ok(_) => return,
        Err(error) => {
            let mut out = [0; 28];
            let sent = encode::error(error.answer(), 1, &mut out);
            assert_eq!(sent.is_none(), error.answer() == Answer::Drop);
            return;
        }
    };
    header.invalidatable(msg);
    if let Ok(layout) = layout::plan(&header, msg, pages) {
        assert!(layout.pages() <= pages);
        let mut left = u64::from(layout.sink_len());
        let mut cursor = ReadCursor::new(&layout, &header, msg);
        while let Some(op) = cursor.peek(&header, msg) {
            let len = op.len.min(cut);
            assert!(op.len > 0 && op.sink + op.len <= layout.sink_len());
            cursor.advance(&header, msg, len);
            left = left.checked_sub(u64::from(len)).expect("too many bytes");
        }
        for fill in layout::fills(&layout, &header, msg) {
            let len = match fill {
                layout::Fill::Copy { len, from, .. } => {
                    assert!(from + len as usize <= msg.len());
                    len
                }
                layout::Fill::Zero { len, .. } => len,
            };
            left = left.checked_sub(u64::from(len)).expect("too many bytes");
        }
        assert_eq!(left, 0);
    }
    let plan = reply::plan(&header, msg, len, payloads, limit);
    let mut cursor = WriteCursor::new(&plan);
    while let Some(op) = cursor.peek(&plan, &header, msg) {
        assert!(op.len > 0 && op.src + op.len <= len);
        // Reply streams may be 4 GiB here; the smaller cuts are for the others.
        let len = op.len.min(cut.max(op.len >> 8));
        cursor.advance(&plan, &header, msg, len);
    }
    let mut out = vec![0; msg.len() + 64];
    let written = encode::reply(&plan, &header, msg, 1, &mut out);
    assert_eq!(written.unwrap_or(0), plan.header_len() as usize);
    plan.kept()
        .for_each(|range| assert!(range.start < range.end));
}

fn payloads() -> impl Strategy<Value = Vec<Payload>> {
    let number = || prop_oneof![0..256u32, any::<u32>()];
    let payload = (number(), number()).prop_map(|(offset, len)| Payload { offset, len });
    prop::collection::vec(payload, 0..20)
}

fn size() -> impl Strategy<Value = u32> {
    prop_oneof![0..512u32, 0..65536u32, any::<u32>()]
}

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn decodes_what_was_encoded(spec in spec()) {
        let (msg, body) = spec.encode();
        let Ok(Received::Call(header)) = decode(&msg) else {
            return Err(TestCaseError::fail(format!("{:?}", decode(&msg))));
        };
        prop_assert_eq!(header.body, body);
        let again = respec(&header, &msg);
        prop_assert_eq!(format!("{again:?}"), format!("{spec:?}"));
        let first = spec.reply.iter().flatten().chain(spec.writes.iter().flatten())
            .chain(spec.reads.iter().map(|read| &read.1))
            .find(|segment| segment.0 > 0 && segment.1 > 0).map(|segment| segment.0);
        prop_assert_eq!(header.invalidatable(&msg), first);
    }

    #[test]
    fn no_prefix_of_the_lists_decodes(spec in spec()) {
        let (msg, body) = spec.encode();
        for len in 0..body {
            let error = decode(&msg[..len]).expect_err("a prefix was accepted");
            let answer = if len < 28 { Answer::Drop } else { Answer::Chunk { xid: spec.xid } };
            prop_assert_eq!(error.answer(), answer);
        }
    }

    #[test]
    fn arbitrary_bytes_are_survived(
        msg in prop::collection::vec(
            prop_oneof![3 => Just(0u8), 1 => 0..4u8, 1 => any::<u8>()], 0..512,
        ),
        pages in 0..2000u32, len in size(), payloads in payloads(), limit in size(),
        cut in 1..5000u32,
    ) {
        exercise(&msg, pages, len, &payloads, limit, cut.max(97));
    }

    #[test]
    fn small_words_are_survived(
        words in prop::collection::vec(
            prop_oneof![3 => 0..2u32, 1 => 0..32u32, 1 => any::<u32>()], 0..80,
        ),
        proc in 0..2u32,
        pages in 0..2000u32, len in size(), payloads in payloads(), limit in size(),
    ) {
        let mut msg = Vec::new();
        put(&mut msg, &[7, 1, 32, proc]);
        put(&mut msg, &words);
        exercise(&msg, pages, len, &payloads, limit, 1000);
    }

    #[test]
    fn damaged_messages_are_survived(
        spec in spec(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        pages in 0..2000u32, len in size(), payloads in payloads(), limit in size(),
    ) {
        let (mut msg, _) = spec.encode();
        for (index, byte) in damage {
            *index.get_mut(&mut msg) = byte;
        }
        exercise(&msg, pages, len, &payloads, limit, 1000);
        exercise(&msg[..cut.index(msg.len())], pages, len, &payloads, limit, 1000);
    }

    /// The message may have been replaced in its buffer by another one.
    #[test]
    fn a_header_of_another_message_is_survived(spec in spec(), other in spec(), cut in 1..300u32) {
        let (msg, _) = spec.encode();
        let Ok(Received::Call(header)) = decode(&msg) else { panic!() };
        for (msg, other) in [(msg.clone(), other.encode().0), (msg.clone(), Vec::new())] {
            let layout = layout::plan(&header, &msg, 64).unwrap_or_default();
            let mut cursor = ReadCursor::new(&layout, &header, &msg);
            for _ in 0..1000 {
                cursor.advance(&header, &other, cut);
                cursor.peek(&header, &other);
            }
            layout::fills(&layout, &header, &other).take(1000).for_each(drop);
            let payloads = [Payload { offset: 8, len: 20 }];
            let plan = reply::plan(&header, &msg, 100, &payloads, 1024);
            let mut cursor = WriteCursor::new(&plan);
            for _ in 0..1000 {
                cursor.advance(&plan, &header, &other, cut);
                cursor.peek(&plan, &header, &other);
            }
            encode::reply(&plan, &header, &other, 1, &mut [0; 4096]);
        }
    }

    /// Against a client that respects what it was granted, however the grant moves.
    #[test]
    fn a_good_client_never_overruns(
        start in 0..64u32, events in prop::collection::vec((0..6u8, 0..80u32), 0..400),
    ) {
        let mut credits = Credits::new(start);
        let (mut known, mut open, mut limit) = (1u32, 0u32, start);
        let mut room = Room::Plenty;
        for (event, number) in events {
            match event {
                0 if open < known => {
                    prop_assert!(credits.on_call(number).is_ok());
                    open += 1;
                }
                1 if open > 0 => {
                    known = credits.on_reply(room, limit);
                    prop_assert!(known >= 1 && known <= limit.max(1));
                    open -= 1;
                }
                2 if open > 0 => { credits.on_drop(); open -= 1; }
                3 => limit = number,
                4 => room = Room::of(number, 80),
                5 => credits.look(),
                _ => {}
            }
            prop_assert_eq!(credits.unanswered(), open);
        }
    }
}

/// The longest message there is, full of one-byte chunks at as many positions as fit: refused after
/// a bounded number of passes over the list, however long that is.
#[test]
fn the_worst_read_list_is_refused() {
    let body = body(8);
    let reads = (1..10_000u32).rev().map(|n| (n * 4, (n, 1, 0))).collect();
    let spec = Spec {
        xid: 1,
        credits: 1,
        nomsg: false,
        reads,
        writes: vec![],
        reply: None,
        body,
    };
    let (msg, _) = spec.encode();
    let Ok(Received::Call(header)) = decode(&msg) else {
        panic!()
    };
    let plan = layout::plan(&header, &msg, 1028);
    assert_eq!(plan, Err(DecodeError::TooMany { xid: 1 }));
}

// SPDX-License-Identifier: GPL-2.0

//! Decoding: a client's message is decoded to its contents, and invalid messages are refused
//! without a panic.

mod common;

use common::header::*;
use common::layout::call;
use common::*;
use proptest::prelude::*;
use svcrdma_proto::decode::*;
use svcrdma_proto::encode;
use svcrdma_proto::error::{Answer, Reason};
use svcrdma_proto::header::*;
use svcrdma_proto::layout;
use svcrdma_proto::layout::ReadCursor;
use svcrdma_proto::reply::{Payload, ReplyPlan, WriteCursor};

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn decodes_what_was_encoded(spec in spec()) {
        let (msg, body) = spec.encode();
        let mut header = Header::EMPTY;
        let view = match decode(&msg, &mut header) {
            Ok(Received::Call(view)) => view,
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        prop_assert_eq!(view.header().body, body);
        let again = respec(&view);
        prop_assert_eq!(&again, &spec);
        let first = spec.reply.iter().flatten().chain(spec.writes.iter().flatten())
            .chain(spec.reads.iter().map(|read| &read.1))
            .find(|segment| segment.0 > 0 && segment.1 > 0).map(|segment| segment.0);
        prop_assert_eq!(view.invalidatable(), first);
    }

    /// Read lists of few and many chunks, in ascending order or not.
    #[test]
    fn long_read_lists_are_understood(
        spec in spec(),
        positions in prop::collection::vec(0..16u32, 0..24),
        is_sorted in any::<bool>(),
        served in served(),
    ) {
        let mut reads: Vec<_> = positions.iter().map(|at| (at * 4, (1, 4, 0))).collect();
        if is_sorted {
            reads.sort();
        }
        let (msg, _) = Spec { reads, ..spec }.encode();
        understood(&msg)?;
        exercise(&msg, &served);
    }

    #[test]
    fn no_prefix_of_the_lists_decodes(spec in spec()) {
        let (msg, body) = spec.encode();
        for len in 0..body {
            let error = decode(&msg[..len], &mut Header::default()).expect_err("a prefix was accepted");
            let answer = if len < 28 { Answer::Drop } else { Answer::Chunk { xid: spec.xid } };
            prop_assert_eq!(error.answer(), answer);
        }
    }

    #[test]
    fn arbitrary_bytes_are_survived(
        msg in prop::collection::vec(
            pick![3 => Just(0u8), 1 => 0..4u8, 1 => any::<u8>()], 0..512,
        ),
        served in served(),
    ) {
        understood(&msg)?;
        exercise(&msg, &served);
    }

    #[test]
    fn small_words_are_survived(
        words in prop::collection::vec(
            pick![3 => 0..2u32, 1 => 0..32u32, 1 => any::<u32>()], 0..80,
        ),
        proc in 0..2u32, served in served(),
    ) {
        let mut msg = Vec::new();
        put(&mut msg, &[7, 1, 32, proc]);
        put(&mut msg, &words);
        understood(&msg)?;
        exercise(&msg, &served);
    }

    #[test]
    fn damaged_messages_are_survived(
        spec in spec(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(), served in served(),
    ) {
        let (mut msg, _) = spec.encode();
        for (index, byte) in damage {
            *index.get_mut(&mut msg) = byte;
        }
        for msg in [&msg, &msg[..cut.index(msg.len())]] {
            understood(msg)?;
            exercise(msg, &served);
        }
    }

    /// Another message may have replaced the decoded one in its buffer.
    #[test]
    fn a_header_of_another_message_is_survived(spec in spec(), other in spec(), cut in 1..300u32) {
        let (msg, _) = spec.encode();
        let header = call(&msg);
        for (msg, other) in [(msg.clone(), other.encode().0), (msg.clone(), Vec::new())] {
            let (view, other) = (header.view(&msg), header.view(&other));
            let layout = layout::plan(&view, 64).unwrap_or_default();
            let mut cursor = ReadCursor::new(&layout, &view);
            for _ in 0..1000 {
                cursor.advance(&other, cut);
                cursor.peek();
            }
            layout::fill(&layout, &other, |_| {});
            let mut plan = ReplyPlan::default();
            plan.make(&view, 100, [Payload { offset: 8, len: 20 }], 1024);
            let mut cursor = WriteCursor::new(&plan, &msg);
            for _ in 0..1000 {
                cursor.advance(&plan, other.message(), cut);
                cursor.peek();
            }
            encode::reply(&plan, &other, 1, &mut [0; 4096]);
        }
    }
}

/// The longest possible message, with one-byte chunks at as many positions as fit. It is refused
/// after a bounded number of passes over the list.
#[test]
fn the_worst_read_list_is_refused() {
    let body = body(1, 8);
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
    let refused = decode(&msg, &mut Header::default()).map(|_| ());
    assert_eq!(refused, Err(Reason::TooMany.of(1)));
}

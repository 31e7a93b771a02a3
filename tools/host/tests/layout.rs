// SPDX-License-Identifier: GPL-2.0

//! Reassembly of Calls: RDMA Reads and fills restore the unreduced message byte by byte.

mod common;

use common::layout::*;
use common::*;
use proptest::prelude::*;
use svcrdma_proto::chunk::MAX_UNSORTED_CHUNKS;
use svcrdma_proto::decode::decode;
use svcrdma_proto::error::Reason;
use svcrdma_proto::header::Header;
use svcrdma_proto::layout;
use svcrdma_proto::layout::{Fill, Layout, ReadCursor, PAGE, SPLIT_MIN};

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn calls_are_reassembled(call_of in reduced(), cuts in cuts()) {
        reassembled(&call_of, &cuts)?;
    }

    #[test]
    fn the_budget_holds_exactly(call_of in reduced()) {
        budgeted(&call_of)?;
    }

    /// A Call that fills its pages exactly fits; one more byte does not.
    #[test]
    fn exactly_full_budgets_fit(
        pages in 1..1029u32, over in 0..5u32, first in 1..900u32, shape in 0..4,
    ) {
        let (total, first) = (pages * PAGE + over, first * 4);
        let one = |position, len| (position, (1, len, 0));
        let (nomsg, reads) = match shape {
            0 => (false, vec![one(44, total - 20)]),
            1 => (false, vec![one(48 + first, total - 64 - first), one(44, first)]),
            2 => (true, vec![one(0, first), one(0, total - first)]),
            _ => (true, vec![one(44, total - 64), one(0, 64)]),
        };
        let body = body(5, 64);
        let spec = Spec { xid: 5, credits: 1, nomsg, reads, writes: vec![], reply: None, body };
        let (msg, _) = spec.encode();
        match common::layout::plan(&msg, pages) {
            Ok(layout) => prop_assert_eq!((layout.sink_len(), over), (pages * PAGE, 0)),
            Err(error) => {
                prop_assert!(over > 0);
                prop_assert_eq!(error, Reason::TooLarge.of(5));
            }
        }
    }

    #[test]
    fn plans_agree_with_the_model(list in any_list()) {
        compare(&list)?;
    }
}

/// All Read lists of up to three elements over a small domain.
#[test]
fn small_read_lists_agree_with_the_model() {
    let elements: Vec<(u32, u32)> = [0, 20, 24, 28, 32, 36]
        .into_iter()
        .flat_map(|position| [0, 1, 4, 7].map(|len| (position, len)))
        .collect();
    let check = |reads: &[(u32, u32)]| {
        for (nomsg, len) in [
            (false, 20),
            (false, 24),
            (false, 25),
            (false, 28),
            (true, 24),
        ] {
            let list = AnyList {
                nomsg,
                len,
                reads: reads.to_vec(),
                pages: 1,
            };
            compare(&list).unwrap();
        }
    };
    check(&[]);
    for a in &elements {
        check(&[*a]);
        for b in &elements {
            check(&[*a, *b]);
            for c in &elements {
                check(&[*a, *b, *c]);
            }
        }
    }
}

/// A Call with one chunk of two segments for each of `numbers`, at ascending positions, in this order.
fn numbered(numbers: impl Iterator<Item = u32>) -> Vec<u8> {
    let spec = Spec {
        xid: 5,
        credits: 1,
        nomsg: false,
        reads: numbers
            .flat_map(|n| [1, 3].map(|len| (8 + n * 4, (n, len, 0))))
            .collect(),
        writes: vec![],
        reply: None,
        body: body(5, 8),
    };
    spec.encode().0
}

/// Checks that a Call of [`numbered`] reads `count` chunks in the order of their positions.
fn reads_all(msg: &[u8], count: u32) {
    let header = call(msg);
    let view = header.view(msg);
    let layout = layout::plan(&view, 1028).expect("a good Call");
    assert_eq!(layout, Layout::Linear { len: 8 + 4 * count });
    let mut cursor = ReadCursor::new(&layout, &view);
    for n in 0..count {
        for (at, len) in [(0, 1), (1, 3)] {
            let op = cursor.peek().expect("too few");
            assert_eq!((op.handle, op.sink, op.len), (n, 8 + n * 4 + at, len));
            cursor.advance(&view, len);
        }
    }
    assert_eq!(cursor.peek(), None);
}

/// A Read list in another order than that of its positions has few chunks.
#[test]
fn unsorted_chunks_are_limited() {
    let most = MAX_UNSORTED_CHUNKS as u32;
    reads_all(&numbered((0..most).rev()), most);
    let swapped = |count: u32| numbered([1, 0].into_iter().chain(2..count));
    reads_all(&swapped(most), most);
    for msg in [numbered((0..most + 1).rev()), swapped(most + 1)] {
        let refused = decode(&msg, &mut Header::default()).map(|_| ());
        assert_eq!(refused, Err(Reason::TooMany.of(5)));
    }
}

/// As many chunks at ascending positions as fit into the longest message are accepted.
#[test]
fn ascending_chunks_are_not_limited() {
    for count in [MAX_UNSORTED_CHUNKS as u32 + 1, 5000] {
        reads_all(&numbered(0..count), count);
    }
}

/// A Call that has only empty Read chunks is equivalent to one without chunks, if their positions
/// fit it.
#[test]
fn calls_with_empty_chunks_stay_inline() {
    let plan = |positions: &[u32]| {
        let spec = Spec {
            xid: 5,
            credits: 1,
            nomsg: false,
            reads: positions.iter().map(|at| (*at, (1, 0, 0))).collect(),
            writes: vec![],
            reply: None,
            body: body(5, 61),
        };
        let (msg, _) = spec.encode();
        common::layout::plan(&msg, 0)
    };
    assert_eq!(plan(&[]), Ok(Layout::Inline));
    assert_eq!(plan(&[60, 4, 60]), Ok(Layout::Inline));
    assert_eq!(plan(&[60, 64]), Err(Reason::Beyond.of(5)));
}

/// A chunk that holds a part of the RPC header is not split off, however long it is.
#[test]
fn a_chunk_in_the_rpc_header_stays_linear() {
    let mut body = body(5, 100);
    // A credential of 10 bytes, padded to 12, and an empty verifier: the arguments begin at 52.
    body[28..32].copy_from_slice(&10u32.to_be_bytes());
    body[48..52].fill(0);
    for (position, split) in [
        (8, false),
        (40, false),
        (48, false),
        (52, true),
        (100, true),
    ] {
        let reads = vec![(position, (1, 2000, 0))];
        let spec = Spec {
            xid: 5,
            credits: 1,
            nomsg: false,
            reads,
            writes: vec![],
            reply: None,
            body: body.clone(),
        };
        let (msg, _) = spec.encode();
        let layout = common::layout::plan(&msg, 1028).expect("a good Call");
        assert_eq!(matches!(layout, Layout::Split { .. }), split, "{position}");
    }
}

/// Calls with GSS-wrapped arguments or tokens are not split.
#[test]
fn what_gss_wraps_stays_linear() {
    let plan = |credential: [u32; 4]| {
        let mut body = body(5, 100);
        let [flavor, version, procedure, service] = credential;
        let mut words = vec![];
        put(&mut words, &[flavor, 20, version, procedure, 7, service, 0]);
        // No verifier: the arguments begin at 60.
        put(&mut words, &[0, 0]);
        body[24..60].copy_from_slice(&words);
        let spec = Spec {
            xid: 5,
            credits: 1,
            nomsg: false,
            reads: vec![(60, (1, 2000, 0))],
            writes: vec![],
            reply: None,
            body,
        };
        let (msg, _) = spec.encode();
        common::layout::plan(&msg, 1028)
    };
    let split = Ok(Layout::Split {
        position: 60,
        len: 2000,
        tail: 40,
    });
    let linear = Ok(Layout::Linear { len: 2100 });
    assert_eq!(plan([6, 1, 0, 1]), split);
    for wrapped in [
        [6, 1, 0, 2],
        [6, 1, 0, 3],
        [6, 1, 1, 1],
        [6, 1, 2, 1],
        [6, 1, 3, 1],
        [6, 2, 0, 1],
    ] {
        assert_eq!(plan(wrapped), linear);
    }
    assert_eq!(plan([1, 1, 0, 3]), split);
}

/// The shortest chunk that is split off, and the longest that can be represented.
#[test]
fn split_chunks_have_a_shortest_and_a_longest() {
    let plan = |len| {
        let spec = Spec {
            xid: 5,
            credits: 1,
            nomsg: false,
            reads: vec![(44, (1, len, 0))],
            writes: vec![],
            reply: None,
            body: body(5, 60),
        };
        let (msg, _) = spec.encode();
        common::layout::plan(&msg, u32::MAX)
    };
    let split = |len| {
        Ok(Layout::Split {
            position: 44,
            len,
            tail: 16,
        })
    };
    let len = 60 + SPLIT_MIN;
    assert_eq!(plan(SPLIT_MIN - 1), Ok(Layout::Linear { len }));
    assert_eq!(plan(SPLIT_MIN), split(SPLIT_MIN));
    let too_large = Err(Reason::TooLarge.of(5));
    assert_eq!(plan(u32::MAX - 19), split(u32::MAX - 19));
    assert_eq!(plan(u32::MAX - 18), too_large);
    assert_eq!(plan(u32::MAX - 2), too_large);
}

/// The tail behind a split chunk is placed after its padding and counts towards the pages.
#[test]
fn the_tail_is_behind_the_chunk() {
    for (len, pages) in [(PAGE - 16, 1), (PAGE - 15, 2)] {
        let spec = Spec {
            xid: 5,
            credits: 1,
            nomsg: false,
            reads: vec![(44, (1, len, 0))],
            writes: vec![],
            reply: None,
            body: body(5, 60),
        };
        let (msg, at) = spec.encode();
        let header = call(&msg);
        let view = header.view(&msg);
        let layout = layout::plan(&view, pages).expect("a good Call");
        let padded = len.next_multiple_of(4);
        assert_eq!((layout.sink_len(), layout.pages()), (padded + 16, pages));
        let over = layout::plan(&view, pages - 1);
        assert_eq!(over, Err(Reason::TooLarge.of(5)));
        let mut fills = vec![];
        layout::fill(&layout, &view, |fill| fills.push(fill));
        let copy = Fill::Copy {
            from: at + 44,
            len: 16,
            sink: padded,
        };
        assert_eq!(fills.pop(), Some(copy));
        let zero = Fill::Zero {
            sink: len,
            len: padded - len,
        };
        assert_eq!(fills, vec![zero; usize::from(padded > len)]);
    }
}

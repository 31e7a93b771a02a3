// SPDX-License-Identifier: GPL-2.0

//! Replies: every byte of the stream is sent exactly once, and the header says where.

mod common;

use common::reply::*;
use common::*;
use proptest::prelude::*;
use svcrdma_proto::reply::{Form, Payload, MAX_PAYLOADS};

proptest! {
    #![proptest_config(cases(4096))]

    #[test]
    fn every_byte_arrives_once(case in case(), cuts in cuts()) {
        check(&case, &cuts)?;
    }

    #[test]
    fn exact_chunks_suffice(case in fitting(), cuts in cuts()) {
        check(&case, &cuts)?;
    }
}

/// All Replies over a small domain: the limits of chunks, padding and thresholds.
#[test]
fn small_replies_agree_with_the_model() {
    let chunks: Vec<Vec<u32>> = vec![vec![], vec![0], vec![3], vec![2, 3], vec![4], vec![0, 1, 4]];
    let mut lists = vec![vec![]];
    for a in &chunks {
        lists.push(vec![a.clone()]);
        lists.extend(chunks.iter().map(|b| vec![a.clone(), b.clone()]));
    }
    let at = |offset, len| Payload { offset, len };
    let marks = [
        vec![],
        vec![at(8, 0)],
        vec![at(8, 3)],
        vec![at(8, 4), at(12, 3)],
        vec![at(8, 5), at(16, 0)],
        vec![at(8, 0), at(8, 1), at(12, 2)],
        vec![at(8, 5), at(12, 4)],
    ];
    for writes in &lists {
        for reply in [
            None,
            Some(vec![]),
            Some(vec![16]),
            Some(vec![9, 3]),
            Some(vec![20]),
        ] {
            for payloads in &marks {
                let header = 28
                    + writes
                        .iter()
                        .map(|chunk| 8 + 16 * chunk.len() as u32)
                        .sum::<u32>()
                    + reply
                        .as_ref()
                        .map_or(0, |reply| 4 + 16 * reply.len() as u32);
                for limit in [
                    header - 1,
                    header,
                    header + 8,
                    header + 11,
                    header + 12,
                    header + 40,
                ] {
                    for len in [16, 19, 20] {
                        let case = Case {
                            writes: writes.clone(),
                            reply: reply.clone(),
                            len,
                            payloads: payloads.clone(),
                            limit,
                        };
                        check(&case, &[1, 2]).unwrap_or_else(|error| panic!("{case:?}: {error}"));
                    }
                }
            }
        }
    }
}

/// A chunk without room leaves its result in the stream, and does not affect the others.
#[test]
fn empty_chunks_ask_for_inline_results() {
    let at = |offset, len| Payload { offset, len };
    let mut case = Case {
        writes: vec![vec![8], vec![], vec![0, 0], vec![4, 4]],
        reply: None,
        len: 48,
        payloads: vec![at(8, 5), at(16, 6), at(24, 3), at(32, 7)],
        limit: 4096,
    };
    let plan = Client::new(&case).plan(&case);
    assert_eq!(plan.form, Form::Inline);
    assert_eq!(plan.inline_len(), 48 - 8 - 8);
    let kept: Vec<_> = plan.kept().collect();
    assert_eq!(kept, [0..8, 16..32, 40..48]);
    check(&case, &[3]).unwrap();
    // Results that are too long to be inline are sent in the Reply chunk.
    case.limit = plan.header_len() + 31;
    assert_eq!(Client::new(&case).plan(&case).form, Form::Refused);
    case.limit += 20;
    case.reply = Some(vec![32]);
    assert_eq!(Client::new(&case).plan(&case).form, Form::ReplyChunk);
    check(&case, &[3]).unwrap();
    // A chunk with too little room is an error, as the client wanted it to be used.
    case.writes[2] = vec![0, 2];
    assert_eq!(Client::new(&case).plan(&case).form, Form::Refused);
}

/// The maximum of Write chunks, and further results, which stay inline.
#[test]
fn payloads_are_limited() {
    let count = MAX_PAYLOADS as u32 + 2;
    let case = Case {
        writes: (0..MAX_PAYLOADS).map(|_| vec![8]).collect(),
        reply: None,
        len: 8 + 12 * count,
        payloads: (0..count)
            .map(|n| Payload {
                offset: 12 + 12 * n,
                len: 5,
            })
            .collect(),
        limit: 4096,
    };
    assert_eq!(model(&case).0.len(), MAX_PAYLOADS);
    check(&case, &[3]).unwrap();
}

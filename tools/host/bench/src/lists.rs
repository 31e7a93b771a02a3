// SPDX-License-Identifier: GPL-2.0

//! Calls with long chunk lists.
//!
//! Workers of completion queues walk over the lists, so the instructions for each segment must not
//! grow with the number of segments.

use std::hint::black_box;

use svcrdma_proto::decode::{decode, Received};
use svcrdma_proto::encode;
use svcrdma_proto::error::Reason;
use svcrdma_proto::header::{Header, Kind, View};
use svcrdma_proto::layout::{self, ReadCursor};
use svcrdma_proto::reply::{self, Form, Payload, ReplyPlan, WriteCursor};
use svcrdma_proto::ulb;

use crate::MAX_PAGES;

/// Bytes of the longest message: more than the server accepts, for lists of 256 segments.
const THRESHOLD: u32 = 16_384;
/// Bytes of each segment.
const PIECE: u32 = 64;
/// The RPC header of a COMPOUND.
const RPC: [u32; 10] = [9, 0, 2, 100_003, 4, 1, 0, 0, 0, 0];
/// A WRITE up to the length of its data.
const WRITE: [u32; 8] = [38, 0, 0, 0, 0, 0, 0, 2];
/// Chunks of an unsorted Read list.
const UNSORTED: u32 = 8;

/// A shape of chunk lists.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The name in reports.
    pub name: &'static str,
    /// Creates a Call with this number of segments, a multiple of 16.
    pub call: fn(u32) -> ListCall,
}

/// All shapes.
pub const SHAPES: [Shape; 6] = [
    // A Read chunk for each segment, and a position-zero chunk.
    Shape {
        name: "ascending",
        call: |count| writes(Kind::Nomsg, count, 1, |_| ()),
    },
    Shape {
        name: "inline",
        call: |count| writes(Kind::Msg, count, 1, |_| ()),
    },
    Shape {
        name: "unsorted",
        call: |count| writes(Kind::Nomsg, UNSORTED, count / UNSORTED, interleave),
    },
    Shape {
        name: "refused",
        call: |count| ListCall {
            expected: Err(Reason::TooMany),
            ..writes(Kind::Nomsg, count, 1, |reads| reads.reverse())
        },
    },
    // 16 Write chunks.
    Shape {
        name: "write",
        call: |count| results(count / 16),
    },
    Shape {
        name: "reply",
        call: long_reply,
    },
];

/// A Call with its chunk lists, and its Reply.
#[derive(Debug)]
pub struct ListCall {
    message: Vec<u8>,
    /// The Call after its RDMA Reads.
    whole: Vec<u32>,
    /// Bytes of the reply stream.
    reply_len: u32,
    /// The results for the Write chunks.
    payloads: Vec<Payload>,
    /// Bytes that the Reads and Writes move, or the reason of the decoder's refusal.
    expected: Result<u32, Reason>,
    out: Vec<u8>,
}

impl ListCall {
    /// Does all steps that look at the chunk lists.
    #[inline(never)]
    pub fn serve(&mut self) {
        let mut header = Header::EMPTY;
        let moved = match decode(&self.message, &mut header) {
            Ok(Received::Call(view)) => {
                let read = self.read(&view);
                // The header, not the message, is what the Reply needs.
                Ok(read + self.reply(&header))
            }
            Ok(other) => panic!("not a Call: {other:?}"),
            Err(error) => Err(error.reason),
        };
        assert_eq!(moved, self.expected);
    }

    /// Lays the Call out and lists its RDMA Reads. Returns the number of bytes that they read.
    fn read(&self, view: &View<'_>) -> u32 {
        ulb::check_inline(view).expect("eligible items");
        let layout = layout::plan(view, MAX_PAGES).expect("a layout");
        reply::check_header(view, THRESHOLD).expect("room for the header");
        layout::fill(&layout, view, |fill| {
            black_box(fill);
        });
        let (mut cursor, mut bytes) = (ReadCursor::new(&layout, view), 0);
        while let Some(op) = black_box(cursor.peek()) {
            bytes += op.len;
            cursor.advance(view, op.len);
        }
        if view.header().kind == Kind::Nomsg {
            let word = |at| self.whole.get(at as usize / 4).copied();
            ulb::check_read(view, word, layout.sink_len()).expect("eligible items");
        }
        bytes
    }

    /// Plans the Reply and lists its RDMA Writes. Returns the number of bytes that they write.
    fn reply(&mut self, header: &Header) -> u32 {
        let view = header.view(&self.message);
        let mut plan = ReplyPlan::default();
        let payloads = self.payloads.iter().copied();
        plan.make(&view, self.reply_len, payloads, THRESHOLD);
        assert_ne!(plan.form, Form::Refused);
        black_box(view.invalidatable());
        encode::reply(&plan, &view, 1, &mut self.out).expect("room for the header");
        let (mut cursor, mut bytes) = (WriteCursor::new(&plan, &self.out), 0);
        while let Some(op) = black_box(cursor.peek()) {
            bytes += op.len;
            cursor.advance(&plan, &self.out, op.len);
        }
        bytes
    }
}

/// Returns a Call with `chunks` WRITEs, the data of each in a Read chunk of `segments` segments.
/// `order` changes the order of the Read list, which ascends: positions and lengths.
fn writes(kind: Kind, chunks: u32, segments: u32, order: fn(&mut Vec<[u32; 2]>)) -> ListCall {
    let mut base = RPC.to_vec();
    let (mut whole, mut reads) = (base.clone(), vec![]);
    for _ in 0..chunks {
        let before = [&WRITE[..], &[segments * PIECE]].concat();
        base.extend(&before);
        whole.extend(&before);
        let position = whole.len() as u32 * 4;
        reads.extend(vec![[position, PIECE]; segments as usize]);
        whole.resize(whole.len() + (segments * PIECE / 4) as usize, 7);
    }
    if kind == Kind::Nomsg {
        reads.insert(0, [0, base.len() as u32 * 4]);
        base.clear();
    }
    order(&mut reads);
    let elements = reads
        .iter()
        .flat_map(|&[position, len]| [1, position, 7, len, 0, 0]);
    let lists: Vec<u32> = elements.chain([0, 0, 0]).collect();
    let bytes = reads.iter().map(|read| read[1]).sum();
    ListCall {
        whole,
        ..call(kind, &lists, &base, bytes)
    }
}

/// Changes an ascending Read list to the order that costs most: in turn a segment of each chunk, by
/// descending position. The position-zero chunk is last.
fn interleave(reads: &mut Vec<[u32; 2]>) {
    reads.reverse();
    let zero = reads.pop();
    let turns = reads.len() / UNSORTED as usize;
    let turn = |nth| reads.iter().skip(nth).step_by(turns).copied();
    *reads = (0..turns).flat_map(turn).chain(zero).collect();
}

/// Returns a Call with 16 results, each in a Write chunk of `segments` segments.
fn results(segments: u32) -> ListCall {
    let len = segments * PIECE;
    let chunk = [
        &[1, segments][..],
        &[7, PIECE, 0, 0].repeat(segments as usize),
    ]
    .concat();
    let lists = [&[0][..], &chunk.repeat(16), &[0, 0]].concat();
    ListCall {
        reply_len: 100 + 16 * len,
        payloads: (0..16)
            .map(|nth| Payload {
                offset: 100 + nth * len,
                len,
            })
            .collect(),
        ..call(Kind::Msg, &lists, &RPC, 16 * len)
    }
}

/// Returns a Call whose Reply fills a Reply chunk of `segments` segments.
fn long_reply(segments: u32) -> ListCall {
    let piece = 2 * THRESHOLD / segments;
    let chunk = [7, piece, 0, 0].repeat(segments as usize);
    let lists = [&[0, 0, 1, segments][..], &chunk].concat();
    ListCall {
        reply_len: 2 * THRESHOLD,
        ..call(Kind::Msg, &lists, &RPC, 2 * THRESHOLD)
    }
}

/// Returns a Call with these chunk lists and this inline part, which moves `bytes` bytes.
fn call(kind: Kind, lists: &[u32], inline: &[u32], bytes: u32) -> ListCall {
    let procedure = u32::from(kind == Kind::Nomsg);
    let words = [&[RPC[0], 1, 1, procedure], lists, inline].concat();
    ListCall {
        message: words.iter().flat_map(|word| word.to_be_bytes()).collect(),
        whole: vec![],
        reply_len: 100,
        payloads: vec![],
        expected: Ok(bytes),
        out: vec![0; THRESHOLD as usize],
    }
}

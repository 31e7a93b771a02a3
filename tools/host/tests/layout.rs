// SPDX-License-Identifier: GPL-2.0

//! Reassembly of Calls: RDMA Reads and fills give the unreduced message, byte by byte.

mod common;

use common::*;
use proptest::prelude::*;
use svcrdma_proto::error::{Answer, DecodeError};
use svcrdma_proto::header::*;
use svcrdma_proto::layout;
use svcrdma_proto::layout::{Fill, Layout, ReadCursor, MAX_CHUNKS, PAGE, SPLIT_MIN};

/// A Call the client has reduced.
#[derive(Debug)]
struct Reduced {
    nomsg: bool,
    /// Base stream, as the client holds it.
    base: Vec<u8>,
    /// Bytes of base stream before the chunk, and the chunk; ascending.
    chunks: Vec<(usize, Vec<u8>)>,
    /// Lengths to cut chunks into segments.
    cuts: Vec<u32>,
    /// How to shuffle the Read list.
    shuffle: Vec<prop::sample::Index>,
}

impl Reduced {
    /// Returns the unreduced message and the positions of the chunks in it.
    fn whole(&self) -> (Vec<u8>, Vec<u32>) {
        let (mut out, mut at, mut positions) = (Vec::new(), 0, Vec::new());
        for (gap, chunk) in &self.chunks {
            out.extend(&self.base[at..at + gap]);
            at += gap;
            positions.push(out.len() as u32);
            out.extend(chunk);
            out.resize(out.len() + pad(chunk.len()), 0);
        }
        out.extend(&self.base[at..]);
        out.resize(out.len() + pad(self.base.len()), 0);
        (out, positions)
    }

    /// Cuts `bytes` into segments at `position`.
    fn segments(&self, position: u32, bytes: &[u8], memory: &mut Memory) -> Vec<(u32, Seg)> {
        let (mut rest, mut segments) = (bytes, Vec::new());
        for cut in self.cuts.iter().cycle() {
            let len = match segments.len() {
                // Many chunks begin with an empty segment.
                0 if cut % 2 == 0 => 0,
                // A message has only so much room.
                100.. => rest.len(),
                _ => (*cut).max(1) as usize,
            };
            let (head, tail) = rest.split_at(len.min(rest.len()));
            segments.push((position, memory.add(head.to_vec())));
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        segments
    }

    /// Builds the message, the Read list being shuffled but in order within each chunk.
    fn encode(&self, memory: &mut Memory) -> Vec<u8> {
        let (_, positions) = self.whole();
        let mut queues = Vec::new();
        if self.nomsg {
            queues.push(self.segments(0, &self.base, memory));
        }
        for (position, (_, chunk)) in positions.iter().zip(&self.chunks) {
            queues.push(self.segments(*position, chunk, memory));
        }
        let (mut reads, mut turn) = (Vec::new(), self.shuffle.iter().cycle());
        while !queues.is_empty() {
            let index = turn.next().map_or(0, |turn| turn.index(queues.len()));
            reads.push(queues[index].remove(0));
            queues.retain(|queue| !queue.is_empty());
        }
        Spec {
            xid: 5,
            credits: 9,
            nomsg: self.nomsg,
            reads,
            writes: vec![],
            reply: None,
            body: if self.nomsg {
                vec![]
            } else {
                self.base.clone()
            },
        }
        .encode()
        .0
    }
}

fn reduced() -> impl Strategy<Value = Reduced> {
    let len = prop_oneof![4 => 0..40usize, 1 => 1000..1100usize, 1 => 0..9000usize];
    let chunk = (0..12usize, len, any::<u8>());
    let base = prop_oneof![2 => 8..60usize, 2 => 40..200usize, 1 => 40..9000usize];
    (
        any::<bool>(),
        base,
        prop_oneof![
            prop::collection::vec(chunk.clone(), 1..2),
            prop::collection::vec(chunk, 0..5)
        ],
        prop::collection::vec(prop_oneof![0..50u32, 1000..6000u32], 1..5),
        prop::collection::vec(any::<prop::sample::Index>(), 1..8),
    )
        .prop_map(|(nomsg, len, specs, cuts, shuffle)| {
            let base = body(len);
            let (mut used, mut chunks) = (0, Vec::new());
            for (nth, (gap, len, seed)) in specs.into_iter().enumerate() {
                // Two chunks at one position would be one; position 0 is the body's.
                let least = if nth == 0 { 2 } else { 0 };
                let at = (gap.max(least) * 4).min((base.len() - used) & !3);
                if nth > 0
                    && at == 0
                    && chunks
                        .last()
                        .is_some_and(|(_, c): &(_, Vec<u8>)| c.is_empty())
                {
                    continue;
                }
                used += at;
                chunks.push((at, (0..len).map(|n| n as u8 ^ seed).collect()));
            }
            Reduced {
                nomsg,
                base,
                chunks,
                cuts,
                shuffle,
            }
        })
}

/// Carries out a layout and returns the Call as nfsd would see it.
fn execute(
    layout: &Layout,
    header: &Header,
    msg: &[u8],
    memory: &mut Memory,
    cuts: &[u32],
) -> Vec<u8> {
    let mut sink = Sink::new(layout.sink_len());
    let mut cursor = ReadCursor::new(layout, header, msg);
    let mut cuts = Cuts::new(cuts);
    while let Some(op) = cursor.peek(header, msg) {
        assert!(op.len > 0);
        let len = cuts.next(op.len);
        sink.put(op.sink, &memory.read(op.handle, op.remote, len));
        // What follows a partial advance is the remainder.
        memory.read(op.handle, op.remote, op.len);
        cursor.advance(header, msg, len);
        if let (true, Some(next)) = (len < op.len, cursor.peek(header, msg)) {
            assert_eq!((next.sink, next.len), (op.sink + len, op.len - len));
            assert_eq!(
                (next.handle, next.remote),
                (op.handle, op.remote + u64::from(len))
            );
        }
    }
    cursor.advance(header, msg, 1);
    assert_eq!(cursor.peek(header, msg), None);
    for fill in layout::fills(layout, header, msg) {
        match fill {
            Fill::Copy { len: 0, .. } | Fill::Zero { len: 0 | 4.., .. } => panic!("{fill:?}"),
            Fill::Copy {
                from,
                len,
                sink: at,
            } => sink.put(at, &msg[from..from + len as usize]),
            Fill::Zero { sink: at, len } => sink.put(at, &vec![0; len as usize]),
        }
    }
    assert!(sink.covered_once());
    let inline = &msg[header.body..];
    match *layout {
        Layout::Inline => inline.to_vec(),
        Layout::Linear { .. } => sink.bytes,
        Layout::Split { position, .. } => {
            let head = &inline[..position as usize];
            [head, &sink.bytes].concat()
        }
    }
}

fn call(msg: &[u8]) -> Header {
    match decode(msg) {
        Ok(Received::Call(header)) => header,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn calls_are_reassembled(call_of in reduced(), cuts in cuts()) {
        let mut memory = Memory::default();
        let msg = call_of.encode(&mut memory);
        let header = call(&msg);
        let (mut whole, _) = call_of.whole();
        let layout = layout::plan(&header, &msg, 1028).expect("a good Call");
        if !matches!(layout, Layout::Linear { .. }) {
            // Inline bytes stay what they are.
            whole.truncate(whole.len() - pad(call_of.base.len()));
        }
        prop_assert_eq!(execute(&layout, &header, &msg, &mut memory, &cuts), whole);
        let bytes = header.reads.iter(&msg).any(|read| read.segment.length > 0);
        prop_assert_eq!(layout == Layout::Inline, !bytes);
        if let (false, [(at, chunk)]) = (call_of.nomsg, &call_of.chunks[..]) {
            let split = *at >= 40 && chunk.len() >= SPLIT_MIN as usize;
            prop_assert_eq!(matches!(layout, Layout::Split { .. }), split);
        }
    }

    #[test]
    fn the_budget_holds_exactly(call_of in reduced()) {
        let msg = call_of.encode(&mut Memory::default());
        let header = call(&msg);
        let layout = layout::plan(&header, &msg, u32::MAX).expect("a good Call");
        let pages = layout.pages();
        prop_assert_eq!(pages as usize, (layout.sink_len() as usize).div_ceil(PAGE as usize));
        prop_assert_eq!(layout::plan(&header, &msg, pages), Ok(layout));
        if pages > 0 {
            let over = layout::plan(&header, &msg, pages - 1);
            prop_assert_eq!(over, Err(DecodeError::TooLarge { xid: 5 }));
        }
    }

    /// Full pages to the byte fit; one byte more does not.
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
        let body = body(64);
        let spec = Spec { xid: 5, credits: 1, nomsg, reads, writes: vec![], reply: None, body };
        let (msg, _) = spec.encode();
        match layout::plan(&call(&msg), &msg, pages) {
            Ok(layout) => prop_assert_eq!((layout.sink_len(), over), (pages * PAGE, 0)),
            Err(error) => {
                prop_assert!(over > 0);
                prop_assert_eq!(error, DecodeError::TooLarge { xid: 5 });
            }
        }
    }

    /// Any Read list, most of which have no place in the message.
    #[test]
    fn plans_agree_with_the_model(
        nomsg in any::<bool>(), len in 8..80usize,
        reads in prop::collection::vec(
            (0..24u32, prop_oneof![0..20u32, 1000..1100u32, any::<u32>()]), 0..6,
        ),
        pages in prop_oneof![0..3u32, Just(1028), Just(u32::MAX)],
    ) {
        compare(nomsg, len, reads.iter().map(|(p, l)| (p * 4, *l)).collect(), pages)?;
    }
}

/// Returns the length of the whole Call if its chunks have their places in it.
fn model(nomsg: bool, inline: u64, reads: &[(u32, u32)]) -> Option<u64> {
    let mut chunks = std::collections::BTreeMap::<u32, u64>::new();
    for (position, len) in reads {
        *chunks.entry(*position).or_default() += u64::from(*len);
    }
    let base = if nomsg { chunks.remove(&0)? } else { inline };
    let (mut taken, mut out) = (0, 0);
    for (position, len) in chunks {
        let gap = u64::from(position).checked_sub(out)?;
        taken += gap;
        if taken > base || position == 0 {
            return None;
        }
        out += gap + len.next_multiple_of(4);
    }
    Some(out + (base - taken).next_multiple_of(4))
}

/// Compares a plan with the model.
fn compare(
    nomsg: bool,
    len: usize,
    reads: Vec<(u32, u32)>,
    pages: u32,
) -> Result<(), TestCaseError> {
    let spec = Spec {
        xid: 5,
        credits: 1,
        nomsg,
        reads: reads.iter().map(|(p, l)| (*p, (1, *l, 0))).collect(),
        writes: vec![],
        reply: None,
        body: body(len),
    };
    let (msg, _) = spec.encode();
    let whole = model(nomsg, len as u64, &reads);
    let plan = match decode(&msg) {
        Ok(Received::Call(header)) => layout::plan(&header, &msg, pages),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    };
    match plan {
        Ok(layout) => {
            let header = call(&msg);
            let first = ReadCursor::new(&layout, &header, &msg).peek(&header, &msg);
            prop_assert_eq!(first.is_some(), layout != Layout::Inline);
            prop_assert!(first.is_some() || layout::fills(&layout, &header, &msg).next().is_none());
        }
        Err(error) => prop_assert_eq!(error.answer(), Answer::Chunk { xid: 5 }),
    }
    let budget = u64::from(pages) * u64::from(PAGE);
    match plan {
        Ok(Layout::Inline) => {
            prop_assert!(!nomsg && reads.iter().all(|read| read.1 == 0));
            prop_assert_eq!(Some(len.next_multiple_of(4) as u64), whole);
        }
        Ok(Layout::Linear { len }) => {
            prop_assert_eq!(Some(u64::from(len)), whole);
            prop_assert!(u64::from(len) <= budget);
        }
        Ok(
            layout @ Layout::Split {
                position,
                len: chunk,
                tail,
            },
        ) => {
            prop_assert_eq!(len, (position + tail) as usize);
            let all = u64::from(position) + u64::from(layout.sink_len());
            prop_assert_eq!(Some(all + pad(len) as u64), whole);
            prop_assert!(u64::from(layout.sink_len()) <= budget && chunk >= SPLIT_MIN);
        }
        Err(DecodeError::TooLarge { .. }) => {
            // Whether the rest is in order is not known then; a Split sink lacks the head.
            let sum: u64 = reads.iter().map(|read| u64::from(read.1)).sum();
            prop_assert!(sum + 3 * 8 + len as u64 > budget.min(u64::from(u32::MAX)));
        }
        Err(DecodeError::Empty { .. }) => prop_assert!(whole.is_some_and(|whole| whole < 8)),
        Err(_) => prop_assert_eq!(whole, None),
    }
    Ok(())
}

/// All Read lists of up to three elements over a small domain.
#[test]
fn small_read_lists_agree_with_the_model() {
    let elements: Vec<(u32, u32)> = [0, 4, 8, 12, 16, 20]
        .into_iter()
        .flat_map(|position| [0, 1, 4, 7].map(|len| (position, len)))
        .collect();
    let check = |reads: &[(u32, u32)]| {
        for (nomsg, len) in [(false, 8), (false, 9), (false, 12), (true, 8)] {
            compare(nomsg, len, reads.to_vec(), 1).unwrap();
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

/// As many chunks as are served, backwards; and one more.
#[test]
fn chunks_are_limited() {
    for (count, good) in [(MAX_CHUNKS, true), (MAX_CHUNKS + 1, false)] {
        let reads: Vec<_> = (0..count).rev().map(|n| (8 + n * 4, (n, 4, 0))).collect();
        let spec = Spec {
            xid: 5,
            credits: 1,
            nomsg: false,
            reads,
            writes: vec![],
            reply: None,
            body: body(8),
        };
        let (msg, _) = spec.encode();
        let header = call(&msg);
        match layout::plan(&header, &msg, 1) {
            Ok(layout) => {
                assert!(good);
                assert_eq!(layout, Layout::Linear { len: 8 + 4 * count });
                let mut cursor = ReadCursor::new(&layout, &header, &msg);
                for n in 0..count {
                    let op = cursor.peek(&header, &msg).expect("too few");
                    assert_eq!((op.handle, op.sink, op.len), (n, 8 + n * 4, 4));
                    cursor.advance(&header, &msg, 4);
                }
                assert_eq!(cursor.peek(&header, &msg), None);
            }
            Err(error) => assert!(!good && error == DecodeError::TooMany { xid: 5 }),
        }
    }
}

/// A Call with empty Read chunks only is as good as one without, if they have their places in it.
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
            body: body(61),
        };
        let (msg, _) = spec.encode();
        layout::plan(&call(&msg), &msg, 0)
    };
    assert_eq!(plan(&[]), Ok(Layout::Inline));
    assert_eq!(plan(&[60, 4, 60]), Ok(Layout::Inline));
    assert_eq!(plan(&[60, 64]), Err(DecodeError::Beyond { xid: 5 }));
}

/// A chunk that holds part of the RPC header is not split off, however long.
#[test]
fn a_chunk_in_the_rpc_header_stays_linear() {
    let mut body = body(100);
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
        let layout = layout::plan(&call(&msg), &msg, 1028).expect("a good Call");
        assert_eq!(matches!(layout, Layout::Split { .. }), split, "{position}");
    }
}

/// Arguments that GSS has to unwrap, and tokens, are not split.
#[test]
fn what_gss_wraps_stays_linear() {
    let plan = |credential: [u32; 4]| {
        let mut body = body(100);
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
        layout::plan(&call(&msg), &msg, 1028)
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

/// The shortest chunk that is split off, and the longest that can be counted.
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
            body: body(60),
        };
        let (msg, _) = spec.encode();
        layout::plan(&call(&msg), &msg, u32::MAX)
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
    let too_large = Err(DecodeError::TooLarge { xid: 5 });
    assert_eq!(plan(u32::MAX - 19), split(u32::MAX - 19));
    assert_eq!(plan(u32::MAX - 18), too_large);
    assert_eq!(plan(u32::MAX - 2), too_large);
}

/// What follows a split chunk lies behind its pad, and counts among the pages.
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
            body: body(60),
        };
        let (msg, at) = spec.encode();
        let header = call(&msg);
        let layout = layout::plan(&header, &msg, pages).expect("a good Call");
        let padded = len.next_multiple_of(4);
        assert_eq!((layout.sink_len(), layout.pages()), (padded + 16, pages));
        let over = layout::plan(&header, &msg, pages - 1);
        assert_eq!(over, Err(DecodeError::TooLarge { xid: 5 }));
        let mut fills: Vec<_> = layout::fills(&layout, &header, &msg).collect();
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

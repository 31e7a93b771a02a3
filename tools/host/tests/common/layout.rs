// SPDX-License-Identifier: GPL-2.0

//! Calls that a client has reduced, and a model of their layout.

use super::*;
use svcrdma_proto::chunk::MAX_UNSORTED_CHUNKS;
use svcrdma_proto::decode::*;
use svcrdma_proto::error::{Answer, DecodeError, Reason};
use svcrdma_proto::header::*;
use svcrdma_proto::layout;
use svcrdma_proto::layout::{Fill, Layout, ReadCursor, PAGE, SPLIT_MIN};

/// A Call from which the client has moved data to Read chunks.
#[derive(Debug)]
pub(crate) struct Reduced {
    nomsg: bool,
    /// The base stream, before the client has inserted the chunks.
    base: Vec<u8>,
    /// The chunks in ascending order, each with the number of bytes of the base stream before it.
    chunks: Vec<(usize, Vec<u8>)>,
    /// The lengths of the segments into which chunks are cut.
    cuts: Vec<u32>,
    /// The order in which the Read list is shuffled.
    shuffle: Vec<prop::sample::Index>,
    /// The positions of the Read list ascend instead.
    ascending: bool,
}

impl Reduced {
    /// Returns the unreduced message and the positions of the chunks in it.
    pub(crate) fn whole(&self) -> (Vec<u8>, Vec<u32>) {
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
    pub(crate) fn segments(
        &self,
        position: u32,
        bytes: &[u8],
        memory: &mut Memory,
    ) -> Vec<(u32, Seg)> {
        let (mut rest, mut segments) = (bytes, Vec::new());
        for cut in self.cuts.iter().cycle() {
            let len = match segments.len() {
                // Many chunks begin with an empty segment.
                0 if cut % 2 == 0 => 0,
                // The number of segments is limited by the length of a message.
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

    /// Builds the message. A shuffled Read list keeps its order within each chunk.
    pub(crate) fn encode(&self, memory: &mut Memory) -> Vec<u8> {
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
        if self.ascending {
            reads.sort_by_key(|read| read.0);
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

pub(crate) fn reduced() -> impl Strategy<Value = Reduced> {
    let len = pick![4 => 0..40usize, 1 => 1000..1100usize, 1 => 0..9000usize];
    let chunk = (0..12usize, len, any::<u8>());
    let base = pick![2 => 24..60usize, 2 => 40..200usize, 1 => 40..9000usize];
    (
        any::<bool>(),
        base,
        pick![
            prop::collection::vec(chunk.clone(), 1..2),
            prop::collection::vec(chunk, 0..MAX_UNSORTED_CHUNKS + 1)
        ],
        prop::collection::vec(pick![0..50u32, 1000..6000u32], 1..5),
        prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        any::<bool>(),
    )
        .prop_map(|(nomsg, len, specs, cuts, shuffle, ascending)| {
            let base = body(5, len);
            let (mut used, mut chunks) = (0, Vec::new());
            for (nth, (gap, len, seed)) in specs.into_iter().enumerate() {
                // Two chunks at one position would form one chunk, and position 0 is that of the
                // body.
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
                ascending,
            }
        })
}

/// Executes a layout and returns the Call as nfsd would receive it.
pub(crate) fn execute(
    layout: &Layout,
    view: &View<'_>,
    memory: &mut Memory,
    cuts: &[u32],
) -> Vec<u8> {
    let mut sink = Sink::new(layout.sink_len());
    let mut cursor = ReadCursor::new(layout, view);
    let mut cuts = Cuts::new(cuts);
    while let Some(op) = cursor.peek() {
        assert!(op.len > 0);
        let len = cuts.next(op.len);
        sink.put(op.sink, &memory.read(op.handle, op.remote, len));
        // After a partial advance the cursor returns the remainder.
        memory.read(op.handle, op.remote, op.len);
        cursor.advance(view, len);
        if let (true, Some(next)) = (len < op.len, cursor.peek()) {
            assert_eq!((next.sink, next.len), (op.sink + len, op.len - len));
            assert_eq!(
                (next.handle, next.remote),
                (op.handle, op.remote + u64::from(len))
            );
        }
    }
    cursor.advance(view, 1);
    assert_eq!(cursor.peek(), None);
    layout::fill(layout, view, |fill| match fill {
        Fill::Copy { len: 0, .. } | Fill::Zero { len: 0 | 4.., .. } => panic!("{fill:?}"),
        Fill::Copy {
            from,
            len,
            sink: at,
        } => sink.put(at, &view.message()[from..from + len as usize]),
        Fill::Zero { sink: at, len } => sink.put(at, &vec![0; len as usize]),
    });
    assert!(sink.covered_once());
    let inline = &view.message()[view.header().body..];
    match *layout {
        Layout::Inline => inline.to_vec(),
        Layout::Linear { .. } => sink.bytes,
        Layout::Split { position, .. } => {
            let head = &inline[..position as usize];
            [head, &sink.bytes].concat()
        }
    }
}

/// Returns the header of a Call.
pub(crate) fn call(msg: &[u8]) -> Header {
    let mut header = Header::EMPTY;
    match decode(msg, &mut header) {
        Ok(Received::Call(_)) => header,
        other => panic!("{other:?}"),
    }
}

/// Plans the layout of the Call `msg`.
pub(crate) fn plan(msg: &[u8], pages: u32) -> Result<Layout, DecodeError> {
    layout::plan(&call(msg).view(msg), pages)
}

/// Checks that RDMA Reads and fills restore the Call byte by byte.
pub(crate) fn reassembled(call_of: &Reduced, cuts: &[u32]) -> Verdict {
    let mut memory = Memory::default();
    let msg = call_of.encode(&mut memory);
    let header = call(&msg);
    let view = header.view(&msg);
    let (mut whole, _) = call_of.whole();
    let layout = layout::plan(&view, 1028).expect("a good Call");
    if !matches!(layout, Layout::Linear { .. }) {
        // Inline bytes are unchanged.
        whole.truncate(whole.len() - pad(call_of.base.len()));
    }
    prop_assert_eq!(execute(&layout, &view, &mut memory, cuts), whole);
    let bytes = view.reads().any(|read| read.segment.length > 0);
    prop_assert_eq!(layout == Layout::Inline, !bytes);
    if let (false, [(at, chunk)]) = (call_of.nomsg, &call_of.chunks[..]) {
        let split = *at >= 40 && chunk.len() >= SPLIT_MIN as usize;
        prop_assert_eq!(matches!(layout, Layout::Split { .. }), split);
    }
    Ok(())
}

/// Checks that a Call fits the exact number of pages that it needs, and no fewer.
pub(crate) fn budgeted(call_of: &Reduced) -> Verdict {
    let msg = call_of.encode(&mut Memory::default());
    let layout = plan(&msg, u32::MAX).expect("a good Call");
    let pages = layout.pages();
    prop_assert_eq!(
        pages as usize,
        (layout.sink_len() as usize).div_ceil(PAGE as usize)
    );
    prop_assert_eq!(plan(&msg, pages), Ok(layout));
    if pages > 0 {
        let over = plan(&msg, pages - 1);
        prop_assert_eq!(over, Err(Reason::TooLarge.of(5)));
    }
    Ok(())
}

/// An arbitrary Read list, most of which do not fit the message, and a page budget.
#[derive(Debug, Clone)]
pub(crate) struct AnyList {
    pub(crate) nomsg: bool,
    /// The length of the body in bytes.
    pub(crate) len: usize,
    /// The position and length of each segment.
    pub(crate) reads: Vec<(u32, u32)>,
    pub(crate) pages: u32,
}

pub(crate) fn any_list() -> impl Strategy<Value = AnyList> {
    let len = pick![0..20u32, 1000..1100u32, any::<u32>()];
    (
        any::<bool>(),
        8..80usize,
        prop::collection::vec((0..24u32, len), 0..6),
        pick![0..3u32, Just(1028), Just(u32::MAX)],
    )
        .prop_map(|(nomsg, len, reads, pages)| AnyList {
            nomsg,
            len,
            reads: reads.iter().map(|(p, l)| (p * 4, *l)).collect(),
            pages,
        })
}

/// Returns the length of the whole Call, or `None` if the chunks do not fit it.
pub(crate) fn model(nomsg: bool, inline: u64, reads: &[(u32, u32)]) -> Option<u64> {
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
pub(crate) fn compare(list: &AnyList) -> Verdict {
    let AnyList {
        nomsg,
        len,
        ref reads,
        pages,
    } = *list;
    let spec = Spec {
        xid: 5,
        credits: 1,
        nomsg,
        reads: reads.iter().map(|(p, l)| (*p, (1, *l, 0))).collect(),
        writes: vec![],
        reply: None,
        body: body(5, len),
    };
    let (msg, _) = spec.encode();
    let whole = model(nomsg, len as u64, reads);
    let mut header = Header::EMPTY;
    let plan = match decode(&msg, &mut header) {
        Ok(Received::Call(view)) => layout::plan(&view, pages),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    };
    match plan {
        Ok(layout) => {
            let view = header.view(&msg);
            let first = ReadCursor::new(&layout, &view).peek();
            prop_assert_eq!(first.is_some(), layout != Layout::Inline);
            let mut count = 0;
            layout::fill(&layout, &view, |_| count += 1);
            prop_assert!(first.is_some() || count == 0);
        }
        Err(error) => prop_assert_eq!(error.answer(), Answer::Chunk { xid: 5 }),
    }
    let budget = u64::from(pages) * u64::from(PAGE);
    match plan {
        Ok(Layout::Inline) => {
            prop_assert!(!nomsg && reads.iter().all(|read| read.1 == 0));
            prop_assert!(len >= 24);
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
        Err(error) if error.reason == Reason::TooLarge => {
            // The rest of the list has not been checked then; a Split sink excludes the head.
            let sum: u64 = reads.iter().map(|read| u64::from(read.1)).sum();
            prop_assert!(sum + 3 * 8 + len as u64 > budget.min(u64::from(u32::MAX)));
        }
        Err(error) if error.reason == Reason::Empty => {
            // Inline data has no padding at its end.
            let inline = !nomsg && reads.iter().all(|read| read.1 == 0);
            let pad = if inline { pad(len) as u64 } else { 0 };
            prop_assert!(whole.is_some_and(|whole| whole - pad < 24));
        }
        Err(_) => prop_assert_eq!(whole, None),
    }
    Ok(())
}

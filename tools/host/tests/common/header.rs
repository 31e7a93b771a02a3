// SPDX-License-Identifier: GPL-2.0

//! Received messages: a model of their meaning, and all operations on them.

use super::*;
use svcrdma_proto::chunk::{WriteChunk, MAX_UNSORTED_CHUNKS};
use svcrdma_proto::decode::*;
use svcrdma_proto::encode;
use svcrdma_proto::error::Answer;
use svcrdma_proto::header::*;
use svcrdma_proto::layout;
use svcrdma_proto::layout::ReadCursor;
use svcrdma_proto::reply::{Payload, ReplyPlan, WriteCursor};
use svcrdma_proto::ulb;

/// Converts a decoded header back to a [`Spec`].
pub(crate) fn respec(view: &View<'_>) -> Spec {
    let header = view.header();
    let segments = |chunk: WriteChunk<'_>| -> Vec<Seg> {
        let segments: Vec<_> = chunk.segments().map(|s| tuple(&s)).collect();
        let sum = segments.iter().map(|s| u64::from(s.1)).sum::<u64>();
        assert_eq!(sum, chunk.capacity());
        segments
    };
    let writes: Vec<_> = view.writes().map(segments).collect();
    assert_eq!(writes.len() as u32, view.write_chunks());
    let reads: Vec<_> = view
        .reads()
        .map(|read| (read.position, tuple(&read.segment)))
        .collect();
    Spec {
        xid: header.xid,
        credits: header.credits,
        nomsg: header.kind == Kind::Nomsg,
        reads,
        writes,
        reply: view.reply().map(segments),
        body: view.message()[header.body..].to_vec(),
    }
}

/// The server's parameters for a message.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// The number of pages available for the Call.
    pub(crate) pages: u32,
    /// The length of the Reply in bytes, and its parts that may be in Write chunks.
    pub(crate) len: u32,
    pub(crate) payloads: Vec<Payload>,
    /// The length of the longest message to send, in bytes.
    pub(crate) limit: u32,
    /// The number of bytes that one RDMA operation moves, unless that needs too many operations.
    pub(crate) cut: u32,
}

/// Performs all operations on a received message.
pub(crate) fn exercise(msg: &[u8], served: &Served) {
    let Served {
        pages,
        len,
        ref payloads,
        limit,
        cut,
    } = *served;
    let mut header = Header::EMPTY;
    let view = match decode(msg, &mut header) {
        Ok(Received::Call(view)) => view,
        Ok(Received::Reverse(reverse)) => {
            assert!(reverse.body.len() >= 8 && msg.ends_with(reverse.body));
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
    view.invalidatable();
    let _ = ulb::check_inline(&view);
    let word = |at: u32| Some(u32::from_be_bytes(*msg.get(at as usize..)?.first_chunk()?));
    let _ = ulb::check_read(&view, word, len);
    if let Ok(layout) = layout::plan(&view, pages) {
        assert!(layout.pages() <= pages);
        let mut left = u64::from(layout.sink_len());
        let mut cursor = ReadCursor::new(&layout, &view);
        while let Some(op) = cursor.peek() {
            assert!(op.len > 0 && op.sink + op.len <= layout.sink_len());
            let len = op.len.min(cut.max(op.len >> 8));
            cursor.advance(&view, len);
            left = left.checked_sub(u64::from(len)).expect("too many bytes");
        }
        layout::fill(&layout, &view, |fill| {
            let len = match fill {
                layout::Fill::Copy { len, from, .. } => {
                    assert!(from + len as usize <= msg.len());
                    len
                }
                layout::Fill::Zero { len, .. } => len,
            };
            left = left.checked_sub(u64::from(len)).expect("too many bytes");
        });
        assert_eq!(left, 0);
    }
    let mut plan = ReplyPlan::default();
    plan.make(&view, len, payloads.iter().copied(), limit);
    let mut out = vec![0; msg.len() + 64];
    let written = encode::reply(&plan, &view, 1, &mut out);
    assert_eq!(written.unwrap_or(0), plan.header_len() as usize);
    let mut cursor = WriteCursor::new(&plan, &out);
    while let Some(op) = cursor.peek() {
        assert!(op.len > 0 && op.src + op.len <= len);
        // An operation may be 4 GiB long; the cuts apply to smaller ones.
        let len = op.len.min(cut.max(op.len >> 8));
        cursor.advance(&plan, &out, len);
    }
    plan.kept()
        .for_each(|range| assert!(range.start < range.end));
}

pub(crate) fn served() -> impl Strategy<Value = Served> {
    let number = || pick![0..256u32, any::<u32>()];
    let size = || pick![0..512u32, 0..65536u32, any::<u32>()];
    let payload = (number(), number()).prop_map(|(offset, len)| Payload { offset, len });
    let payloads = prop::collection::vec(payload, 0..20);
    (0..2000u32, size(), payloads, size(), 1..5000u32).prop_map(
        |(pages, len, payloads, limit, cut)| Served {
            pages,
            len,
            payloads,
            limit,
            cut,
        },
    )
}

/// The meaning of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A Call.
    Call(Spec),
    /// A reverse-direction reply.
    Reverse,
    /// RDMA_ERROR or RDMA_DONE.
    Silent,
    /// An invalid message, with the answer to it.
    Refused(Answer),
}

/// A reader that takes words off the front of a message.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    /// Takes a discriminator, which must be 0 or 1.
    fn present(&mut self) -> Option<bool> {
        match self.next()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn segment(&mut self) -> Option<Seg> {
        let (handle, length) = (self.next()?, self.next()?);
        let offset = (u64::from(self.next()?) << 32) | u64::from(self.next()?);
        Some((handle, length, offset))
    }

    fn chunk(&mut self) -> Option<Vec<Seg>> {
        (0..self.next()?).map(|_| self.segment()).collect()
    }

    fn lists(&mut self) -> Option<Lists> {
        let (mut reads, mut writes) = (vec![], vec![]);
        while self.present()? {
            reads.push((self.next()?, self.segment()?));
        }
        while self.present()? {
            writes.push(self.chunk()?);
        }
        let reply = if self.present()? {
            Some(self.chunk()?)
        } else {
            None
        };
        Some((reads, writes, reply))
    }
}

/// The Read list, Write list and Reply chunk.
type Lists = (Vec<(u32, Seg)>, Vec<Vec<Seg>>, Option<Vec<Seg>>);

/// Parses a message as RFC 8166, section 4, defines it.
pub(crate) fn meaning(msg: &[u8]) -> Meaning {
    let mut words = Words(msg);
    let mut fixed = || Some([words.next()?, words.next()?, words.next()?, words.next()?]);
    let Some([xid, version, credits, proc]) = fixed().filter(|fixed| sized(msg, fixed[3])) else {
        return Meaning::Refused(Answer::Drop);
    };
    match (version, proc) {
        (_, 4) | (1, 3) => return Meaning::Silent,
        (1, 0 | 1) => {}
        (1, _) => return Meaning::Refused(Answer::Chunk { xid }),
        _ => return Meaning::Refused(Answer::Version { xid, version }),
    }
    let Some((reads, writes, reply)) = words.lists() else {
        return Meaning::Refused(Answer::Chunk { xid });
    };
    directed(Spec {
        xid,
        credits,
        nomsg: proc == 1,
        reads,
        writes,
        reply,
        body: words.0.to_vec(),
    })
}

/// Returns true if a message is long enough for its header, which is shorter for an ERR_CHUNK, and
/// short enough for RFC 8797.
fn sized(msg: &[u8], proc: u32) -> bool {
    let is_err_vers = msg.get(16..20) == Some(&[0, 0, 0, 1]);
    let shortest = if proc == 4 && !is_err_vers { 20 } else { 28 };
    (shortest..=256 * 1024).contains(&msg.len())
}

/// Distinguishes Calls, reverse-direction replies, and messages with no body or two.
fn directed(spec: Spec) -> Meaning {
    let xid = spec.xid;
    let at_zero = spec.reads.iter().any(|(position, _)| *position == 0);
    let bare = spec.reads.is_empty() && spec.writes.is_empty() && spec.reply.is_none();
    let mut words = Words(&spec.body);
    let rpc_xid = words.next();
    let direction = words.next();
    let aligned = spec.reads.iter().all(|(position, _)| position % 4 == 0);
    let served = aligned && walked(&spec.reads) && spec.writes.len() <= 16;
    match (spec.nomsg, direction) {
        (true, _) if at_zero && served => Meaning::Call(spec),
        (false, Some(0)) if !at_zero && served && rpc_xid == Some(xid) => Meaning::Call(spec),
        (false, Some(1)) if bare => Meaning::Reverse,
        (false, Some(1)) => Meaning::Refused(Answer::Drop),
        _ => Meaning::Refused(Answer::Chunk { xid }),
    }
}

/// Returns true if the positions of a Read list ascend, or if it has few chunks.
fn walked(reads: &[(u32, Seg)]) -> bool {
    let mut positions: Vec<u32> = reads.iter().map(|read| read.0).collect();
    if positions.is_sorted() {
        return true;
    }
    positions.sort();
    positions.dedup();
    positions.retain(|position| *position != 0);
    positions.len() <= MAX_UNSORTED_CHUNKS
}

/// Checks that the decoder agrees with the model.
pub(crate) fn understood(msg: &[u8]) -> Verdict {
    let mut header = Header::EMPTY;
    let decoded = match decode(msg, &mut header) {
        Ok(Received::Call(view)) => Meaning::Call(respec(&view)),
        Ok(Received::Reverse(_)) => Meaning::Reverse,
        Ok(Received::Error { .. } | Received::Ignored) => Meaning::Silent,
        Err(error) => Meaning::Refused(error.answer()),
    };
    prop_assert_eq!(decoded, meaning(msg));
    Ok(())
}

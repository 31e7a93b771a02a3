// SPDX-License-Identifier: GPL-2.0

//! Calls with results, and a model of their Replies.

use super::*;
use svcrdma_proto::decode::*;
use svcrdma_proto::encode;
use svcrdma_proto::header::*;
use svcrdma_proto::reply::{check_header, Form, Payload, ReplyPlan, WriteCursor, MAX_PAYLOADS};

/// The value of bytes of the client's memory that were not written.
pub(crate) const FRESH: u8 = 0xcc;

/// The segments of a chunk.
pub(crate) type Chunk = Vec<Seg>;

/// A Call and its results.
#[derive(Debug)]
pub(crate) struct Case {
    /// The lengths of the segments of each Write chunk.
    pub(crate) writes: Vec<Vec<u32>>,
    pub(crate) reply: Option<Vec<u32>>,
    pub(crate) len: u32,
    pub(crate) payloads: Vec<Payload>,
    pub(crate) limit: u32,
}

/// A received Call and the client's memory.
pub(crate) struct Client {
    memory: Memory,
    spec: Spec,
    msg: Vec<u8>,
    header: Header,
}

impl Client {
    pub(crate) fn new(case: &Case) -> Self {
        let mut memory = Memory::default();
        let mut chunk = |lengths: &Vec<u32>| -> Vec<Seg> {
            let fresh = |len: &u32| memory.add(vec![FRESH; *len as usize]);
            lengths.iter().map(fresh).collect()
        };
        let spec = Spec {
            xid: 77,
            credits: 3,
            nomsg: false,
            reads: vec![],
            writes: case.writes.iter().map(&mut chunk).collect(),
            reply: case.reply.as_ref().map(&mut chunk),
            body: body(77, 8),
        };
        let (msg, _) = spec.encode();
        let mut header = Header::EMPTY;
        assert!(matches!(decode(&msg, &mut header), Ok(Received::Call(_))));
        Self {
            memory,
            spec,
            msg,
            header,
        }
    }

    pub(crate) fn view(&self) -> View<'_> {
        self.header.view(&self.msg)
    }

    pub(crate) fn plan(&self, case: &Case) -> ReplyPlan {
        let mut plan = ReplyPlan::default();
        let payloads = case.payloads.iter().copied();
        plan.make(&self.view(), case.len, payloads, case.limit);
        let header = plan.header_len();
        if header > 0 {
            assert_eq!(check_header(&self.view(), header), Ok(()));
            assert!(check_header(&self.view(), header - 1).is_err());
        }
        plan
    }

    /// Executes the RDMA Writes of `plan`, whose header is `header`. Checks that none exceeds a
    /// segment or writes a byte twice, and that their range and total length are those of the plan.
    pub(crate) fn write(&mut self, plan: &ReplyPlan, header: &[u8], stream: &[u8], cuts: &[u32]) {
        let mut written = 0;
        let (mut start, mut end) = (u32::MAX, 0);
        let mut cuts = Cuts::new(cuts);
        let mut cursor = WriteCursor::new(plan, header);
        while let Some(op) = cursor.peek() {
            assert!(op.len > 0);
            (start, end) = (start.min(op.src), end.max(op.src + op.len));
            let len = cuts.next(op.len);
            let bytes = &stream[op.src as usize..(op.src + len) as usize];
            // The whole operation must be within the segment.
            self.memory.read(op.handle, op.remote, op.len);
            self.memory.write(op.handle, op.remote, bytes, FRESH);
            cursor.advance(plan, header, len);
            written += len;
        }
        assert_eq!(plan.written_len(), written);
        let range = plan.written_range();
        // The last pad need not be written.
        let is_tight = range.start == start && (end..end + 4).contains(&range.end);
        assert!(is_tight || written == 0, "{range:?} for {start}..{end}");
        cursor.advance(plan, header, 1);
        assert_eq!(cursor.peek(), None);
    }

    /// Returns the contents of a returned chunk. Checks that the bytes beyond its lengths are
    /// untouched.
    pub(crate) fn chunk(&mut self, offered: &[Seg], returned: &[Seg]) -> Vec<u8> {
        assert_eq!(offered.len(), returned.len());
        let (mut out, mut full) = (Vec::new(), true);
        for (offer, (handle, length, offset)) in offered.iter().zip(returned) {
            assert_eq!((offer.0, offer.2), (*handle, *offset));
            assert!(
                *length <= offer.1 && (full || *length == 0),
                "not filled in order"
            );
            full = *length == offer.1;
            let bytes = self.memory.read(*handle, *offset, offer.1);
            let (written, rest) = bytes.split_at(*length as usize);
            assert!(rest.iter().all(|byte| *byte == FRESH));
            out.extend(written);
        }
        out
    }
}

/// Parses a Reply as a client does. Returns procedure, chunks and the rest.
pub(crate) fn parse(sent: &[u8]) -> (u32, Vec<Chunk>, Option<Chunk>, &[u8]) {
    let mut words = sent
        .chunks_exact(4)
        .map(|word| u32::from_be_bytes(word.try_into().unwrap()));
    let mut used = 0;
    let mut next = || {
        used += 4;
        words.next().expect("short header")
    };
    assert_eq!((next(), next(), next()), (77, 1, 42));
    let proc = next();
    assert_eq!(next(), 0, "a Read list");
    let mut writes = Vec::new();
    let chunk = |next: &mut dyn FnMut() -> u32| -> Vec<Seg> {
        let count = next();
        let segment = |_| {
            (
                next(),
                next(),
                (u64::from(next()) << 32) | u64::from(next()),
            )
        };
        (0..count).map(segment).collect()
    };
    while next() == 1 {
        writes.push(chunk(&mut next));
    }
    let reply = (next() == 1).then(|| chunk(&mut next));
    (proc, writes, reply, &sent[used..])
}

/// Returns the expected Reply: the payloads that are moved to chunks, and the form.
pub(crate) fn model(case: &Case) -> (Vec<(Payload, u32)>, Form) {
    let (mut reduced, mut end) = (Vec::new(), 0u64);
    for payload in &case.payloads {
        let stop = u64::from(payload.offset) + u64::from(payload.len);
        let good =
            payload.offset % 4 == 0 && u64::from(payload.offset) >= end && stop <= case.len.into();
        if !good {
            continue;
        }
        let nth = reduced.len();
        if nth == MAX_PAYLOADS || nth == case.writes.len() {
            break;
        }
        end = stop.next_multiple_of(4).min(case.len.into());
        let room = case.writes[nth].iter().sum::<u32>();
        if room == 0 {
            // The payload stays in the stream, and the chunk counts as used.
            let offset = payload.offset;
            reduced.push((Payload { offset, len: 0 }, 0));
            continue;
        }
        if room < payload.len {
            return (vec![], Form::Refused);
        }
        reduced.push((*payload, end as u32 - payload.offset));
    }
    let rest = case.len - reduced.iter().map(|(_, gone)| gone).sum::<u32>();
    let chunk = |lengths: &Vec<u32>| 8 + 16 * lengths.len() as u32;
    let header = 28
        + case.writes.iter().map(chunk).sum::<u32>()
        + case.reply.as_ref().map_or(0, |reply| chunk(reply) - 4);
    let form = match &case.reply {
        _ if header + rest <= case.limit => Form::Inline,
        Some(reply) if header <= case.limit && reply.iter().sum::<u32>() >= rest => {
            Form::ReplyChunk
        }
        _ => Form::Refused,
    };
    (reduced, form)
}

/// Executes a case and compares it with the model.
pub(crate) fn check(case: &Case, cuts: &[u32]) -> Verdict {
    let stream: Vec<u8> = (0..case.len).map(|at| (at % 199) as u8).collect();
    let mut client = Client::new(case);
    let plan = client.plan(case);
    let (reduced, form) = model(case);
    prop_assert_eq!(plan.form, form);
    let mut out = [0; 4096];
    let length = encode::reply(&plan, &client.view(), 42, &mut out);
    if form == Form::Refused {
        client.write(&plan, &[], &stream, cuts);
        prop_assert_eq!((length, plan.header_len(), plan.inline_len()), (None, 0, 0));
        prop_assert_eq!(plan.kept().count(), 0);
        return Ok(());
    }
    let length = length.expect("too small");
    prop_assert_eq!(length, plan.header_len() as usize);
    client.write(&plan, &out[..length], &stream, cuts);
    let short = encode::reply(&plan, &client.view(), 42, &mut [0; 4096][..length - 1]);
    prop_assert_eq!(short, None);

    let kept = check_kept(&plan, &stream, &reduced)?;
    let mut sent = out[..length].to_vec();
    if form == Form::Inline {
        prop_assert_eq!(plan.inline_len() as usize, kept.len());
        sent.extend(&kept);
    } else {
        prop_assert_eq!(plan.inline_len(), 0);
    }
    prop_assert!(sent.len() <= case.limit as usize);
    let (proc, writes, reply, inline) = parse(&sent);
    let spec = client.spec.clone();
    prop_assert_eq!(writes.len(), spec.writes.len());
    for (nth, (offered, returned)) in spec.writes.iter().zip(&writes).enumerate() {
        let written = client.chunk(offered, returned);
        let payload = reduced.get(nth).map_or(0..0, |(p, _)| {
            p.offset as usize..(p.offset + p.len) as usize
        });
        prop_assert_eq!(&written[..], &stream[payload]);
    }
    prop_assert_eq!(reply.is_some(), spec.reply.is_some());
    let replied = match (spec.reply, reply) {
        (Some(offered), Some(returned)) => client.chunk(&offered, &returned),
        _ => vec![],
    };
    let (message, other) = if form == Form::Inline {
        (inline, &replied[..])
    } else {
        (&replied[..], inline)
    };
    prop_assert_eq!(proc, u32::from(form == Form::ReplyChunk));
    prop_assert_eq!(message, &kept[..]);
    prop_assert!(other.is_empty());
    Ok(())
}

/// Checks the ranges that stay in the stream. Returns their bytes.
fn check_kept(
    plan: &ReplyPlan,
    stream: &[u8],
    reduced: &[(Payload, u32)],
) -> Result<Vec<u8>, TestCaseError> {
    let mut kept = Vec::new();
    let mut last = 0;
    for range in plan.kept() {
        prop_assert!(range.start < range.end && range.start >= last);
        last = range.end;
        kept.extend(&stream[range.start as usize..range.end as usize]);
    }
    let mut expected = stream.to_vec();
    for (payload, gone) in reduced.iter().rev() {
        expected.drain(payload.offset as usize..(payload.offset + gone) as usize);
    }
    prop_assert_eq!(&kept, &expected);
    Ok(kept)
}

pub(crate) fn lengths(max: usize) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(pick![0..40u32, 100..3000u32], 0..=max)
}

pub(crate) fn case() -> impl Strategy<Value = Case> {
    let item = (0..12u32, pick![0..40u32, 0..2000u32], 0..24u32);
    (
        prop::collection::vec(lengths(4), 0..5),
        pick::option(lengths(5)),
        prop::collection::vec(item, 0..6),
        0..1000u32,
        pick![28..300u32, Just(1024), Just(4096), 28..8000u32],
    )
        .prop_map(|(writes, reply, items, tail, limit)| {
            let (mut at, mut payloads) = (8, Vec::new());
            for (gap, len, odd) in items {
                let offset = at + gap * 4;
                at = (offset + len).next_multiple_of(4);
                payloads.push(match odd {
                    // Marks that no encoder should make.
                    0 => Payload {
                        offset: offset + 1,
                        len,
                    },
                    1 => Payload {
                        offset: offset.saturating_sub(40),
                        len,
                    },
                    2 => Payload {
                        offset,
                        len: len + 5000,
                    },
                    3 => Payload {
                        offset,
                        len: u32::MAX,
                    },
                    _ => Payload { offset, len },
                });
            }
            Case {
                writes,
                reply,
                len: at + tail,
                payloads,
                limit,
            }
        })
}

/// Generates cases with chunks of the required lengths, so that most Replies are sent.
pub(crate) fn fitting() -> impl Strategy<Value = Case> {
    (case(), 0..2u32, 1..50u32).prop_map(|(mut case, room, split)| {
        let fit = |len: u32, room| vec![len / split, 0, len - len / split + room];
        case.payloads
            .retain(|payload| payload.offset % 4 == 0 && payload.len < 5000);
        case.writes = case.payloads.iter().map(|p| fit(p.len, room)).collect();
        case.reply = Some(fit(case.len, 0));
        case
    })
}

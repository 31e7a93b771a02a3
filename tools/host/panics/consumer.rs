// SPDX-License-Identifier: GPL-2.0

//! Calls everything in `svcrdma_proto` with values unknown to the compiler, so that iterators and
//! generic functions, which are compiled where they are used, are part of an object, too.

#![no_std]
#![allow(missing_docs)]

use svcrdma_proto::callbacks::{self, Counted, NoCredit, Unanswered};
use svcrdma_proto::cm::{Peer, Thresholds};
use svcrdma_proto::credits::{Arrivals, Credits, Overrun};
use svcrdma_proto::decode::{decode, Received};
use svcrdma_proto::encode;
use svcrdma_proto::error::{Answer, DecodeError};
use svcrdma_proto::header::{Header, View};
use svcrdma_proto::layout::{self, Fill, Layout, ReadCursor, ReadOp};
use svcrdma_proto::prefixes::{Invalid, Prefix, Prefixes};
use svcrdma_proto::reply::{self, Payload, ReplyPlan, WriteCursor, WriteOp};
use svcrdma_proto::ring::Ring;
use svcrdma_proto::rpc;
use svcrdma_proto::source::{Admission, Origin, Places, Source};
use svcrdma_proto::space::Standing;
use svcrdma_proto::sq::{Signals, SqSlots};
use svcrdma_proto::ulb;

#[no_mangle]
pub fn use_decode<'m>(
    message: &'m [u8],
    header: &'m mut Header,
) -> Result<Received<'m>, DecodeError> {
    decode(message, header)
}

#[no_mangle]
pub fn use_callbacks(
    calls: &mut Unanswered<16>,
    xid: u32,
    granted: Option<u32>,
) -> Result<Counted, NoCredit> {
    calls.tick(xid);
    calls.on_answer(xid, granted);
    calls.on_call(callbacks::under_way(xid), xid)
}

#[no_mangle]
pub fn use_space(standing: &Standing, running: i32) -> bool {
    standing.has_space(|| running)
}

#[no_mangle]
pub fn use_source(places: &Places, waiting: &[Source], new: &Origin) -> Admission {
    places.admit(waiting.iter(), &new.source())
}

#[no_mangle]
pub fn use_prefixes<'s>(
    text: &str,
    slots: &'s [Prefix],
    new: &Origin,
    out: &mut dyn core::fmt::Write,
) -> Result<bool, Invalid> {
    let list = Prefixes::parse(text, slots, |list, prefix| {
        // A list that has all that it is to have.
        if list.contains(&prefix) {
            Ok(())
        } else {
            Err(Invalid)
        }
    })?;
    out.write_fmt(format_args!("{list}")).map_err(|_| Invalid)?;
    Ok(new.addresses().all(|address| list.contains(address)))
}

#[no_mangle]
pub fn use_lists(view: &View<'_>) -> (u64, Option<u32>) {
    let mut sum = 0u64;
    for read in view.reads() {
        sum ^= u64::from(read.position) ^ read.segment.offset;
    }
    for chunk in view.writes().chain(view.reply()) {
        sum ^= chunk.capacity();
        for segment in chunk.segments() {
            sum ^= segment.offset;
        }
    }
    sum ^= u64::from(view.write_chunks());
    (sum, view.invalidatable())
}

#[no_mangle]
pub fn use_ring(slots: &mut [Option<u32>], items: &[u32]) -> (Option<u32>, u32) {
    let mut ring = Ring::new(slots);
    for item in items {
        if let Err(refused) = ring.push(*item) {
            return (ring.pop(), refused);
        }
    }
    let sum = ring.iter().fold(0, |sum, item| sum ^ item);
    let sum = sum ^ ring.remove(sum as usize).unwrap_or(0);
    let first = ring.front_mut().copied();
    (
        first,
        sum ^ u32::from(ring.is_empty()) ^ (ring.len() as u32),
    )
}

#[no_mangle]
pub fn use_layout(view: &View<'_>, pages: u32) -> Result<Layout, DecodeError> {
    layout::plan(view, pages)
}

#[no_mangle]
pub fn use_call(xid: u32, call: &[u32]) -> Result<(), DecodeError> {
    rpc::check_call(xid, |at| call.get(at as usize / 4).copied())
}

#[no_mangle]
pub fn use_ulb_inline(view: &View<'_>) -> Result<(), DecodeError> {
    ulb::check_inline(view)
}

#[no_mangle]
pub fn use_ulb_read(view: &View<'_>, call: &[u32]) -> Result<(), DecodeError> {
    ulb::check_read(view, |at| call.get(at as usize / 4).copied(), 4096)
}

#[no_mangle]
pub fn use_ulb_result(version: u32, stream: &[u32], result: &Payload) -> bool {
    ulb::is_result(version, |at| stream.get(at as usize / 4).copied(), result)
}

#[no_mangle]
pub fn use_sink(layout: &Layout) -> (u32, u32) {
    (layout.sink_len(), layout.pages())
}

#[no_mangle]
pub fn use_read_new(layout: &Layout, view: &View<'_>) -> ReadCursor {
    ReadCursor::new(layout, view)
}

#[no_mangle]
pub fn use_read(cursor: &mut ReadCursor, view: &View<'_>, len: u32) -> Option<ReadOp> {
    cursor.advance(view, len);
    cursor.peek()
}

#[no_mangle]
pub fn use_fill(layout: &Layout, view: &View<'_>) -> u32 {
    let mut sum = 0u32;
    layout::fill(layout, view, |fill| match fill {
        Fill::Copy { from, len, sink } => sum ^= from as u32 ^ len ^ sink,
        Fill::Zero { sink, len } => sum ^= len ^ sink,
    });
    sum
}

#[no_mangle]
pub fn use_reply(plan: &mut ReplyPlan, view: &View<'_>, payloads: &[Payload], limit: u32) {
    plan.make(view, limit, payloads.iter().copied(), limit);
}

#[no_mangle]
pub fn use_kept(plan: &ReplyPlan) -> u32 {
    plan.kept().fold(
        plan.header_len() ^ plan.inline_len() ^ u32::from(plan.form == reply::Form::Inline),
        |sum, range| sum ^ range.start ^ range.end,
    )
}

#[no_mangle]
pub fn use_write_new(plan: &ReplyPlan, header: &[u8]) -> WriteCursor {
    WriteCursor::new(plan, header)
}

#[no_mangle]
pub fn use_written(plan: &ReplyPlan) -> (u32, u32) {
    let range = plan.written_range();
    (range.end.wrapping_sub(range.start), plan.written_len())
}

#[no_mangle]
pub fn use_write(
    cursor: &mut WriteCursor,
    plan: &ReplyPlan,
    header: &[u8],
    len: u32,
) -> Option<WriteOp> {
    cursor.advance(plan, header, len);
    cursor.peek()
}

#[no_mangle]
pub fn use_payload_at(stream: &[u32], offset: u32, len: u32) -> Option<Payload> {
    reply::payload_at(|at| stream.get(at as usize / 4).copied(), offset, len)
}

#[no_mangle]
pub fn use_encode(
    plan: &ReplyPlan,
    view: &View<'_>,
    credits: u32,
    out: &mut [u8],
) -> Option<usize> {
    encode::reply(plan, view, credits, out)
}

#[no_mangle]
pub fn use_error(error: &DecodeError, credits: u32, out: &mut [u8]) -> (Option<usize>, u32) {
    let answer: Answer = error.answer();
    (encode::error(answer, credits, out), error.reason.code())
}

#[no_mangle]
pub fn use_credits(
    credits: &mut Credits,
    arrivals: &mut Arrivals,
    number: u32,
) -> Result<u32, Overrun> {
    credits.look(*arrivals);
    arrivals.on_call(number, credits.allowed())?;
    credits.on_end();
    let granted = credits.on_reply(*arrivals, number);
    credits.on_posted(granted);
    let more = credits.asks_for_more(*arrivals) || credits.on_unasked(*arrivals).is_ok();
    Ok(granted ^ credits.unanswered(*arrivals) ^ u32::from(more))
}

#[no_mangle]
pub fn use_queue(queue: &mut SqSlots, number: u32) -> [Option<usize>; 4] {
    queue.retire(number);
    let room = queue.room() ^ u32::from(queue.is_empty()) ^ SqSlots::new(number).room();
    let covered = queue.up_to(number as usize) ^ room;
    let next = queue.next(number as usize) ^ covered as usize;
    [
        Some(next),
        queue.oldest(),
        queue.last().or(Some(queue.free())),
        queue.post(number),
    ]
}

#[no_mangle]
pub fn use_signals(signals: &mut Signals, holds: bool) -> bool {
    signals.next(holds)
}

#[no_mangle]
pub fn use_connect(private: &[u8], ours: &Peer) -> (Thresholds, [u8; 8]) {
    let theirs = Peer::parse(private);
    (Thresholds::negotiate(ours, &theirs), theirs.private_data())
}

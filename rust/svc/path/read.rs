// SPDX-License-Identifier: GPL-2.0

//! Read chunks: RDMA Reads from the peer's memory into pages. No nfsd thread waits for them.
//!
//! | step | action | the Call may wait for |
//! |---|---|---|
//! | [`begin`] | charges the pages to the connection's quota, borrows pages from the pool | the quota, or free pages |
//! | [`start`] | queues the RDMA Reads | room in the send queue |
//! | [`finish`] | copies the inline parts, queues the Call for nfsd | |
//! | [`end`] | returns the pages to the quota | |
//!
//! # Context
//!
//! Process context; nothing here sleeps.

use super::deliver::{
    discard,
    ready,
    refuse, //
};
use crate::svc::{
    close_reason::{
        CloseReason,
        Queue, //
    },
    conn::{
        call::Call,
        endpoint::Endpoint,
        work::{
            Outcome,
            Work, //
        },
    },
    pages::{
        read_buffer::ReadBuffer,
        turns::Wait, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};
use rdma::mem::dma::Direction;
use svcrdma_proto::{
    error::DecodeError,
    header::Kind,
    layout::{
        self,
        Fill,
        ReadCursor, //
    },
    rpc,
    ulb, //
};

impl Endpoint {
    /// Starts the RDMA Reads of the first waiting Call into `sink`, and makes the connection wait
    /// for the next Call. Returns the sink if the connection is closing. The pool calls this.
    pub(crate) fn serve(self: Arc<Self>, sink: ReadBuffer) -> Option<ReadBuffer> {
        let left = start_waiting(self.as_arc_borrow(), sink);
        admit(self.as_arc_borrow());
        left
    }
}

/// Starts the RDMA Reads of `call` if its connection has room in its share and there are pages.
/// Otherwise the Call waits in its connection.
pub(crate) fn begin(endpoint: ArcBorrow<'_, Endpoint>, call: Call) {
    let connection = &endpoint.connection;
    if connection.is_closing() {
        discard(connection, call);
        return;
    }
    let pages = call.sink_pages();
    if !endpoint.quota.take(pages, || endpoint.share()) {
        wait(endpoint, call);
        return;
    }
    let (class, user) = (connection.class(), connection.number());
    let device = &connection.device;
    match device.sink(&endpoint.lane, class, user, pages) {
        Some(sink) => {
            if let Some(sink) = start(endpoint, call, sink) {
                device.put_sink(&endpoint.lane, sink);
            }
        }
        None => {
            endpoint.quota.untake(pages);
            wait(endpoint, call);
        }
    }
}

/// Makes `call` wait. A full queue of waiting Calls closes the connection.
#[cold]
#[inline(never)]
fn wait(endpoint: ArcBorrow<'_, Endpoint>, call: Call) {
    match endpoint.quota.wait(call) {
        Ok(true) => admit(endpoint),
        Ok(false) => {}
        Err(call) => {
            let connection = &endpoint.connection;
            connection.close(CloseReason::Overflow(Queue::Quota));
            discard(connection, call);
        }
    }
}

/// Starts the waiting Calls, until one exceeds the share of the connection or the pool has no pages
/// for it. In the latter case the connection waits in the pool, which goes on with
/// [`Endpoint::serve`].
#[cold]
#[inline(never)]
fn admit(endpoint: ArcBorrow<'_, Endpoint>) {
    let connection = &endpoint.connection;
    let device = &connection.device;
    while let Some(pages) = endpoint.quota.next(|| endpoint.share()) {
        let waiter: Arc<Endpoint> = endpoint.into();
        match device.wait(waiter, pages) {
            Wait::Ready(sink) => {
                if let Some(sink) = start_waiting(endpoint, sink) {
                    device.put_sink(&endpoint.lane, sink);
                }
            }
            Wait::Waits => {
                connection.counters.page_waits.inc();
                device.want_refill();
                return;
            }
            // The teardown drops the Calls.
            Wait::Closed => return,
        }
    }
}

/// Queues the RDMA Reads of the first waiting Call into `sink`, see [`start`].
fn start_waiting(endpoint: ArcBorrow<'_, Endpoint>, sink: ReadBuffer) -> Option<ReadBuffer> {
    match endpoint.quota.pop() {
        Some(call) => start(endpoint, call, sink),
        None => Some(sink),
    }
}

/// Notes that nfsd has validated the peer, whose Calls may wait for pages.
#[cold]
#[inline(never)]
pub(crate) fn promote(endpoint: &Endpoint) {
    let device = &endpoint.connection.device;
    device.pool.promote(endpoint.place.seat());
    if device.pool.has_parked() {
        device.want_refill();
    }
}

/// Queues the RDMA Reads of a Call into `sink`. Returns the sink, and drops the Call, if the
/// connection is closing or `sink` cannot be mapped.
fn start(
    endpoint: ArcBorrow<'_, Endpoint>,
    mut call: Call,
    sink: ReadBuffer,
) -> Option<ReadBuffer> {
    if endpoint.connection.is_closing() {
        endpoint.connection.counters.calls_dropped.inc();
        return Some(sink);
    }
    if prepare(&endpoint, &mut call, sink).is_err() {
        endpoint.connection.close(CloseReason::NoMemory);
        return abandon(&endpoint, call);
    }
    if call.cursor.get().peek().is_none() {
        finish(endpoint, call, Outcome::Done);
        return None;
    }
    match endpoint.post(Work::Read(call)) {
        Err(Work::Read(call)) => abandon(&endpoint, call),
        _ => None,
    }
}

/// Drops `call` and returns its sink, which the caller gives back to the pool.
fn abandon(endpoint: &Endpoint, mut call: Call) -> Option<ReadBuffer> {
    endpoint.connection.counters.calls_dropped.inc();
    call.sink.take()
}

/// Lays the Call out over `sink`, and maps the sink for the device, now or when the Reads are posted.
/// The Call owns the sink afterwards, also after an error.
///
/// # Errors
///
/// `ENODEV` if the device is gone, or an error of the mapping.
fn prepare(endpoint: &Endpoint, call: &mut Call, mut sink: ReadBuffer) -> Result {
    let (message, state) = call.parts_mut();
    sink.stream_mut().lay_flat(state.layout.sink_len() as usize);
    let view = state.header.view(message);
    state.cursor.set(ReadCursor::new(&state.layout, &view));
    let mapped = endpoint.lane.map(&mut sink, Direction::FromDevice);
    state.sink = Some(sink);
    mapped
}

/// Copies the inline parts of `call` to its sink, and zeroes the XDR pads. The sink must not be mapped
/// for the device: unmapping memory that a device writes may overwrite what the CPU has written
/// before.
fn complete(call: &mut Call) {
    let (message, state) = call.parts_mut();
    let Some(sink) = &mut state.sink else {
        return;
    };
    let stream = sink.stream_mut();
    let view = state.header.view(message);
    layout::fill(&state.layout, &view, |fill| match fill {
        Fill::Copy { from, len, sink } => {
            let bytes = message
                .get(from..)
                .and_then(|rest| rest.get(..len as usize));
            stream.fill(sink as usize, bytes.unwrap_or(&[]));
        }
        Fill::Zero { sink, len } => stream.zero(sink as usize, len as usize),
    });
}

/// Ends the RDMA Reads of a Call. Queues the Call for nfsd if the Reads are complete and their
/// content agrees with the header; otherwise refuses or drops the Call.
///
/// The pages of a queued Call stay charged to the quota until nfsd takes the Call. Those of any
/// other Call return to the quota here.
pub(crate) fn finish(endpoint: ArcBorrow<'_, Endpoint>, mut call: Call, outcome: Outcome) {
    if let Some(sink) = &mut call.sink {
        // A Call that nfsd works on must not hold a resource of the device, whose removal does not
        // wait for nfsd.
        let device = &endpoint.connection.device;
        if device.pool.take_memory_region(sink) {
            device.want_refill();
        }
        sink.unmap();
    }
    let pages = call.sink_pages();
    match outcome {
        Outcome::Done => {
            let latency = &endpoint.published.tally.latency;
            latency.reads.count(call.reading.get());
            complete(&mut call);
            match examine(&mut call) {
                Ok(()) => return ready(&endpoint.connection, call),
                Err(e) => refuse(&endpoint, call, e),
            }
        }
        Outcome::Flushed => discard(&endpoint.connection, call),
    }
    end(endpoint, pages);
}

/// Returns `pages` pages to the quota, and starts Calls that waited for it.
///
/// Called when nfsd has taken the Call that held the pages, or when that Call has ended without
/// nfsd.
pub(crate) fn end(endpoint: ArcBorrow<'_, Endpoint>, pages: usize) {
    if endpoint.quota.put(pages) {
        admit(endpoint);
    }
}

/// Checks the content of a position-zero Read chunk, as the decoder checks the body of an RDMA_MSG:
/// it is an RPC Call with the XID of the transport header, and each argument that must be inline is
/// there. Does nothing for an RDMA_MSG.
///
/// # Errors
///
/// The reason to refuse the Call.
// Out of line: few Calls have such a chunk, and all others need less stack without this frame.
#[inline(never)]
fn examine(call: &mut Call) -> Result<(), DecodeError> {
    let (message, state) = call.parts_mut();
    let view = state.header.view(message);
    if view.header().kind == Kind::Msg {
        return Ok(());
    }
    let len = state.layout.sink_len();
    let sink = &mut state.sink;
    let mut word = |at: u32| sink.as_mut()?.stream_mut().word(at as usize);
    rpc::check_call(view.header().xid, &mut word)?;
    state.needs_answer = ulb::needs_answer(&mut word);
    ulb::check_read(&view, word, len)
}

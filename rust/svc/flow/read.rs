// SPDX-License-Identifier: GPL-2.0

//! Read chunks: RDMA Reads from the peer's memory into pages, while no nfsd thread waits.
//!
//! A Call passes [`begin`], which bounds what a connection has under way, [`request`], which gets
//! it pages, [`start`], which lays its inline parts and queues the Reads, and [`finish`]. It may
//! wait before the second and the third.

use super::receive::{
    self,
    Call, //
};
use crate::svc::{
    close_reason::{
        CloseReason,
        Queue, //
    },
    conn::{
        endpoint::Endpoint,
        work::Work, //
    },
    lane::{
        line::Loan,
        pool::Sink, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    chain::{
        Chain,
        Rdma,
        Remote, //
    },
    dma::Direction, //
};
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

/// Reads the chunks of `call`, now or when the connection has less under way.
pub(crate) fn begin(endpoint: &Arc<Endpoint>, mut call: Call) {
    call.endpoint = Some(endpoint.clone());
    let pages = call.sink_pages();
    match endpoint.begin_read(call, pages) {
        Ok(Some(call)) => request(call),
        Ok(None) => {}
        Err(call) => {
            endpoint
                .connection
                .close(CloseReason::Overflow(Queue::Quota));
            receive::discard(&endpoint.connection, call);
        }
    }
}

/// Gets pages for `call`, now or when there are some.
pub(crate) fn request(call: Call) {
    let Some(endpoint) = call.endpoint.clone() else {
        return;
    };
    if endpoint.connection.is_closing() {
        receive::discard(&endpoint.connection, call);
        return;
    }
    let device = &endpoint.connection.device;
    match device.pool.sink(call) {
        Sink::Ready(call, sink) => {
            if let Some(sink) = start(call, sink) {
                device.pool.put_sink(sink);
            }
        }
        Sink::Waits => {
            endpoint.connection.counters.page_waits.inc();
            device.want_refill();
        }
        Sink::Refused(refused) => {
            let call = endpoint.connection.take_back(refused, Queue::Pages);
            receive::discard(&endpoint.connection, call);
        }
    }
}

/// Queues the Reads of `call` into `sink`; gives the sink back when the connection closes.
pub(crate) fn start(mut call: Call, sink: Loan) -> Option<Loan> {
    let Some(endpoint) = call.endpoint.clone() else {
        return Some(sink);
    };
    if endpoint.connection.is_closing() {
        endpoint.connection.counters.calls_dropped.inc();
        return Some(sink);
    }
    if prepare(&endpoint, &mut call, sink).is_err() {
        endpoint.connection.close(CloseReason::NoMemory);
        return abandon(&endpoint, call);
    }
    if call.cursor.get().peek(&receive::view(&call)).is_none() {
        finish(&endpoint, call, true);
        return None;
    }
    match endpoint.submit(Work::Read(call), None) {
        Err(Work::Read(call)) => abandon(&endpoint, call),
        _ => None,
    }
}

/// Drops a Call that waited for pages, as its connection closes.
pub(crate) fn give_up(call: Call) {
    if let Some(endpoint) = call.endpoint.clone() {
        receive::discard(&endpoint.connection, call);
    }
}

/// Drops `call`, whose sink the caller takes back.
fn abandon(endpoint: &Endpoint, mut call: Call) -> Option<Loan> {
    endpoint.connection.counters.calls_dropped.inc();
    call.sink.take()
}

/// Puts the inline parts and the pads of `call` into `sink`, and maps it for the device.
fn prepare(endpoint: &Endpoint, call: &mut Call, mut sink: Loan) -> Result {
    let (message, state) = call.parts_mut();
    let stream = sink.stream_mut();
    stream.lay_flat(state.layout.sink_len() as usize);
    let view = state.header.view(message);
    for fill in layout::fills(&state.layout, &view) {
        match fill {
            Fill::Copy { from, len, sink } => {
                let bytes = message
                    .get(from..)
                    .and_then(|rest| rest.get(..len as usize));
                stream.fill(sink as usize, bytes.unwrap_or(&[]));
            }
            Fill::Zero { sink, len } => stream.zero(sink as usize, len as usize),
        }
    }
    state.cursor.set(ReadCursor::new(&state.layout, &view));
    let mapped = endpoint
        .connection
        .device
        .with_pd(|pd| sink.map(pd, Direction::FromDevice));
    state.sink = Some(sink);
    mapped
}

/// Adds RDMA Reads to the chain, `room` at most; whether these were the last.
pub(crate) fn build<'m>(call: &'m Call, chain: &mut Chain<'_, 'm>, room: usize) -> bool {
    let (Some(sink), Some(endpoint)) = (&call.sink, &call.endpoint) else {
        return true;
    };
    if !chain.register(sink, room) {
        return false;
    }
    let view = receive::view(call);
    let mut cursor = call.cursor.get();
    while let Some(op) = cursor.peek(&view) {
        if chain.len() >= room {
            break;
        }
        let remote = Remote {
            key: op.handle,
            addr: op.remote,
        };
        let taken = chain.rdma(Rdma::Read, remote, sink, op.sink as usize, op.len as usize);
        if taken == 0 {
            break;
        }
        // A piece of an operation is not longer than it.
        let taken = u32::try_from(taken).unwrap_or(op.len);
        endpoint.connection.counters.read_bytes.add(taken);
        cursor.advance(&view, taken);
    }
    call.cursor.set(cursor);
    cursor.peek(&view).is_none() && chain.invalidate(sink, room)
}

/// The Reads are over: nfsd gets the Call if they were done, and if it is what its header says. Its
/// pages count until nfsd takes it, or until here.
pub(crate) fn finish(endpoint: &Endpoint, mut call: Call, done: bool) {
    if let Some(sink) = &mut call.sink {
        // The device is done with the pages: nothing of it may stay with a Call that nfsd has.
        let device = &endpoint.connection.device;
        if device.pool.take_memory_region(sink) {
            device.want_refill();
        }
        sink.unmap();
    }
    call.endpoint = None;
    let pages = call.sink_pages();
    match done.then(|| examine(&mut call)) {
        Some(Ok(())) => return receive::ready(&endpoint.connection, call),
        Some(Err(e)) => receive::refuse(endpoint, call, e),
        None => receive::discard(&endpoint.connection, call),
    }
    endpoint.end_read(pages);
}

/// Checks what a position-zero Read chunk has brought, as it is checked of an RDMA_MSG when that
/// comes in: it is the Call of the header, and nothing was taken out of it that has to be there.
// Of its own, as few Calls have such a chunk and all others need less stack.
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

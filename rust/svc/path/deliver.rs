// SPDX-License-Identifier: GPL-2.0

//! Hand-off: the three ends of the receive path. A Call is queued for nfsd, answered with an error,
//! or dropped.
//!
//! # Context
//!
//! Process context; nothing here sleeps.

use super::reply;
use crate::svc::{
    close_reason::Queue,
    conn::{
        call::Call,
        connection::Connection,
        endpoint::Endpoint, //
    },
};
use kernel::sync::Arc;
use support::{
    ring::Refused,
    trace, //
};
use svcrdma_proto::error::DecodeError;

/// Queues a complete Call for nfsd. Drops the Call if the connection is closing, or if the inbox is
/// full, which closes the connection.
#[inline]
pub(crate) fn ready(connection: &Arc<Connection>, call: Call) {
    if let Err(refused) = connection.inbox.push(call) {
        drop_refused(connection, refused);
    }
}

/// Drops a Call that the inbox has refused.
#[cold]
#[inline(never)]
fn drop_refused(connection: &Arc<Connection>, refused: Refused<Call>) {
    discard(connection, connection.take_back(refused, Queue::Inbox));
}

/// Refuses a message: sends the RDMA_ERROR that `error` calls for, or drops the message if it gets
/// no answer.
#[inline(never)]
pub(crate) fn refuse(endpoint: &Endpoint, mut call: Call, error: DecodeError) {
    endpoint.connection.counters.malformed.inc();
    let xid = error.xid.unwrap_or(0);
    let len = u32::try_from(call.message().len()).unwrap_or(u32::MAX);
    trace::malformed(endpoint.connection.number(), xid, error.reason.code(), len);
    // The RDMA_ERROR does not use the content of the Read chunks, so other Calls can have the
    // pages.
    put_sink(&endpoint.connection, &mut call);
    reply::answer(endpoint, error.answer(), call);
}

/// Drops a Call that gets no Reply.
pub(crate) fn discard(connection: &Connection, mut call: Call) {
    connection.counters.calls_dropped.inc();
    put_sink(connection, &mut call);
}

/// Returns the sink of a Call that nfsd does not get to the pool.
fn put_sink(connection: &Connection, call: &mut Call) {
    if let Some(sink) = call.sink.take() {
        connection.device.return_sink(sink);
    }
}

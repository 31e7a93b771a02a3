// SPDX-License-Identifier: GPL-2.0

//! Hand-off: what becomes of a Call that was received: nfsd gets it, it is answered with an error, or it is
//! dropped.
//!
//! Contexts: any process context; nothing here sleeps.

use super::send;
use crate::svc::{
    close_reason::Queue,
    conn::{
        call::Call,
        connection::Connection,
        endpoint::Endpoint, //
    },
};
use kernel::sync::Arc;
use support::trace;
use svcrdma_proto::error::DecodeError;

/// Hands a complete Call to nfsd.
pub(crate) fn ready(connection: &Arc<Connection>, call: Call) {
    if let Err(refused) = connection.inbox.push(call) {
        discard(connection, connection.take_back(refused, Queue::Inbox));
    }
}

/// Answers a message that the server does not take with the error that it asks for, or drops it.
pub(crate) fn refuse(endpoint: &Endpoint, mut call: Call, error: DecodeError) {
    endpoint.connection.counters.malformed.inc();
    let xid = error.xid.unwrap_or(0);
    let len = u32::try_from(call.message().len()).unwrap_or(u32::MAX);
    trace::malformed(endpoint.connection.number(), xid, error.reason.code(), len);
    // The error Reply does not need what the Read chunks have brought.
    put_sink(&endpoint.connection, &mut call);
    send::answer(endpoint, error.answer(), call);
}

/// Drops a Call that gets no Reply.
pub(crate) fn discard(connection: &Connection, mut call: Call) {
    connection.counters.calls_dropped.inc();
    put_sink(connection, &mut call);
}

/// Gives back the pages of a Call that nfsd does not get.
fn put_sink(connection: &Connection, call: &mut Call) {
    if let Some(sink) = call.sink.take() {
        connection.lane.pool.put_sink(sink);
    }
}

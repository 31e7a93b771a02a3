// SPDX-License-Identifier: GPL-2.0

//! The backchannel: Calls of the server to a client, over the client's own connection (RFC 8167).
//!
//! nfsd's callbacks (delegation recalls and the like, NFSv4.1 and later) are small. A callback is
//! sent like an inline Reply, and its answer is received like an inline Call.
//!
//! # Context
//!
//! `rpciod` sends Calls, workers of completion queues receive the answers. Both are process
//! context; nothing here sleeps.

use super::reply;
use crate::svc::{
    conn::endpoint::Endpoint,
    settings, //
};
use kernel::prelude::*;
use sunrpc::callback::{
    self,
    Back,
    SLOTS, //
};
use support::compat;
use svcrdma_proto::{
    callbacks::{
        under_way,
        Counted,
        NoCredit, //
    },
    decode::Reverse,
    encode,
    rpc, //
};

impl Back for Endpoint {
    fn send(&self, call: &callback::Call<'_>) -> Result {
        let len = call.len().saturating_add(encode::REVERSE_LEN);
        if len > self.thresholds.send as usize {
            // After an error nfsd would retry at once and forever. After success it first waits for
            // an answer, which never arrives.
            self.connection.counters.callbacks_too_large.inc();
            return Ok(());
        }
        if !self.receives.takes_callbacks() {
            // Memory was short when the buffers for answers were to be allocated. The watchdog
            // repeats that.
            return Err(compat::enobufs());
        }
        let patience = settings::STALL_SECONDS.get();
        let counted = self
            .callbacks
            .count(call.xid(), patience)
            .map_err(|NoCredit| {
                self.connection.counters.callbacks_without_credit.inc();
                // sunrpc keeps the Call until `resume_callbacks()` finds a credit, or until the
                // Call times out.
                EAGAIN
            })?;
        submit(self, call).inspect_err(|_| {
            if counted == Counted::New {
                self.callbacks.on_unsent(call.xid());
            }
        })?;
        self.connection.counters.callbacks.inc();
        Ok(())
    }

    fn is_closing(&self) -> bool {
        self.connection.is_closing()
    }

    fn waits(&self) -> bool {
        self.callbacks.is_wanted()
    }
}

/// Copies `call` to a send buffer of the pool and queues it.
///
/// # Errors
///
/// - `ENOBUFS`: no send buffer is free, or [`SLOTS`] Calls to the client are queued already.
/// - `ENOTCONN`: the connection is closing.
/// - Those of `Reply::set_call`.
fn submit(endpoint: &Endpoint, call: &callback::Call<'_>) -> Result {
    let pool = &endpoint.connection.device.pool;
    let mut message = pool.callback().ok_or_else(compat::enobufs)?;
    message.set_call(call, SLOTS)?;
    reply::submit_call(endpoint, message)
}

/// Passes a client's reply to sunrpc, or ignores the message if no Call waits for this reply.
///
/// # Context
///
/// A worker of a completion queue.
pub(crate) fn received(endpoint: &Endpoint, reverse: &Reverse<'_>) {
    let body = reverse.body;
    // The RPC message repeats the XID of the transport header (RFC 8166, section 4.2.1).
    let is_same = body.get(..4) == Some(&reverse.xid.to_be_bytes());
    let granted = Some(reverse.credits);
    // `on_answer()` returns the credit before `complete()` lets sunrpc make another Call.
    let is_done = is_same
        && endpoint.callbacks.on_answer(reverse.xid, granted)
        && complete(endpoint, reverse.xid, body, granted);
    endpoint.resume_callbacks();
    if is_done {
        endpoint.connection.counters.callback_replies.inc()
    } else {
        endpoint.ignore()
    }
}

/// Ends the Call `xid`, which the client has refused with an RDMA_ERROR (RFC 8166, section 4.5).
///
/// nfsd gets the reply "procedure unavailable", and then makes another Call at once. So a client
/// that refuses every Call would cause an endless loop. Therefore nfsd learns of one refusal
/// between two ticks of the watchdog; after any other refusal nfsd waits until the Call times out.
///
/// # Context
///
/// A worker of a completion queue.
pub(crate) fn refused(endpoint: &Endpoint, xid: u32) {
    let callbacks = &endpoint.callbacks;
    let is_told = callbacks.on_answer(xid, None)
        && !callbacks.has_refused()
        && complete(endpoint, xid, &rpc::unavailable(xid), None);
    endpoint.resume_callbacks();
    if is_told {
        callbacks.set_refused();
        endpoint.connection.counters.callbacks_refused.inc();
    } else {
        endpoint.ignore()
    }
}

/// Passes `reply` to the Call `xid` of sunrpc. Returns true if a Call was waiting for the reply.
///
/// `granted` is the number of credits that the client grants with the reply, `None` if it does not
/// say.
fn complete(endpoint: &Endpoint, xid: u32, reply: &[u8], granted: Option<u32>) -> bool {
    let channel = endpoint.connection.channel();
    channel.is_some_and(|channel| channel.complete(xid, reply, granted.map(under_way)))
}

// SPDX-License-Identifier: GPL-2.0

//! The backchannel: Calls of the server to a client, over the client's own connection (RFC 8167).
//!
//! nfsd's callbacks (delegation recalls and the like, NFSv4.1 and later) are small: they are sent like inline
//! Replies, and the answers are received like inline Calls.
//!
//! Contexts: Calls are sent on `rpciod`, and answers arrive in completions; both are process context.

use super::send;
use crate::svc::{
    conn::endpoint::Endpoint,
    settings, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
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
            // After an error nfsd would make it again at once, and for ever. Like this it waits for
            // an answer first.
            self.connection.counters.callbacks_too_large.inc();
            return Ok(());
        }
        if !self.receives.takes_callbacks() {
            // There was no memory for the buffers that answers come in.
            self.receives.grow_later();
            return Err(compat::enobufs());
        }
        let patience = settings::STALL_SECONDS.get();
        let counted = self
            .callbacks
            .count(call.xid(), patience)
            .map_err(|NoCredit| {
                self.connection.counters.callbacks_without_credit.inc();
                // Until there is a credit, or the time for an answer is over.
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

/// Queues `call` to be sent.
fn submit(endpoint: &Endpoint, call: &callback::Call<'_>) -> Result {
    let pool = &endpoint.connection.lane.pool;
    let mut message = pool.callback().ok_or_else(compat::enobufs)?;
    message.set_call(call, SLOTS)?;
    send::submit_call(endpoint, message)
}

/// A reply to a Call of ours has come in. In a completion.
pub(crate) fn received(endpoint: &Arc<Endpoint>, reverse: &Reverse<'_>) {
    let body = reverse.body;
    // The RPC message has the XID as well (RFC 8166, section 4.2.1).
    let is_same = body.get(..4) == Some(&reverse.xid.to_be_bytes());
    let granted = Some(reverse.credits);
    // The credit is there before sunrpc makes another Call.
    let is_done = is_same
        && endpoint.callbacks.on_answer(reverse.xid, granted)
        && complete(endpoint, reverse.xid, body, granted);
    endpoint.resume_callbacks();
    match is_done {
        true => endpoint.connection.counters.callback_replies.inc(),
        false => endpoint.ignore(),
    }
}

/// The peer could not take the Call of ours with this XID, which is over (RFC 8166, section 4.5): nfsd
/// is told that the peer has no such procedure, unless that happens all the time: it makes another
/// Call at once. With those that it is not told of it waits until it gives up. In a completion.
pub(crate) fn refused(endpoint: &Arc<Endpoint>, xid: u32) {
    let callbacks = &endpoint.callbacks;
    let is_told = callbacks.on_answer(xid, None)
        && !callbacks.has_refused()
        && complete(endpoint, xid, &rpc::unavailable(xid), None);
    endpoint.resume_callbacks();
    match is_told {
        true => {
            callbacks.set_refused();
            endpoint.connection.counters.callbacks_refused.inc();
        }
        false => endpoint.ignore(),
    }
}

/// Whether sunrpc has waited for this reply, which grants so many credits if it says so.
fn complete(endpoint: &Arc<Endpoint>, xid: u32, reply: &[u8], granted: Option<u32>) -> bool {
    let channel = endpoint.connection.channel();
    channel.is_some_and(|channel| channel.complete(xid, reply, granted.map(under_way)))
}

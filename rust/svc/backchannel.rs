// SPDX-License-Identifier: GPL-2.0

//! The backchannel: Calls of the server to a client, over the client's own connection (RFC 8167).
//!
//! nfsd's callbacks (delegation recalls and the like, NFSv4.1 and later) are small: they go out
//! like inline replies, and so do their replies come in. The client says in each reply how many
//! Calls it takes at a time.

use super::{
    call::Call,
    endpoint::Endpoint,
    reply, //
};
use crate::{
    abstractions::sunrpc::backchannel::{
        self,
        Back,
        SLOTS, //
    },
    compat,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use svcrdma_proto::{
    credits::callbacks,
    encode,
    header::Reverse,
    rpc, //
};

impl Back for Endpoint {
    fn send(&self, call: &backchannel::Call<'_>) -> Result {
        let len = call.len().saturating_add(encode::REVERSE_LEN);
        if len > self.thresholds.send as usize {
            // nfsd would send it again at once, and for ever. Like this it waits for an answer
            // first.
            self.shared.counters.callbacks_too_large.inc();
            return Ok(());
        }
        let mut message = self
            .shared
            .device
            .pools
            .spare_reply()
            .ok_or_else(compat::enobufs)?;
        message.set_call(call, SLOTS)?;
        reply::submit_call(self, message)?;
        self.shared.counters.callbacks.inc();
        Ok(())
    }

    fn is_closing(&self) -> bool {
        self.shared.is_closing()
    }
}

/// A reply to a Call of ours has come in. In a completion.
pub(super) fn received(endpoint: &Arc<Endpoint>, message: &Call, reverse: &Reverse) {
    let body = message.message().get(reverse.body..).unwrap_or(&[]);
    // The RPC message has the XID as well (RFC 8166, section 4.2.1).
    let is_same = body.get(..4) == Some(&reverse.xid.to_be_bytes());
    match is_same && complete(endpoint, reverse.xid, body, Some(reverse.credits)) {
        true => endpoint.shared.counters.callback_replies.inc(),
        false => endpoint.shared.counters.ignored.inc(),
    }
}

/// The peer could not take the Call of ours with this XID: nfsd is told, and does not wait for a
/// reply, unless that happens all the time. In a completion.
pub(super) fn refused(endpoint: &Arc<Endpoint>, xid: u32) {
    let is_told = !endpoint.has_refused() && complete(endpoint, xid, &rpc::system_error(xid), None);
    match is_told {
        true => {
            endpoint.set_refused();
            endpoint.shared.counters.callbacks_refused.inc();
        }
        false => endpoint.shared.counters.ignored.inc(),
    }
}

/// Whether a Call of ours has waited for this reply, which grants so many credits if it says so.
fn complete(endpoint: &Arc<Endpoint>, xid: u32, reply: &[u8], granted: Option<u32>) -> bool {
    let channel = endpoint.shared.channel();
    channel.is_some_and(|channel| channel.complete(xid, reply, granted.map(callbacks)))
}

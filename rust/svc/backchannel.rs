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
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
};
use svcrdma_proto::{
    callbacks::{
        under_way,
        Unanswered, //
    },
    encode,
    header::Reverse,
    rpc, //
};

/// How a client stands with the Calls to it.
#[pin_data]
pub(super) struct Callbacks {
    /// Those that wait to be sent or are posted.
    queued: Atomic<i32>,
    #[pin]
    unanswered: SpinLock<Unanswered<{ SLOTS as usize }>>,
    /// Whether the client has refused one since the last tick.
    has_refused: AtomicFlag,
}

impl Callbacks {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queued: Atomic::new(0),
            unanswered <- new_spinlock!(Unanswered::default(), "svcrdma callbacks"),
            has_refused: AtomicFlag::new(false),
        })
    }

    /// One more is going to be queued, which [`Self::end`] takes back; `false` if there are
    /// [`SLOTS`] already.
    pub(super) fn begin(&self) -> bool {
        let before = self.queued.fetch_add(1, Relaxed);
        if before >= SLOTS as i32 {
            self.end();
            return false;
        }
        true
    }

    /// One was sent, or will never be.
    pub(super) fn end(&self) {
        self.queued.add(-1, Relaxed);
    }

    /// The client has answered the Call with this XID, or it was not sent after all; a reply says
    /// how many credits it grants.
    fn answered(&self, xid: u32, granted: Option<u32>) {
        self.unanswered.lock().on_answer(xid, granted);
    }

    /// Time has passed.
    pub(super) fn tick(&self) {
        self.has_refused.store(false, Relaxed);
    }
}

impl Back for Endpoint {
    fn send(&self, call: &backchannel::Call<'_>) -> Result {
        // After an error nfsd would send what cannot go again at once, and for ever. As it is, it
        // waits for an answer first.
        let len = call.len().saturating_add(encode::REVERSE_LEN);
        if len > self.thresholds.send as usize {
            self.shared.counters.callbacks_too_large.inc();
            return Ok(());
        }
        if self
            .callbacks
            .unanswered
            .lock()
            .on_call(call.xid())
            .is_err()
        {
            self.shared.counters.callbacks_without_credit.inc();
            return Ok(());
        }
        submit(self, call).inspect_err(|_| self.callbacks.answered(call.xid(), None))?;
        self.shared.counters.callbacks.inc();
        Ok(())
    }

    fn is_closing(&self) -> bool {
        self.shared.is_closing()
    }
}

/// Queues `call` to be sent.
fn submit(endpoint: &Endpoint, call: &backchannel::Call<'_>) -> Result {
    let pools = &endpoint.shared.device.pools;
    let mut message = pools.spare_reply().ok_or_else(compat::enobufs)?;
    message.set_call(call, SLOTS)?;
    reply::submit_call(endpoint, message)
}

/// A reply to a Call of ours has come in. In a completion.
pub(super) fn received(endpoint: &Arc<Endpoint>, message: &Call, reverse: &Reverse) {
    let body = message.message().get(reverse.body..).unwrap_or(&[]);
    // The RPC message has the XID as well (RFC 8166, section 4.2.1).
    let is_same = body.get(..4) == Some(&reverse.xid.to_be_bytes());
    let granted = Some(reverse.credits);
    if is_same {
        // Before sunrpc makes another Call.
        endpoint.callbacks.answered(reverse.xid, granted);
    }
    match is_same && complete(endpoint, reverse.xid, body, granted) {
        true => endpoint.shared.counters.callback_replies.inc(),
        false => endpoint.shared.counters.ignored.inc(),
    }
}

/// The peer could not take the Call of ours with this XID: nfsd is told, and does not wait for a
/// reply, unless that happens all the time: it sends the Call again at once. With those that it is
/// not told of it waits until it gives up. In a completion.
pub(super) fn refused(endpoint: &Arc<Endpoint>, xid: u32) {
    let callbacks = &endpoint.callbacks;
    callbacks.answered(xid, None);
    let is_told = !callbacks.has_refused.load(Relaxed)
        && complete(endpoint, xid, &rpc::system_error(xid), None);
    match is_told {
        true => {
            callbacks.has_refused.store(true, Relaxed);
            endpoint.shared.counters.callbacks_refused.inc();
        }
        false => endpoint.shared.counters.ignored.inc(),
    }
}

/// Whether a Call of ours has waited for this reply, which grants so many credits if it says so.
fn complete(endpoint: &Arc<Endpoint>, xid: u32, reply: &[u8], granted: Option<u32>) -> bool {
    let channel = endpoint.shared.channel();
    channel.is_some_and(|channel| channel.complete(xid, reply, granted.map(under_way)))
}

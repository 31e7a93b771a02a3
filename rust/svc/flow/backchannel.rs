// SPDX-License-Identifier: GPL-2.0

//! The backchannel: Calls of the server to a client, over the client's own connection (RFC 8167).
//!
//! nfsd's callbacks (delegation recalls and the like, NFSv4.1 and later) are small: they go out
//! like inline replies, and so do their replies come in. The client says in each reply how many
//! Calls it takes at a time; those that it has not answered are remembered, also when nfsd has given
//! them up.
//!
//! Locking: [`Callbacks`] has a spinlock, under which nothing else is called. Calls are sent on
//! `rpciod`, and answers come in completions; both are in process context.

use super::{
    reply, //
};
use crate::svc::{
    conn::endpoint::Endpoint,
    settings, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
};
use sunrpc::backchannel::{
    self,
    Back,
    SLOTS, //
};
use support::compat;
use svcrdma_proto::{
    callbacks::{
        under_way,
        Counted,
        NoCredit,
        Unanswered, //
    },
    decode::Reverse,
    encode,
    rpc, //
};

/// How a client stands with the Calls to it.
#[pin_data]
pub(crate) struct Callbacks {
    /// Those that wait to be sent or are posted.
    queued: Atomic<i32>,
    #[pin]
    unanswered: SpinLock<Unanswered<{ SLOTS as usize }>>,
    /// Whether the client has refused one since the last tick.
    has_refused: AtomicFlag,
    /// Whether one was counted since the client's last Call had its reply.
    has_called: AtomicFlag,
    /// Whether sunrpc has one that waits for a credit.
    is_wanted: AtomicFlag,
}

impl Callbacks {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queued: Atomic::new(0),
            unanswered <- new_spinlock!(Unanswered::default(), "svcrdma callbacks"),
            has_refused: AtomicFlag::new(false),
            has_called: AtomicFlag::new(false),
            is_wanted: AtomicFlag::new(false),
        })
    }

    /// One more is going to be queued, which [`Self::end`] takes back; `false` if there are
    /// [`SLOTS`] already.
    pub(crate) fn begin(&self) -> bool {
        let before = self.queued.fetch_add(1, Relaxed);
        if before >= SLOTS as i32 {
            self.end();
            return false;
        }
        true
    }

    /// One was sent, or will never be.
    pub(crate) fn end(&self) {
        self.queued.add(-1, Relaxed);
    }

    /// Counts the Call with this XID, unless there is no credit for it: then it waits for
    /// [`resume`]. Whether it is a new one.
    fn count(&self, xid: u32) -> Result<Counted, NoCredit> {
        let patience = settings::STALL_SECONDS.get();
        let mut unanswered = self.unanswered.lock();
        let counted = unanswered.on_call(xid, patience);
        // Under the lock: whoever makes room next has to see it.
        match counted {
            Ok(_) => self.has_called.store(true, Relaxed),
            Err(NoCredit) => self.is_wanted.store(true, Relaxed),
        }
        counted
    }

    /// The client has answered the Call with this XID; whether there is one. A reply says how many
    /// credits it grants.
    fn answered(&self, xid: u32, granted: Option<u32>) -> bool {
        self.unanswered.lock().on_answer(xid, granted)
    }

    /// `seconds` have passed.
    fn tick(&self, seconds: u32) {
        self.has_refused.store(false, Relaxed);
        self.unanswered.lock().tick(seconds);
    }
}

/// A Call of the client's is going to have its reply, behind what was queued before. In any process
/// context.
pub(crate) fn replied(endpoint: &Endpoint) {
    let callbacks = &endpoint.callbacks;
    if callbacks.has_called.load(Relaxed) && callbacks.has_called.xchg(false, Full) {
        callbacks.unanswered.lock().on_reply();
        resume(endpoint);
    }
}

/// `seconds` have passed.
pub(crate) fn tick(endpoint: &Endpoint, seconds: u32) {
    endpoint.callbacks.tick(seconds);
    resume(endpoint);
}

/// There may be a credit: has sunrpc send what waits for one.
fn resume(endpoint: &Endpoint) {
    if endpoint.callbacks.is_wanted.xchg(false, Full) {
        if let Some(channel) = endpoint.connection.channel() {
            channel.resume();
        }
    }
}

impl Back for Endpoint {
    fn send(&self, call: &backchannel::Call<'_>) -> Result {
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
        let counted = self.callbacks.count(call.xid()).map_err(|NoCredit| {
            self.connection.counters.callbacks_without_credit.inc();
            // Until there is a credit, or the time for an answer is over.
            EAGAIN
        })?;
        submit(self, call).inspect_err(|_| {
            if counted == Counted::New {
                self.callbacks.unanswered.lock().on_unsent(call.xid());
            }
        })?;
        self.connection.counters.callbacks.inc();
        Ok(())
    }

    fn is_closing(&self) -> bool {
        self.connection.is_closing()
    }

    fn waits(&self) -> bool {
        self.callbacks.is_wanted.cmpxchg(true, true, Full).is_ok()
    }
}

/// Queues `call` to be sent.
fn submit(endpoint: &Endpoint, call: &backchannel::Call<'_>) -> Result {
    let pool = &endpoint.connection.device.pool;
    let mut message = pool.callback().ok_or_else(compat::enobufs)?;
    message.set_call(call, SLOTS)?;
    reply::submit_call(endpoint, message)
}

/// A reply to a Call of ours has come in. In a completion.
pub(crate) fn received(endpoint: &Arc<Endpoint>, reverse: &Reverse<'_>) {
    let body = reverse.body;
    // The RPC message has the XID as well (RFC 8166, section 4.2.1).
    let is_same = body.get(..4) == Some(&reverse.xid.to_be_bytes());
    let granted = Some(reverse.credits);
    // The credit is there before sunrpc makes another Call.
    let is_done = is_same
        && endpoint.callbacks.answered(reverse.xid, granted)
        && complete(endpoint, reverse.xid, body, granted);
    resume(endpoint);
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
    let is_told = callbacks.answered(xid, None)
        && !callbacks.has_refused.load(Relaxed)
        && complete(endpoint, xid, &rpc::unavailable(xid), None);
    resume(endpoint);
    match is_told {
        true => {
            callbacks.has_refused.store(true, Relaxed);
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

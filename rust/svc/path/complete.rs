// SPDX-License-Identifier: GPL-2.0

//! Dispatch: the handlers of the completions of a queue pair.
//!
//! # Context
//!
//! The workers of completion queues, but for `failed`, which the device calls in any context.
//! Nothing here sleeps.

use super::{
    read,
    receive,
    reply, //
};
use crate::svc::{
    close_reason::CloseReason,
    conn::{
        call::{
            Call,
            CallState, //
        },
        endpoint::{
            Endpoint,
            SendGuard, //
        },
        work::{
            Outcome,
            Work, //
        },
    },
    pages::reply::Kind, //
};
use kernel::sync::{
    atomic::Relaxed,
    ArcBorrow, //
};
use rdma::{
    completion::{
        Completion,
        Status, //
    },
    handler::{
        Handler,
        Unfit, //
    },
};

impl Handler for Endpoint {
    type Call = CallState;

    #[inline]
    fn received(this: ArcBorrow<'_, Self>, receive: Call) {
        receive::received(this, receive);
    }

    fn unfit(this: ArcBorrow<'_, Self>, what: Unfit) {
        this.connection.close(match what {
            Unfit::Immediate => CloseReason::NoMessage,
            Unfit::Invalidation => CloseReason::Invalidation,
        });
    }

    fn receive_failed(this: ArcBorrow<'_, Self>, status: Status) {
        if status.is_flush() {
            this.flushed.store(true, Relaxed);
        } else {
            this.connection.close(CloseReason::Receive(status.code()));
        }
    }

    #[inline]
    fn sent(this: ArcBorrow<'_, Self>, completion: &Completion) {
        if !completion.status().is_success() {
            return send_failed(this, completion.status());
        }
        while !completion.is_spent() {
            let mut sq = this.send_queue.lock();
            let ended = retire(&mut sq, completion);
            let stop = sq.resume();
            drop(sq);
            this.follow(stop);
            if let Some(work) = ended {
                finish(this, work, Outcome::Done);
            }
        }
        this.wake();
    }

    fn failed(this: ArcBorrow<'_, Self>) {
        this.failed.store(true, Relaxed);
    }
}

/// Takes work that `completion` stands for, until a piece of it must be finished without the lock.
#[inline]
fn retire(sq: &mut SendGuard<'_>, completion: &Completion) -> Option<Work> {
    loop {
        let work = sq.complete(completion)?;
        if let Some(work) = sq.state().retire(work) {
            return Some(work);
        }
    }
}

/// Closes the connection after a Send has failed. After a flush the watchdog closes it, unless an event
/// does before. The device flushes all other posted work, and the teardown returns its resources.
#[cold]
#[inline(never)]
fn send_failed(endpoint: ArcBorrow<'_, Endpoint>, status: Status) {
    if status.is_flush() {
        endpoint.flushed.store(true, Relaxed);
    } else {
        endpoint.connection.close(CloseReason::Send(status.code()));
    }
}

/// Returns the resources of `work`, which the device has completed or flushed. A Call whose RDMA
/// Reads are complete continues to nfsd.
///
/// # Context
///
/// Process context; does not sleep.
pub(crate) fn finish(endpoint: ArcBorrow<'_, Endpoint>, work: Work, outcome: Outcome) {
    match work {
        Work::Read(call) => read::finish(endpoint, call, outcome),
        Work::Reply(reply, _) => {
            if reply.kind() == Kind::Callback {
                endpoint.callbacks.end();
            }
            if outcome == Outcome::Flushed {
                // Otherwise the send queue has done that.
                endpoint.release(&reply);
            }
            if reply.kind() == Kind::Answer && outcome == Outcome::Done {
                reply::next_answer(&endpoint, reply);
                return;
            }
            endpoint.put_reply(reply);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Dispatch: the handlers of the completions of a queue pair.
//!
//! # Context
//!
//! The workers of completion queues, but for `failed`, which the device calls in any context.
//! Nothing here sleeps.

use super::{
    read,
    receive, //
};
use crate::svc::{
    close_reason::CloseReason,
    conn::{
        call::{
            Call,
            CallState, //
        },
        endpoint::Endpoint,
        work::{
            Outcome,
            Work, //
        },
    },
    lane::reply::Kind,
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

    fn received(this: ArcBorrow<'_, Self>, receive: Call) {
        receive::received(&this.into(), receive);
    }

    fn unfit(this: ArcBorrow<'_, Self>, what: Unfit) {
        this.connection.close(match what {
            Unfit::Immediate => CloseReason::NoMessage,
            Unfit::Invalidation => CloseReason::Invalidation,
        });
    }

    fn receive_failed(this: ArcBorrow<'_, Self>, status: Status) {
        if !status.is_flush() {
            this.connection.close(CloseReason::Receive(status.code()));
        }
    }

    fn sent(this: ArcBorrow<'_, Self>, completion: &Completion) {
        let status = completion.status();
        if !status.is_success() {
            // The device flushes all other posted work. The teardown returns its resources.
            if !status.is_flush() {
                this.connection.close(CloseReason::Send(status.code()));
            }
            return;
        }
        while let Some((work, posting)) = this.send_queue.complete(completion) {
            this.count(posting);
            if let Some(work) = work {
                finish(this, work, Outcome::Done);
            }
        }
        this.wake();
    }

    fn failed(this: ArcBorrow<'_, Self>) {
        this.failed.store(true, Relaxed);
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
        Work::Read(call) => read::finish(&endpoint.into(), call, outcome),
        Work::Reply { reply, .. } => {
            if reply.kind() == Kind::Callback {
                endpoint.callbacks.end();
            }
            endpoint.put_reply(reply);
        }
    }
}

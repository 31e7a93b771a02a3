// SPDX-License-Identifier: GPL-2.0

//! Work: what a connection posts to its send queue.
//!
//! The RDMA Reads of Calls, Replies and callbacks wait in one
//! [`SendQueue`](rdma::send_queue::SendQueue), which owns them until the device has completed them.

use super::{
    call::{
        self,
        Call, //
    },
    credits::CallCredit, //
};
use crate::svc::lane::reply::Reply;
use core::cell::Cell;
use kernel::prelude::*;
use rdma::{
    chain::Chain,
    progress::Amount,
    work::{
        self,
        Built, //
    },
};

/// The most work requests that are posted together: the RDMA Writes of a Reply of 1 MiB, in pieces
/// of 32 pages, and its Send.
pub(crate) const CHAIN: usize = 10;

/// Work that is posted or waits.
pub(crate) enum Work {
    /// The RDMA Reads of a Call.
    Read(Call),
    /// A Reply or a callback, and the credit that the Call uses until the last work request of its
    /// Reply is built.
    Reply(KBox<Reply>, Cell<Option<CallCredit>>),
}

/// The end of a piece of work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The device has completed the work.
    Done,
    /// The work was flushed, or was never posted.
    Flushed,
}

impl work::Work for Work {
    type State = ();

    fn build<'m>(&'m self, chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        match self {
            Work::Read(call) => call::build_reads(call, chain, room),
            Work::Reply(reply, _) => reply.build(chain, room),
        }
    }

    fn on_built(&self, (): &mut ()) {
        if let Work::Reply(_, credit) = self {
            credit.set(None);
        }
    }

    fn holds_resources(&self) -> bool {
        match self {
            Work::Read(_) => true,
            Work::Reply(reply, _) => reply.holds_pages(),
        }
    }

    fn amount(&self) -> Amount {
        match self {
            Work::Read(call) => Amount {
                bytes: call.layout.sink_len(),
                filled: call.layout.pages(),
            },
            Work::Reply(reply, _) => Amount {
                bytes: reply.bytes(),
                filled: 0,
            },
        }
    }
}

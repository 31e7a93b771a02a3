// SPDX-License-Identifier: GPL-2.0

//! Work: what a connection posts to its send queue.
//!
//! The RDMA Reads of Calls, Replies and callbacks wait in one
//! [`SendQueue`](rdma::send_queue::SendQueue), which owns them until the device has completed them.

use super::call::{
    self,
    Call, //
};
use crate::svc::lane::reply::Reply;
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
    /// A Reply or a callback.
    Reply(KBox<Reply>),
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
    /// The Call of a Reply, whose header names the chunks that the Reply is written to. None for
    /// other work.
    type Source = Option<Call>;

    fn build<'m>(&'m self, source: &Option<Call>, chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        match self {
            Work::Read(call) => call::build_reads(call, chain, room),
            Work::Reply(reply) => reply.build(source.as_ref().map(call::view), chain, room),
        }
    }

    fn holds_resources(&self) -> bool {
        match self {
            Work::Read(_) => true,
            Work::Reply(reply) => reply.holds_pages(),
        }
    }

    fn amount(&self) -> Amount {
        match self {
            Work::Read(call) => Amount {
                bytes: call.layout.sink_len(),
                filled: call.layout.pages(),
            },
            Work::Reply(reply) => Amount {
                bytes: reply.bytes(),
                filled: 0,
            },
        }
    }
}

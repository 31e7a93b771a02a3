// SPDX-License-Identifier: GPL-2.0

//! Work: what a connection posts to its send queue.
//!
//! The Reads of Calls, and Replies, wait in one [`SendQueue`](rdma::send_queue::SendQueue), which owns them
//! until the device has completed them.

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

/// The most work requests that are posted together: those of a Reply of 1 MiB in pieces of 32 pages, and its
/// Send.
pub(crate) const CHAIN: usize = 10;

/// Work that is posted or waits.
pub(crate) enum Work {
    /// The RDMA Reads of a Call.
    Read(Call),
    /// A Reply, or a Call to the client.
    Reply(KBox<Reply>),
}

/// How work has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The device has completed it.
    Done,
    /// It was flushed, or never posted.
    Flushed,
}

impl work::Work for Work {
    /// The Call of a Reply: its header names the chunks that the Reply is written to.
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

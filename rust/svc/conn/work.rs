// SPDX-License-Identifier: GPL-2.0

//! Work: what a connection posts to its send queue.
//!
//! The Reads of a Call and replies alike wait in one [`SendQueue`](rdma::send_queue::SendQueue),
//! which owns them until the device is done with them.

use crate::svc::flow::{
    read,
    receive::Call,
    reply::Reply, //
};
use kernel::prelude::*;
use rdma::{
    chain::Chain,
    progress::Amount,
    work, //
};

/// Work requests that one call posts at most: those of a reply of 1 MiB, in pieces of 32 pages, and
/// its Send.
pub(crate) const CHAIN: usize = 10;

/// What is posted, or waits to be.
pub(crate) enum Work {
    /// The RDMA Reads of a Call.
    Read(Call),
    /// A reply.
    Reply(KBox<Reply>),
}

impl work::Work for Work {
    /// The Call of a reply: the received header names the chunks that it is written to.
    type Source = Option<Call>;

    fn build<'m>(&'m self, source: &Option<Call>, chain: &mut Chain<'_, 'm>, room: usize) -> bool {
        match self {
            Work::Read(call) => read::build(call, chain, room),
            Work::Reply(reply) => reply.build(source.as_ref(), chain, room),
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

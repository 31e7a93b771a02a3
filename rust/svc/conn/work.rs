// SPDX-License-Identifier: GPL-2.0

//! Work: what a connection posts to its send queue.
//!
//! The RDMA Reads of Calls, Replies and callbacks wait in one
//! [`SendQueue`](rdma::send_queue::SendQueue), which owns them until the device has completed them.

use super::{
    account::Account,
    call::{
        self,
        Call, //
    },
};
use crate::svc::lane::reply::{
    Kind,
    Reply, //
};
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
    /// A Reply or a callback.
    Reply {
        /// The context.
        reply: KBox<Reply>,
        /// True if the Call uses a credit, until the last work request of the Reply is built.
        has_credit: bool,
        /// The Call of a Reply that has to wait, until the last work request is built: a peer that
        /// takes no Replies finds no Receive buffer for more Calls.
        call: Cell<Option<Call>>,
    },
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
    type State = Account;

    fn build<'m>(&'m self, chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        match self {
            Work::Read(call) => call::build_reads(call, chain, room),
            Work::Reply { reply, .. } => reply.build(chain, room),
        }
    }

    #[inline]
    fn on_queued(&self, account: &mut Account) {
        if let Work::Reply { reply, .. } = self {
            account.space.take(reply.pages());
        }
    }

    #[inline]
    fn on_built(&self, account: &mut Account) {
        if let Work::Reply {
            has_credit, call, ..
        } = self
        {
            if *has_credit {
                account.credits.on_end();
            }
            call.set(None);
        }
    }

    #[inline]
    fn retire(self, account: &mut Account) -> Option<Self> {
        let Work::Reply {
            mut reply,
            has_credit,
            call,
        } = self
        else {
            return Some(self);
        };
        if reply.kind() != Kind::Reply || reply.holds_pages() || account.is_full() {
            return Some(Work::Reply {
                reply,
                has_credit,
                call,
            });
        }
        account.space.put(reply.pages());
        reply.reset();
        account.keep(reply).map(|reply| Work::Reply {
            reply,
            has_credit,
            call,
        })
    }

    fn holds_resources(&self) -> bool {
        match self {
            Work::Read(_) => true,
            Work::Reply { reply, .. } => reply.holds_pages(),
        }
    }

    fn amount(&self) -> Amount {
        match self {
            Work::Read(call) => Amount {
                bytes: call.layout.sink_len(),
                // CAST: The number came from 32 bits.
                filled: call.sink_pages() as u32,
            },
            Work::Reply { reply, .. } => Amount {
                bytes: reply.bytes(),
                filled: 0,
            },
        }
    }
}

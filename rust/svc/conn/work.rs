// SPDX-License-Identifier: GPL-2.0

//! Work: what a connection posts to its send queue.
//!
//! The RDMA Reads of Calls, Replies and callbacks wait in one
//! [`SendQueue`](rdma::send_queue::SendQueue), which owns them until the device has completed them.

use super::{
    account::{
        Account,
        Granted, //
    },
    call::{
        self,
        Call, //
    },
};
use crate::svc::lane::reply::Reply;
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    chain::Chain,
    device::Pd,
    dma::Direction,
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
    /// A Reply that probably has to wait for room in the send queue. It keeps its Call until the last
    /// work request is built: a peer that takes no Replies finds no Receive buffer for more Calls.
    Late(KBox<Reply>, Cell<Option<Call>>),
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
    type Queued = Granted;

    #[inline]
    fn build<'m>(&'m self, chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        match self {
            Work::Read(call) => call::build_reads(call, chain, room),
            Work::Reply(reply) | Work::Late(reply, _) => reply.build(chain, room),
        }
    }

    fn map(&mut self, pd: &Arc<Pd>) -> Result<bool> {
        match self {
            Work::Read(call) => match &mut call.sink {
                Some(sink) => sink.map_if_needed(pd, Direction::FromDevice),
                None => Ok(false),
            },
            Work::Reply(reply) | Work::Late(reply, _) => reply.map(pd),
        }
    }

    fn unmap(&mut self) {
        match self {
            Work::Read(call) => {
                if let Some(sink) = &mut call.sink {
                    sink.unmap();
                }
            }
            Work::Reply(reply) | Work::Late(reply, _) => reply.unmap(),
        }
    }

    #[inline]
    fn on_queued(&mut self, account: &mut Account) -> Granted {
        match self {
            Work::Read(_) => Granted::default(),
            Work::Reply(reply) | Work::Late(reply, _) => account.on_queued(reply),
        }
    }

    #[inline]
    fn on_built(&self, account: &mut Account) {
        let reply = match self {
            Work::Read(_) => return,
            Work::Reply(reply) => reply,
            Work::Late(reply, call) => {
                call.set(None);
                reply
            }
        };
        account.on_built(reply);
    }

    #[inline]
    fn on_posted(account: &mut Account, count: u32, read: u32) {
        account.on_posted(count, read);
    }

    #[inline]
    fn retire(self, account: &mut Account) -> Option<Self> {
        match self {
            Work::Read(_) => Some(self),
            Work::Reply(reply) | Work::Late(reply, _) => {
                account.on_completed(reply).map(Work::Reply)
            }
        }
    }

    #[inline]
    fn awaits_completion(&self) -> bool {
        match self {
            Work::Read(_) => true,
            Work::Reply(reply) | Work::Late(reply, _) => reply.awaits_completion(),
        }
    }

    #[inline]
    fn amount(&self) -> Amount {
        match self {
            Work::Read(call) => Amount {
                bytes: call.layout.sink_len(),
                // CAST: The number came from 32 bits.
                filled: call.sink_pages() as u32,
            },
            Work::Reply(reply) | Work::Late(reply, _) => Amount {
                bytes: reply.bytes(),
                filled: 0,
            },
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Work: what a connection posts to its send queue.
//!
//! The RDMA Reads of Calls, Replies and callbacks wait in one
//! [`SendQueue`](rdma::send::queue::SendQueue), which owns them until the device has completed them.

use super::{
    call::{
        self,
        Call, //
    },
    sender::Sender,
};
use crate::svc::lane::reply::Reply;
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    device::Pd,
    mem::dma::Direction,
    send::{
        chain::Chain,
        progress::Amount,
        work::{
            self,
            Built, //
        },
    },
};

/// The most work requests that are posted together: the RDMA Writes of a Reply of 1 MiB, in pieces
/// of 32 pages, and its Send.
pub(crate) const CHAIN: usize = 10;

/// Work that is posted or waits.
pub(crate) enum Work {
    /// The RDMA Reads of a Call.
    Read(Call),
    /// A Reply or a callback. A Reply that probably has to wait for room in the send queue keeps its
    /// Call until the last work request is built: a peer that takes no Replies finds no Receive buffer
    /// for more Calls.
    Reply(KBox<Reply>, Cell<Option<Call>>),
}

/// The end of a piece of work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The device has completed the work.
    Done,
    /// The work was flushed, or was never posted.
    Flushed,
}

impl From<KBox<Reply>> for Work {
    /// Returns the work of a Reply that keeps no Call, or of a callback.
    #[inline]
    fn from(reply: KBox<Reply>) -> Self {
        Self::Reply(reply, Cell::new(None))
    }
}

impl work::Work for Work {
    type State = Sender;

    #[inline]
    fn build<'m>(&'m self, sender: &mut Sender, chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        let built = match self {
            Work::Read(call) => call::build_reads(call, chain, room),
            Work::Reply(reply, call) => {
                let built = reply.build(chain, room);
                if built == Built::All {
                    call.set(None);
                    sender.on_built(reply);
                }
                built
            }
        };
        sender.on_posted(chain);
        built
    }

    fn map(&mut self, pd: &Arc<Pd>) -> Result<bool> {
        match self {
            Work::Read(call) => match &mut call.sink {
                Some(sink) => sink.map_if_needed(pd, Direction::FromDevice),
                None => Ok(false),
            },
            Work::Reply(reply, _) => reply.map(pd),
        }
    }

    fn unmap(&mut self) {
        match self {
            Work::Read(call) => {
                if let Some(sink) = &mut call.sink {
                    sink.unmap();
                }
            }
            Work::Reply(reply, _) => reply.unmap(),
        }
    }

    #[inline]
    fn awaits_completion(&self) -> bool {
        match self {
            Work::Read(_) => true,
            Work::Reply(reply, _) => reply.awaits_completion(),
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
            Work::Reply(reply, _) => Amount {
                bytes: reply.bytes(),
                filled: 0,
            },
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Jobs: what a connection posts to its send queue.

use core::{cell::Cell, iter::Empty, ops::Range};
use kernel::{prelude::*, sync::Arc};
use rdma::{
    device::Pd,
    mem::{
        dma::Direction,
        exposure::{Exposure, RemoteReadWrite},
        page_region::PageRegion,
    },
    send::{
        buffer::SendBuffer,
        chain::{Chain, Message, Rdma, Remote},
        progress::Amount,
        work::{Built, Work},
    },
};
use smbdirect::bulk::{Head, Segments};

/// A piece of work. The head of a request comes back with its job, for the answer.
pub(crate) enum Job {
    /// Sends a message of SMB Direct.
    Send(SendBuffer, usize),
    /// Moves the bytes of a region: a pull reads, a push writes.
    Move(Head, KBox<PageRegion>, Rdma, Cell<Segments>),
    /// Lets the peer use a region.
    Offer(Head, Exposure<RemoteReadWrite>),
    /// Ends an offer.
    Withdraw(Head, Exposure<RemoteReadWrite>),
}

impl Work for Job {
    type State = ();

    fn build<'m>(&'m self, (): &mut (), chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        match self {
            Self::Send(buffer, len) => {
                let rest = None::<(&PageRegion, Empty<Range<usize>>)>;
                let (len, invalidate) = (*len, None);
                let message = Message {
                    buffer,
                    len,
                    rest,
                    invalidate,
                };
                Built::from(room > 0 && chain.send(message))
            }
            Self::Move(_, region, Rdma::Read, segments) => {
                let is_done = chain.register(region, room)
                    && add_all(chain, room, Rdma::Read, region, segments)
                    && chain.invalidate(region, room);
                Built::from(is_done)
            }
            Self::Move(_, region, rdma, segments) => {
                Built::from(add_all(chain, room, *rdma, region, segments))
            }
            Self::Offer(_, exposure) => Built::from(chain.expose(exposure, room)),
            Self::Withdraw(_, exposure) => Built::from(chain.revoke(exposure, room)),
        }
    }

    fn map(&mut self, pd: &Arc<Pd>) -> Result<bool> {
        match self {
            Self::Move(_, region, Rdma::Read, _) => region.map_if_needed(pd, Direction::FromDevice),
            Self::Move(_, region, ..) => region.map_if_needed(pd, Direction::ToDevice),
            _ => Ok(false),
        }
    }

    fn unmap(&mut self) {
        if let Self::Move(_, region, ..) = self {
            region.unmap();
        }
    }

    fn awaits_completion(&self) -> bool {
        true // The peer waits for the answer, or another message for the buffer.
    }

    fn amount(&self) -> Amount {
        let bytes = match self {
            Self::Send(_, len) => *len as u32,
            Self::Move(head, ..) => head.length,
            _ => 0,
        };
        Amount { bytes, filled: 0 }
    }
}

/// Adds the RDMA operations of a request. Returns true if the chain has the last one.
fn add_all<'m>(
    chain: &mut Chain<'_, 'm>,
    room: usize,
    rdma: Rdma,
    region: &'m PageRegion,
    left: &Cell<Segments>,
) -> bool {
    let mut segments = left.get();
    while let Some(piece) = segments.peek() {
        let (key, addr) = (piece.token, piece.offset);
        let (at, len) = (piece.at as usize, piece.len as usize);
        if chain.len() >= room {
            return false;
        }
        match chain.rdma(rdma, Remote { key, addr }, region, at, len) {
            0 => return false,
            // CAST: At most the length of the piece.
            moved => segments.advance(moved as u32),
        }
        left.set(segments);
    }
    true
}

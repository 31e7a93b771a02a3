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

/// The move of a pull, which reads, or of a push, which writes.
pub(crate) struct Move {
    pub(crate) head: Head,
    pub(crate) region: KBox<PageRegion>,
    pub(crate) rdma: Rdma,
    /// The segments that are not posted yet.
    pub(crate) left: Cell<Segments>,
}

/// A piece of work. The head of a request comes back with its job, for the answer.
pub(crate) enum Job {
    /// Sends a message of SMB Direct.
    Send(SendBuffer, usize),
    /// Moves the bytes of a region. Boxed, as the others are small.
    Move(KBox<Move>),
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
            Self::Move(this) => Built::from(this.add_all(chain, room)),
            Self::Offer(_, exposure) => Built::from(chain.expose(exposure, room)),
            Self::Withdraw(_, exposure) => Built::from(chain.revoke(exposure, room)),
        }
    }

    fn map(&mut self, pd: &Arc<Pd>) -> Result<bool> {
        match self {
            Self::Move(this) => this.map(pd),
            _ => Ok(false),
        }
    }

    fn unmap(&mut self) {
        if let Self::Move(this) = self {
            this.region.unmap();
        }
    }

    fn awaits_completion(&self) -> bool {
        true // The peer waits for the answer, or another message for the buffer.
    }

    fn amount(&self) -> Amount {
        let bytes = match self {
            Self::Send(_, len) => *len as u32,
            Self::Move(this) => this.head.length,
            _ => 0,
        };
        Amount { bytes, filled: 0 }
    }
}

impl Move {
    /// Maps the region, if it is not mapped.
    pub(crate) fn map(&mut self, pd: &Arc<Pd>) -> Result<bool> {
        let direction = match self.rdma {
            Rdma::Read => Direction::FromDevice,
            Rdma::Write => Direction::ToDevice,
        };
        self.region.map_if_needed(pd, direction)
    }

    /// Adds the work requests that follow. Returns true if the chain has the last one.
    fn add_all<'m>(&'m self, chain: &mut Chain<'_, 'm>, room: usize) -> bool {
        match self.rdma {
            Rdma::Read => {
                chain.register(&self.region, room)
                    && self.add_operations(chain, room)
                    && chain.invalidate(&self.region, room)
            }
            Rdma::Write => self.add_operations(chain, room),
        }
    }

    /// Adds the RDMA operations that follow. Returns true if the chain has the last one.
    fn add_operations<'m>(&'m self, chain: &mut Chain<'_, 'm>, room: usize) -> bool {
        let mut segments = self.left.get();
        while let Some(piece) = segments.peek() {
            let (key, addr) = (piece.token, piece.offset);
            let (at, len) = (piece.at as usize, piece.len as usize);
            if chain.len() >= room {
                return false;
            }
            match chain.rdma(self.rdma, Remote { key, addr }, &self.region, at, len) {
                0 => return false,
                // CAST: At most the length of the piece.
                moved => segments.advance(moved as u32),
            }
            self.left.set(segments);
        }
        true
    }
}

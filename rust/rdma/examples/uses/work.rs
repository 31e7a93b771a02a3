// SPDX-License-Identifier: GPL-2.0

use core::{cell::Cell, iter::Empty, ops::Range};
use kernel::{prelude::*, sync::Arc};
use rdma::{
    device::Pd,
    mem::{dma::Direction, page_region::PageRegion},
    send::{
        buffer::SendBuffer,
        chain::{Chain, Message, Rdma, Remote},
        progress::Amount,
        work::{Built, Work},
    },
};

pub struct Reply {
    header: SendBuffer,
    header_len: usize,
    result: KBox<PageRegion>, // Mapped with `Direction::ToDevice`.
    key: u32,
    addr: u64,
    wanted: usize,
    written: Cell<usize>,
}

impl Work for Reply {
    type State = ();

    fn build<'m>(&'m self, (): &mut (), chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        while self.written.get() < self.wanted {
            let at = self.written.get();
            let remote = Remote {
                key: self.key,
                addr: self.addr + at as u64,
            };
            if chain.len() >= room {
                return Built::More;
            }
            match chain.rdma(Rdma::Write, remote, &self.result, at, self.wanted - at) {
                0 => return Built::More,
                taken => self.written.set(at + taken),
            }
        }
        if chain.len() >= room {
            return Built::More;
        }
        Built::from(chain.send(Message {
            buffer: &self.header,
            len: self.header_len,
            rest: None::<(&PageRegion, Empty<Range<usize>>)>,
            invalidate: None,
        }))
    }

    fn map(&mut self, pd: &Arc<Pd>) -> Result<bool> {
        self.result.map_if_needed(pd, Direction::ToDevice)
    }

    fn unmap(&mut self) {
        self.result.unmap();
    }

    fn awaits_completion(&self) -> bool {
        true // The pages of the result.
    }

    fn amount(&self) -> Amount {
        Amount {
            bytes: self.wanted as u32,
            filled: 0,
        }
    }
}

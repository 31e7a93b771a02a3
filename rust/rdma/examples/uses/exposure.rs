// SPDX-License-Identifier: GPL-2.0

use core::{iter::Empty, ops::Range};
use kernel::{prelude::*, sync::Arc};
use rdma::{
    device::Pd,
    mem::{
        exposure::{Exposure, RemoteWrite, Unexposed},
        page_region::PageRegion,
    },
    send::{
        buffer::SendBuffer,
        chain::{Chain, Message},
        work::Built,
    },
};

/// Work that exposes memory and tells the peer.
pub struct Offer {
    exposure: Exposure<RemoteWrite>,
    message: SendBuffer,
}

impl Offer {
    /// Lets the peer write 4096 bytes. The message is their key.
    pub fn new(
        pd: &Arc<Pd>,
        region: KBox<PageRegion>,
        mut message: SendBuffer,
    ) -> Result<Self, Unexposed> {
        let exposure = Exposure::new(pd, region, 4096)?;
        for (segment, out) in exposure
            .segments()
            .zip(message.bytes_mut().chunks_exact_mut(4))
        {
            out.copy_from_slice(&segment.key.to_be_bytes());
        }
        Ok(Self { exposure, message })
    }

    /// Builds the work requests, for `Work::build`.
    pub fn build<'m>(&'m self, chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        let message = Message {
            buffer: &self.message,
            len: 4,
            rest: None::<(&PageRegion, Empty<Range<usize>>)>,
            invalidate: None,
        };
        let is_exposed = chain.expose(&self.exposure, room);
        Built::from(is_exposed && chain.len() < room && chain.send(message))
    }
}

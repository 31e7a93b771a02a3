// SPDX-License-Identifier: GPL-2.0

//! Transfers: RDMA Reads and RDMA Writes between a page region and memory of the peer.

use crate::{
    device::Pd,
    mem::{
        dma::Direction,
        exposure::Segment,
        page_region::PageRegion, //
    },
    send::chain::{
        Chain,
        Rdma,
        Remote, //
    },
};
use core::{
    cell::Cell,
    marker::PhantomData, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The way that the bytes of a transfer take.
pub(super) trait Way {
    const RDMA: Rdma;
    const DIRECTION: Direction;
}

/// RDMA Reads fill the page region.
pub(super) struct FromPeer;

/// RDMA Writes empty it into the memory of the peer.
pub(super) struct ToPeer;

impl Way for FromPeer {
    const RDMA: Rdma = Rdma::Read;
    const DIRECTION: Direction = Direction::FromDevice;
}

impl Way for ToPeer {
    const RDMA: Rdma = Rdma::Write;
    const DIRECTION: Direction = Direction::ToDevice;
}

/// The first byte that is not posted yet: in the page region, and its segment and place there.
#[derive(Clone, Copy, Default)]
struct Place {
    at: usize,
    segment: usize,
    done: u32,
}

/// A transfer. The segments are filled, or emptied, in their order.
pub(super) struct Transfer<W> {
    region: KBox<PageRegion>,
    segments: KVec<Segment>,
    place: Cell<Place>,
    way: PhantomData<W>,
}

impl<W: Way> Transfer<W> {
    /// Unmaps `region`, see [`PageRegion::unmap`].
    pub(super) fn new(mut region: KBox<PageRegion>, segments: KVec<Segment>) -> Self {
        // Here, as it may sleep: nothing is unmapped later that a peer may use.
        region.unmap();
        Self {
            region,
            segments,
            place: Cell::default(),
            way: PhantomData,
        }
    }

    /// Returns the number of bytes.
    pub(super) fn bytes(&self) -> u32 {
        let lengths = self.segments.iter().map(|segment| segment.len);
        lengths.fold(0, u32::saturating_add)
    }

    /// Maps the page region, if it is not mapped. See [`PageRegion::map_if_needed`].
    pub(super) fn map(&mut self, pd: &Arc<Pd>) -> Result<bool> {
        self.region.map_if_needed(pd, W::DIRECTION)
    }

    pub(super) fn unmap(&mut self) {
        self.region.unmap();
    }

    /// Returns the page region, unmapped.
    pub(super) fn into_region(mut self) -> KBox<PageRegion> {
        self.region.unmap();
        self.region
    }

    /// Adds the work requests that follow. Returns true if the chain has the last one.
    pub(super) fn build<'m>(&'m self, chain: &mut Chain<'_, 'm>, room: usize) -> bool {
        match W::RDMA {
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
        let mut place = self.place.get();
        while let Some(segment) = self.segments.get(place.segment) {
            let left = segment.len.saturating_sub(place.done);
            if left == 0 {
                (place.segment, place.done) = (place.segment.saturating_add(1), 0);
                continue;
            }
            if chain.len() >= room {
                return false;
            }
            let remote = Remote {
                key: segment.key,
                // A segment that wraps around is the peer's own fault: its device refuses it.
                addr: segment.addr.wrapping_add(u64::from(place.done)),
            };
            let moved = chain.rdma(W::RDMA, remote, &self.region, place.at, left as usize);
            if moved == 0 {
                return false;
            }
            place.at = place.at.saturating_add(moved);
            // CAST: At most the length of the segment.
            place.done = place.done.saturating_add(moved as u32);
            self.place.set(place);
        }
        true
    }
}

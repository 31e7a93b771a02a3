// SPDX-License-Identifier: GPL-2.0

//! The regions of a connection, and the requests that use them.

use kernel::prelude::*;
use rdma::{
    mem::{
        exposure::{
            Any,
            Exposure,
            RemoteReadWrite,
            Segment, //
        },
        page_region::PageRegion, //
    },
    service::{
        peer::Peer,
        service::Outcome, //
    },
};
use smbdirect::bulk::{
    Head,
    Operation,
    Segments,
    Status,
    MAX_DESCRIPTORS,
    READ,
    WRITE, //
};
use support::page::PAGE_SIZE;

/// A region, or its absence.
pub(crate) enum Region {
    Idle(KBox<PageRegion>),
    /// A job has the region.
    Busy,
    Offered(Exposure<Any>),
}

/// The regions of a connection. All have the same size.
pub(crate) struct Regions {
    list: KVec<Region>,
    /// Bytes of a region.
    pub(crate) len: u32,
}

/// The start of a request: the result of its job's start, or the status to answer with.
type Started = Result<Outcome, Status>;

impl Regions {
    /// Allocates `count` regions of `pages` pages. May sleep.
    pub(crate) fn new(peer: &Peer<Head>, count: usize, pages: usize) -> Result<Self> {
        let mut list = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let region = PageRegion::for_exposure(peer.pd(), pages)?;
            list.push(Region::Idle(region), GFP_KERNEL)?;
        }
        // CAST: At most 16 MiB.
        let len = pages.saturating_mul(PAGE_SIZE) as u32;
        Ok(Self { list, len })
    }

    /// Takes the region of a request. It is busy until [`Self::put`].
    fn take(&mut self, head: &Head) -> Result<Region, Status> {
        let place = self.list.get_mut(head.region as usize);
        let place = place.ok_or(Status::NoRegion)?;
        Ok(core::mem::replace(place, Region::Busy))
    }

    /// Takes the idle region of a request whose length fits.
    fn take_idle(&mut self, head: &Head) -> Result<KBox<PageRegion>, Status> {
        if head.length > self.len {
            return Err(Status::TooLong);
        }
        match self.take(head)? {
            Region::Idle(region) => Ok(region),
            other => {
                self.put(head, other);
                Err(Status::Busy)
            }
        }
    }

    /// Puts the region of a request back.
    pub(crate) fn put(&mut self, head: &Head, region: Region) {
        if let Some(place) = self.list.get_mut(head.region as usize) {
            *place = region;
        }
    }

    /// Starts a request that uses a region.
    ///
    /// # Errors
    ///
    /// The status to answer with. Nothing was started.
    pub(crate) fn start(&mut self, head: &Head, payload: &[u8], peer: &mut Peer<Head>) -> Started {
        match head.operation() {
            Some(Operation::Pull) if peer.reads().issued == 0 => Err(Status::Unable),
            Some(Operation::Pull) => {
                let segments = segments(head, payload)?;
                Ok(peer.read(self.take_idle(head)?, segments, *head))
            }
            Some(Operation::Push) => {
                let segments = segments(head, payload)?;
                Ok(peer.write(self.take_idle(head)?, segments, *head))
            }
            Some(Operation::Offer) => self.offer(head, peer),
            Some(Operation::Withdraw) => match self.take(head)? {
                Region::Offered(exposure) => Ok(peer.revoke(exposure, *head)),
                other => {
                    self.put(head, other);
                    Err(Status::Busy)
                }
            },
            Some(Operation::Echo) | None => Err(Status::Unknown),
        }
    }

    /// Starts an offer.
    fn offer(&mut self, head: &Head, peer: &mut Peer<Head>) -> Started {
        if head.access != READ | WRITE {
            return Err(Status::Unable);
        }
        let region = self.take_idle(head)?;
        let exposure = Exposure::<RemoteReadWrite>::new(peer.pd(), region, head.length as usize);
        let region = match exposure {
            Ok(exposure) if exposure.segments().count() <= MAX_DESCRIPTORS => {
                return Ok(peer.expose(exposure, *head));
            }
            // Nothing of it was exposed yet.
            Ok(exposure) => exposure.into_region().map_err(|_| Status::Unable)?,
            Err(unexposed) => unexposed.region,
        };
        self.put(head, Region::Idle(region));
        Err(Status::Unable)
    }
}

/// Returns the memory of the client that a pull or a push moves. [`Status::Ok`] if nothing moves.
fn segments(head: &Head, payload: &[u8]) -> Result<KVec<Segment>, Status> {
    let mut left = Segments::decode(head, payload)?;
    let mut segments = KVec::new();
    while let Some(piece) = left.peek() {
        let segment = Segment {
            key: piece.token,
            addr: piece.offset,
            len: piece.len,
        };
        let pushed = segments.push(segment, GFP_KERNEL);
        pushed.map_err(|_| Status::Unable)?;
        left.advance(piece.len);
    }
    if segments.is_empty() {
        return Err(Status::Ok);
    }
    Ok(segments)
}

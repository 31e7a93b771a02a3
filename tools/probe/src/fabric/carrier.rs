// SPDX-License-Identifier: GPL-2.0

//! The side of the fabric: operations of `rdma_bulk`.

use super::{
    cell::{Bounds, Cell, Kind},
    sample::{Round, Sample},
};
use crate::{
    bulk::{
        client::{part, Client, LIMITS},
        link::OPERATIONS,
        offer, withdraw,
    },
    error::{Error, Result},
    ffi::{Rdma, Region},
    target::Target,
};
use smbdirect::{
    bulk::{Head, Operation, Status},
    descriptor::Descriptor,
};
use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

/// The most regions of a connection.
const MOST_REGIONS: u32 = 16;

/// The bytes of answers for which the server waits at most.
const WAITING: u32 = 256 << 10;

/// A connection to `rdma_bulk`.
pub(super) struct Carrier {
    client: Client,
    pub(super) bounds: Bounds,
}

impl Carrier {
    /// Connects to the module.
    pub(super) fn connect(target: &Target) -> Result<Self> {
        let client = Client::connect(target, &LIMITS);
        let client = client.map_err(|error| missing(target, error))?;
        let mut this = Self {
            client,
            bounds: Bounds::default(),
        };
        this.bounds = Bounds {
            message: this.client.session.max_outgoing() - Head::LEN as u32,
            waiting: WAITING,
            regions: this.regions()?,
            region: this.client.response.max_read_write,
            operations: OPERATIONS as u32,
            ..Bounds::default()
        };
        Ok(this)
    }

    /// Returns the number of regions. None is offered yet, so a region that exists refuses to be
    /// withdrawn.
    fn regions(&mut self) -> Result<u32> {
        for region in 0..MOST_REGIONS {
            if withdraw(&mut self.client, region)? == Some(Status::NoRegion) {
                return Ok(region);
            }
        }
        Ok(MOST_REGIONS)
    }

    /// Allocates the memory of a cell.
    pub(super) fn memory(&self, cell: &Cell) -> Result<Region> {
        let len = cell.size as usize * cell.in_flight as usize;
        self.client.region(&vec![0x5a; len])
    }

    /// Measures a cell.
    pub(super) fn measure(
        &mut self,
        cell: &Cell,
        memory: &Region,
        most: Duration,
    ) -> Result<Sample> {
        let mut round = Round::new(most, cell.in_flight)?;
        let made = match cell.kind {
            Kind::OfferRead => self.offered(cell, Rdma::Read, memory, &mut round),
            Kind::OfferWrite => self.offered(cell, Rdma::Write, memory, &mut round),
            _ => self.requests(cell, memory, &mut round),
        };
        made.map_err(|error| error.within(format_args!("{} of {} bytes", cell.kind, cell.size)))?;
        Ok(round.sample())
    }

    /// Makes requests, as many at a time as the cell has in flight.
    fn requests(&mut self, cell: &Cell, memory: &Region, round: &mut Round) -> Result {
        let payload = match cell.kind {
            Kind::Send => vec![0x5a; cell.size as usize],
            _ => vec![0; Descriptor::LEN],
        };
        let (mut idle, mut sent) = (Vec::from_iter(0..cell.in_flight), HashMap::new());
        loop {
            while !idle.is_empty() && round.goes_on() {
                if let Some(slot) = idle.pop() {
                    let begin = Instant::now();
                    let tag = self.request(cell, slot, memory, payload.clone())?;
                    sent.insert(tag, (slot, begin));
                }
            }
            if sent.is_empty() {
                return Ok(());
            }
            let (head, answer) = self.client.answer()?;
            let Some((slot, begin)) = sent.remove(&head.tag) else {
                return Err(Error::new(format!("{head:?} answers no request")));
            };
            let is_whole = cell.kind != Kind::Send || answer.len() == payload.len();
            if head.status() != Some(Status::Ok) || !is_whole {
                return Err(Error::new(format!(
                    "the server answers {:?}",
                    head.status()
                )));
            }
            round.done(begin);
            idle.push(slot);
        }
    }

    /// Sends a request that uses this slot of the memory, and the region with its number.
    fn request(
        &mut self,
        cell: &Cell,
        slot: u32,
        memory: &Region,
        mut payload: Vec<u8>,
    ) -> Result<u64> {
        let operation = match cell.kind {
            Kind::Pull => Operation::Pull,
            Kind::Push => Operation::Push,
            _ => {
                return self
                    .client
                    .post(Head::request(Operation::Echo, 0), &payload)
            }
        };
        let mut head = Head::request(operation, 0);
        (head.region, head.length, head.count) = (slot, cell.size, 1);
        part(memory, place(cell, slot), cell.size as usize).encode(&mut payload);
        self.client.post(head, &payload)
    }

    /// Reads or writes what the server exposes.
    fn offered(&mut self, cell: &Cell, rdma: Rdma, memory: &Region, round: &mut Round) -> Result {
        let pieces = offer(&mut self.client, 0, cell.size as usize)?;
        let most = (OPERATIONS / pieces.len().max(1)).min(cell.in_flight as usize);
        let (mut begun, mut slots) = (VecDeque::new(), (0..cell.in_flight).cycle());
        loop {
            while begun.len() < most.max(1) && round.goes_on() {
                begun.push_back(Instant::now());
                let mut at = place(cell, slots.next().unwrap_or_default());
                for piece in &pieces {
                    self.client.link.post_rdma(rdma, memory, at, piece)?;
                    at += piece.length as usize;
                }
            }
            let Some(begin) = begun.pop_front() else {
                break;
            };
            for _ in &pieces {
                if !self.client.link.moved()? {
                    return Err(Error::new("the connection has ended"));
                }
            }
            round.done(begin);
        }
        match withdraw(&mut self.client, 0)? {
            Some(Status::Ok) => Ok(()),
            other => Err(Error::new(format!("an offer does not end: {other:?}"))),
        }
    }

    /// Disconnects.
    pub(super) fn end(self) -> Result {
        self.client.link.disconnect()
    }
}

/// Returns the error for a server that refuses the connection: it says how to load the module.
fn missing(target: &Target, error: Error) -> Error {
    if !error.is_finding() {
        return error;
    }
    let to = target.addresses.to;
    Error::unavailable(format!(
        "rdma_bulk does not answer at {to} ({error}): on the server, \"insmod rdma_bulk.ko regions=16 \
         region_kib=4096\" loads it, and its settings accept_from and max_peers must admit this host"
    ))
}

/// Returns the place of a slot in the memory.
fn place(cell: &Cell, slot: u32) -> usize {
    slot as usize * cell.size as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_refuses_lacks_the_module() {
        let target = Target::new(([192, 0, 2, 1], 5445).into(), None);
        let refused = missing(&target, Error::new("cannot connect: Rejected"));
        assert!(!refused.is_finding());
        let text = refused.to_string();
        assert!(
            text.contains("192.0.2.1:5445") && text.contains("insmod rdma_bulk.ko"),
            "{text}"
        );
        let local = missing(&target, Error::unavailable("no device"));
        assert_eq!(local.to_string(), "no device");
    }
}

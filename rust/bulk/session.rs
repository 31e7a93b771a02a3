// SPDX-License-Identifier: GPL-2.0

//! The session of a peer: SMB Direct, and the answers that wait.

use crate::{
    host::Host,
    regions::{
        Region,
        Regions, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    mem::exposure::{
        Any,
        Exposure, //
    },
    send::buffer::SendBuffer,
    service::{
        job::Completed,
        service::{
            Outcome,
            Session, //
        },
    },
};
use smbdirect::{
    bulk::{
        Operation,
        Status, //
    },
    descriptor::Descriptor,
    negotiate::{
        Response,
        MIN_REASSEMBLED, //
    },
    reassembly::Outgoing,
    session::{
        self as smb,
        Broken,
        Incoming,
        Limits, //
    },
};
use support::page::{
    Effort,
    PAGE_SIZE, //
};

pub(crate) use smbdirect::bulk::Head;

/// A peer. The tag of a job is the header of the request, which its answer names.
type Peer = rdma::service::peer::Peer<Head>;

/// The messages that may arrive at a time, and the send buffers, of a connection.
pub(crate) const BUFFERS: u16 = 32;

/// Bytes of answers that may wait to be sent. A client that takes no answers is closed.
const MAX_WAITING: usize = 2 * MIN_REASSEMBLED as usize;

/// The bytes that the smallest answer counts for, with what its allocation costs.
const MIN_COST: usize = 1024;

/// Seconds between two looks at a connection that has not negotiated.
const NEGOTIATION: u32 = 5;

/// The session of a peer.
pub(crate) struct BulkSession {
    host: Arc<Host>,
    smb: smb::Session,
    /// Seconds of the connection, and seconds between two looks at a connection that has negotiated.
    seconds: u32,
    interval: u32,
    /// True once a message has arrived.
    is_negotiated: bool,
    /// True once the response that refuses the peer's versions is on its way.
    is_refused: bool,
    idle: KVec<SendBuffer>,
    regions: Regions,
    /// The message that is being received in fragments.
    incoming: KVVec<u8>,
    /// The answers that wait, the oldest first; `outgoing` is the state of that one.
    answers: KVec<KVVec<u8>>,
    outgoing: Outgoing,
    waiting: usize,
}

impl BulkSession {
    /// Allocates the session of `peer` with `count` regions of `pages` pages, and with `interval` seconds
    /// between two keep-alives. May sleep.
    pub(crate) fn new(
        peer: &Peer,
        host: Arc<Host>,
        count: usize,
        pages: usize,
        interval: u32,
    ) -> Result<Self> {
        let mut idle = KVec::new();
        for _ in 0..BUFFERS {
            idle.push(SendBuffer::new(peer.pd(), Effort::Full)?, GFP_KERNEL)?;
        }
        let regions = Regions::new(peer, count, pages)?;
        let smb = smb::Session::new(Limits {
            send: PAGE_SIZE as u32,
            receive: PAGE_SIZE as u32,
            reassembled: MIN_REASSEMBLED,
            credits: BUFFERS.saturating_sub(1),
            read_write: regions.len,
        });
        Ok(Self {
            host,
            smb,
            seconds: 0,
            interval,
            is_negotiated: false,
            is_refused: false,
            idle,
            regions,
            incoming: KVVec::from_elem(0, MIN_REASSEMBLED as usize, GFP_KERNEL)?,
            answers: KVec::new(),
            outgoing: Outgoing::default(),
            waiting: 0,
        })
    }

    /// Sends the response to the negotiation.
    fn respond(&mut self, response: &Response, peer: &mut Peer) -> Outcome {
        let mut buffer = self.idle.pop().ok_or("no buffer")?;
        let len = response.encode(buffer.bytes_mut()).ok_or("no room")?;
        peer.send(buffer, len)
    }

    /// Handles a request of the bulk protocol.
    fn request(&mut self, message: &[u8], peer: &mut Peer) -> Outcome {
        let (head, payload) = Head::decode(message).ok_or("not a bulk message")?;
        if head.is_answer() {
            return Err("answer instead of a request");
        }
        if let Some(Operation::Echo) = head.operation() {
            return self.answer(head.answer(Status::Ok), payload);
        }
        match self.regions.start(&head, payload, peer) {
            Ok(started) => started,
            Err(status) => self.answer(head.answer(status), &[]),
        }
    }

    /// Keeps an offer, and answers with its descriptors.
    fn offered(&mut self, head: &Head, exposure: Exposure<Any>) -> Outcome {
        let (mut answer, mut list) = (head.answer(Status::Ok), KVVec::new());
        for segment in exposure.segments() {
            let descriptor = Descriptor {
                offset: segment.addr,
                token: segment.key,
                length: segment.len,
            };
            let mut bytes = [0; Descriptor::LEN];
            descriptor.encode(&mut bytes);
            let added = list.extend_from_slice(&bytes, GFP_KERNEL);
            added.map_err(|_| "no memory")?;
            answer.count = answer.count.saturating_add(1);
        }
        self.regions.put(head, Region::Offered(exposure));
        self.answer(answer, &list)
    }

    /// Queues an answer.
    fn answer(&mut self, head: Head, payload: &[u8]) -> Outcome {
        let len = Head::LEN.saturating_add(payload.len());
        self.waiting = self.waiting.saturating_add(len.max(MIN_COST));
        if self.waiting > MAX_WAITING {
            return Err("answers not taken");
        }
        let mut answer = KVVec::from_elem(0, Head::LEN, GFP_KERNEL).map_err(|_| "no memory")?;
        head.encode(&mut answer);
        let added = answer.extend_from_slice(payload, GFP_KERNEL);
        added.map_err(|_| "no memory")?;
        let queued = self.answers.push(answer, GFP_KERNEL);
        queued.map_err(|_| "no memory")?;
        self.next_answer();
        Ok(())
    }

    /// Begins to send the oldest answer, unless that has begun.
    fn next_answer(&mut self) {
        if self.outgoing.is_done() {
            let len = self.answers.first().map_or(0, |answer| answer.len());
            // CAST: At most `MAX_WAITING`.
            self.outgoing = Outgoing::new(len as u32);
        }
    }

    /// Puts a send buffer back.
    fn put_back(&mut self, buffer: SendBuffer) -> Outcome {
        let returned = self.idle.push_within_capacity(buffer);
        returned.map_err(|_| "too many buffers")
    }
}

impl Session for BulkSession {
    type Tag = Head;

    fn received(&mut self, message: &[u8], peer: &mut Peer) -> Outcome {
        self.host.messages.inc();
        self.is_negotiated = true;
        match self.smb.receive(message) {
            Ok(Incoming::Negotiated(response)) => self.respond(&response, peer),
            Ok(Incoming::Empty) => Ok(()),
            Ok(Incoming::Data(place, data)) if place.at == 0 && place.is_last => {
                self.request(data, peer)
            }
            Ok(Incoming::Data(place, data)) => {
                let mut whole = core::mem::take(&mut self.incoming);
                let at = place.at as usize;
                let end = at.saturating_add(data.len());
                let room = whole.get_mut(at..end).ok_or("fragment out of bounds")?;
                room.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
                let handled = match whole.get(..end) {
                    Some(message) if place.is_last => self.request(message, peer),
                    _ => Ok(()),
                };
                self.incoming = whole;
                handled
            }
            Err(Broken::Version) => {
                self.is_refused = true;
                self.respond(&smb::Session::refusal(), peer)
            }
            Err(broken) => Err(broken.reason()),
        }
    }

    /// The peer withdraws the offer with another message.
    fn invalidated(&mut self, message: &[u8], _key: u32, peer: &mut Peer) -> Outcome {
        self.received(message, peer)
    }

    fn completed(&mut self, job: Completed<Head>, _peer: &mut Peer) -> Outcome {
        match job {
            Completed::Sent(_) if self.is_refused => Err(Broken::Version.reason()),
            Completed::Sent(buffer) => self.put_back(buffer),
            Completed::Exposed(exposure, head) => self.offered(&head, exposure),
            Completed::Read(region, head)
            | Completed::Written(region, head)
            | Completed::Revoked(region, head) => {
                self.regions.put(&head, Region::Idle(region));
                self.answer(head.answer(Status::Ok), &[])
            }
        }
    }

    /// Sends what the credits of the peer and the idle buffers allow. It grants credits for the Receive
    /// buffers of the messages that were handled.
    fn settled(&mut self, peer: &mut Peer) -> Outcome {
        while let Some(mut buffer) = self.idle.pop() {
            let Some(next) = self.smb.next(Some(&mut self.outgoing)) else {
                return self.put_back(buffer);
            };
            let answer = self.answers.first().map_or(&[][..], |answer| answer);
            let len = next.write(buffer.bytes_mut(), answer);
            peer.send(buffer, len.ok_or("no room")?)?;
            if self.outgoing.is_done() && !self.answers.is_empty() {
                let sent = self.answers.remove(0).map_or(0, |answer| answer.len());
                self.waiting = self.waiting.saturating_sub(sent.max(MIN_COST));
                self.next_answer();
            }
        }
        Ok(())
    }

    fn tick(&mut self, _peer: &mut Peer) -> Outcome {
        self.seconds = self.seconds.wrapping_add(1);
        let interval = if self.is_negotiated {
            self.interval
        } else {
            NEGOTIATION
        };
        if self.seconds.checked_rem(interval) == Some(0) {
            self.smb.tick().map_err(|broken| broken.reason())?;
        }
        Ok(())
    }
}

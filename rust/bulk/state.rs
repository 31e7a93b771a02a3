// SPDX-License-Identifier: GPL-2.0

//! The state of an accepted connection: the session, the regions, and the answers that wait.
//!
//! Only the work item of the connection uses it, with a mutex held. It may sleep.

use crate::{
    connection::Connection,
    job::{Job, Move},
};
use core::cell::Cell;
use kernel::{prelude::*, sync::Arc};
use rdma::{
    device::Pd,
    mem::{
        exposure::{Exposure, RemoteReadWrite},
        page_region::PageRegion,
    },
    send::{buffer::SendBuffer, chain::Rdma},
};
use smbdirect::{
    bulk::{Head, Operation, Segments, Status, MAX_DESCRIPTORS, READ, WRITE},
    descriptor::Descriptor,
    negotiate::{Response, MIN_REASSEMBLED},
    reassembly::Outgoing,
    session::{Broken, Incoming, Limits, Session},
};
use support::page::{Effort, PAGE_SIZE};

/// The reason why a connection is closed, for the log.
pub(crate) type Outcome<T = ()> = Result<T, &'static str>;

/// The messages that may arrive at a time, and the send buffers, of a connection.
pub(crate) const BUFFERS: u16 = 32;

/// Bytes of answers that may wait to be sent. A client that takes no answers is closed.
const MAX_WAITING: usize = 2 * MIN_REASSEMBLED as usize;

/// The bytes that the smallest answer counts for, with what its allocation costs.
const MIN_COST: usize = 1024;

/// A region, or its absence.
enum Slot {
    Idle(KBox<PageRegion>),
    /// A job has the region.
    Busy,
    Offered(Exposure<RemoteReadWrite>),
}

/// The state.
pub(crate) struct State {
    pd: Arc<Pd>,
    pub(crate) session: Session,
    /// True once the response that refuses the peer's versions is on its way.
    is_refused: bool,
    idle: KVec<SendBuffer>,
    slots: KVec<Slot>,
    region_len: u32,
    /// False if the peer serves no RDMA Reads: one would never complete.
    can_pull: bool,
    /// The message that is being received in fragments.
    incoming: KVVec<u8>,
    /// The answers that wait, the oldest first; `outgoing` is the state of that one.
    answers: KVec<KVVec<u8>>,
    outgoing: Outgoing,
    waiting: usize,
}

impl State {
    /// Allocates the state with `count` regions of `pages` pages. `can_pull` is true if the peer serves
    /// RDMA Reads. May sleep.
    pub(crate) fn new(pd: Arc<Pd>, count: usize, pages: usize, can_pull: bool) -> Result<Self> {
        let (mut idle, mut slots) = (KVec::new(), KVec::new());
        for _ in 0..BUFFERS {
            idle.push(SendBuffer::new(&pd, Effort::Full)?, GFP_KERNEL)?;
        }
        for _ in 0..count {
            let region = PageRegion::for_exposure(&pd, pages)?;
            slots.push(Slot::Idle(region), GFP_KERNEL)?;
        }
        // CAST: At most 16 MiB.
        let region_len = pages.saturating_mul(PAGE_SIZE) as u32;
        let session = Session::new(Limits {
            send: PAGE_SIZE as u32,
            receive: PAGE_SIZE as u32,
            reassembled: MIN_REASSEMBLED,
            credits: BUFFERS.saturating_sub(1),
            read_write: region_len,
        });
        Ok(Self {
            pd,
            session,
            is_refused: false,
            idle,
            slots,
            region_len,
            can_pull,
            incoming: KVVec::from_elem(0, MIN_REASSEMBLED as usize, GFP_KERNEL)?,
            answers: KVec::new(),
            outgoing: Outgoing::default(),
            waiting: 0,
        })
    }

    /// Handles a message of the peer.
    pub(crate) fn receive(&mut self, message: &[u8], to: &Connection) -> Outcome {
        match self.session.receive(message) {
            Ok(Incoming::Negotiated(response)) => self.respond(&response, to),
            Ok(Incoming::Empty) => Ok(()),
            Ok(Incoming::Data(place, data)) if place.at == 0 && place.is_last => {
                self.request(data, to)
            }
            Ok(Incoming::Data(place, data)) => {
                let mut whole = core::mem::take(&mut self.incoming);
                let at = place.at as usize;
                let end = at.saturating_add(data.len());
                let room = whole.get_mut(at..end).ok_or("fragment out of bounds")?;
                room.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
                let handled = match whole.get(..end) {
                    Some(message) if place.is_last => self.request(message, to),
                    _ => Ok(()),
                };
                self.incoming = whole;
                handled
            }
            Err(Broken::Version) => {
                self.is_refused = true;
                self.respond(&Session::refusal(), to)
            }
            Err(broken) => Err(broken.reason()),
        }
    }

    /// Sends the response to the negotiation.
    fn respond(&mut self, response: &Response, to: &Connection) -> Outcome {
        let mut buffer = self.idle.pop().ok_or("no buffer")?;
        let len = response.encode(buffer.bytes_mut()).ok_or("no room")?;
        to.post(Job::Send(buffer, len))
    }

    /// Handles a request of the bulk protocol.
    fn request(&mut self, message: &[u8], to: &Connection) -> Outcome {
        let (head, payload) = Head::decode(message).ok_or("not a bulk message")?;
        if head.is_answer() {
            return Err("answer instead of a request");
        }
        let started = match head.operation() {
            Some(Operation::Echo) => return self.answer(head.answer(Status::Ok), payload),
            Some(Operation::Pull) => self.start(&head, payload, Rdma::Read),
            Some(Operation::Push) => self.start(&head, payload, Rdma::Write),
            Some(Operation::Offer) => self.offer(&head),
            Some(Operation::Withdraw) => self.withdraw(&head),
            None => Err(Status::Unknown),
        };
        match started {
            Ok(job) => to.post(job),
            Err(status) => self.answer(head.answer(status), &[]),
        }
    }

    /// Takes the region of a request whose length fits.
    fn take(&mut self, head: &Head) -> Result<KBox<PageRegion>, Status> {
        let slot = self.slots.get_mut(head.region as usize);
        let slot = slot.ok_or(Status::NoRegion)?;
        if head.length > self.region_len {
            return Err(Status::TooLong);
        }
        match core::mem::replace(slot, Slot::Busy) {
            Slot::Idle(region) => Ok(region),
            other => {
                *slot = other;
                Err(Status::Busy)
            }
        }
    }

    /// Puts a region back.
    fn put(&mut self, head: &Head, slot: Slot) {
        if let Some(place) = self.slots.get_mut(head.region as usize) {
            *place = slot;
        }
    }

    /// Returns the job of a pull or a push.
    fn start(&mut self, head: &Head, payload: &[u8], rdma: Rdma) -> Result<Job, Status> {
        if matches!(rdma, Rdma::Read) && !self.can_pull {
            return Err(Status::Unable);
        }
        let segments = Segments::decode(head, payload)?;
        if segments.peek().is_none() {
            return Err(Status::Ok); // Nothing moves.
        }
        let (head, left) = (*head, Cell::new(segments));
        let region = self.take(&head)?;
        let mut this = Move {
            head,
            region,
            rdma,
            left,
        };
        // Without memory the job waits in the send queue. `Connection::serve` tries again.
        let _ = this.map(&self.pd);
        match KBox::new_uninit(GFP_KERNEL) {
            Ok(place) => Ok(Job::Move(place.write(this))),
            Err(_) => {
                this.region.unmap();
                self.put(&head, Slot::Idle(this.region));
                Err(Status::Unable)
            }
        }
    }

    /// Returns the job of an offer.
    fn offer(&mut self, head: &Head) -> Result<Job, Status> {
        if head.access != READ | WRITE {
            return Err(Status::Unable);
        }
        let region = self.take(head)?;
        match Exposure::new(&self.pd, region, head.length as usize) {
            Ok(exposure) if exposure.segments().count() <= MAX_DESCRIPTORS => {
                Ok(Job::Offer(*head, exposure))
            }
            Ok(exposure) => {
                // Nothing of it was exposed yet.
                if let Ok(region) = exposure.into_region() {
                    self.put(head, Slot::Idle(region));
                }
                Err(Status::Unable)
            }
            Err(unexposed) => {
                self.put(head, Slot::Idle(unexposed.region));
                Err(Status::Unable)
            }
        }
    }

    /// Returns the job that ends an offer.
    fn withdraw(&mut self, head: &Head) -> Result<Job, Status> {
        let slot = self.slots.get_mut(head.region as usize);
        let slot = slot.ok_or(Status::NoRegion)?;
        match core::mem::replace(slot, Slot::Busy) {
            Slot::Offered(exposure) => Ok(Job::Withdraw(*head, exposure)),
            other => {
                *slot = other;
                Err(Status::Busy)
            }
        }
    }

    /// Handles the completion of a job.
    pub(crate) fn done(&mut self, job: Job) -> Outcome {
        match job {
            Job::Send(..) if self.is_refused => Err(Broken::Version.reason()),
            // The capacity is that of all buffers.
            Job::Send(buffer, _) => self
                .idle
                .push_within_capacity(buffer)
                .map_err(|_| "buffers"),
            Job::Move(this) => {
                let Move {
                    head, mut region, ..
                } = KBox::into_inner(this);
                region.unmap();
                self.put(&head, Slot::Idle(region));
                self.answer(head.answer(Status::Ok), &[])
            }
            Job::Offer(head, exposure) => {
                let (mut answer, mut list) = (head.answer(Status::Ok), KVVec::new());
                for segment in exposure.segments() {
                    let (offset, token, length) = (segment.addr, segment.key, segment.len);
                    let mut bytes = [0; Descriptor::LEN];
                    Descriptor {
                        offset,
                        token,
                        length,
                    }
                    .encode(&mut bytes);
                    list.extend_from_slice(&bytes, GFP_KERNEL)
                        .map_err(|_| "no memory")?;
                    answer.count = answer.count.saturating_add(1);
                }
                self.put(&head, Slot::Offered(exposure));
                self.answer(answer, &list)
            }
            Job::Withdraw(head, exposure) => {
                let region = exposure.into_region().map_err(|_| "offer not withdrawn")?;
                self.put(&head, Slot::Idle(region));
                self.answer(head.answer(Status::Ok), &[])
            }
        }
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
        self.answers
            .push(answer, GFP_KERNEL)
            .map_err(|_| "no memory")?;
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

    /// Sends what the credits of the peer and the idle buffers allow. All messages before must have
    /// been dropped: the peer is granted credits for their Receive buffers.
    pub(crate) fn send(&mut self, to: &Connection) -> Outcome {
        while let Some(mut buffer) = self.idle.pop() {
            let Some(next) = self.session.next(Some(&mut self.outgoing)) else {
                return self
                    .idle
                    .push_within_capacity(buffer)
                    .map_err(|_| "buffers");
            };
            let answer = self.answers.first().map_or(&[][..], |answer| answer);
            let len = next.write(buffer.bytes_mut(), answer);
            to.post(Job::Send(buffer, len.ok_or("no room")?))?;
            if self.outgoing.is_done() && !self.answers.is_empty() {
                let sent = self.answers.remove(0).map_or(0, |answer| answer.len());
                self.waiting = self.waiting.saturating_sub(sent.max(MIN_COST));
                self.next_answer();
            }
        }
        Ok(())
    }
}

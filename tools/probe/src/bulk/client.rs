// SPDX-License-Identifier: GPL-2.0

//! A client of the bulk protocol: a connection that has negotiated.

use super::link::{Link, RECEIVES, SIZE};
use crate::{
    error::{Error, Result},
    ffi::Region,
    peer::PATIENCE,
    target::Target,
};
use smbdirect::{
    bulk::{Head, Operation, Status},
    descriptor::Descriptor,
    negotiate::{Request, Response, MIN_REASSEMBLED},
    reassembly::Outgoing,
    session::{Incoming, Limits, Session},
};
use std::{collections::VecDeque, time::Duration};

/// The properties that this side declares.
pub(crate) const LIMITS: Limits = Limits {
    send: SIZE as u32,
    receive: SIZE as u32,
    reassembled: MIN_REASSEMBLED,
    credits: RECEIVES - 1,
    read_write: 0,
};

/// Returns the bytes of a Negotiate Request.
pub(super) fn negotiate(ours: &Limits, change: impl FnOnce(&mut Request)) -> Vec<u8> {
    let mut request = Session::request(ours);
    change(&mut request);
    let mut message = vec![0; Request::LEN];
    request.encode(&mut message);
    message
}

/// A client.
pub(crate) struct Client {
    pub(crate) link: Link,
    pub(crate) session: Session,
    pub(crate) response: Response,
    /// The message that is being received in fragments.
    partial: Vec<u8>,
    answers: VecDeque<(Head, Vec<u8>)>,
    tag: u64,
    /// Messages that were sent, and that have arrived.
    pub(super) sent: u32,
    pub(super) arrived: u32,
}

impl Client {
    /// Connects to the server, and negotiates.
    pub(crate) fn connect(to: &Target, ours: &Limits) -> Result<Self> {
        let mut link = Link::connect(to)?;
        link.send(&negotiate(ours, |_| ()))?;
        let message = link.receive(PATIENCE)?;
        let response = message.as_deref().and_then(Response::decode);
        let response = response.ok_or_else(|| Error::new(format!("no response: {message:?}")))?;
        let session = Session::connected(*ours, &response)
            .map_err(|broken| Error::new(format!("{}: {response:?}", broken.reason())))?;
        Ok(Self {
            link,
            session,
            response,
            partial: Vec::new(),
            answers: VecDeque::new(),
            tag: 0,
            sent: 0,
            arrived: 0,
        })
    }

    /// Allocates memory that the server may read and write.
    pub(crate) fn region(&self, bytes: &[u8]) -> Result<Region> {
        let region = self.link.region(bytes.len())?;
        region.write(0, bytes)?;
        Ok(region)
    }

    /// Takes a message that has arrived within `timeout`. Returns false if there was none.
    pub(super) fn take(&mut self, timeout: Duration) -> Result<bool> {
        let Some(message) = self.link.receive(timeout)? else {
            return Ok(false);
        };
        self.arrived += 1;
        match self.session.receive(&message) {
            Ok(Incoming::Data(place, data)) => {
                if place.at as usize != self.partial.len() {
                    return Err(Error::new("a fragment is missing"));
                }
                self.partial.extend(data);
                if place.is_last {
                    let whole = std::mem::take(&mut self.partial);
                    let answer = Head::decode(&whole).filter(|(head, _)| head.is_answer());
                    let (head, payload) = answer.ok_or_else(|| Error::new("no answer"))?;
                    self.answers.push_back((head, payload.to_vec()));
                }
            }
            Ok(_) => (),
            Err(broken) => return Err(Error::new(broken.reason())),
        }
        Ok(true)
    }

    /// Sends what the credits allow of `whole`. Returns true if a message was sent.
    fn send_next(&mut self, outgoing: &mut Outgoing, whole: &[u8]) -> Result<bool> {
        let Some(next) = self.session.next(Some(outgoing)) else {
            return Ok(false);
        };
        let mut message = vec![0; SIZE];
        let len = next.write(&mut message, whole);
        message.truncate(len.ok_or_else(|| Error::new("no room"))?);
        self.link.send(&message)?;
        self.sent += 1;
        Ok(true)
    }

    /// Sends what is due without data.
    pub(super) fn flush(&mut self) -> Result<()> {
        while self.send_next(&mut Outgoing::default(), &[])? {}
        Ok(())
    }

    /// Sends a request. Waits for credits if there are none.
    pub(crate) fn post(&mut self, mut head: Head, payload: &[u8]) -> Result<u64> {
        self.tag += 1;
        head.tag = self.tag;
        let mut whole = vec![0; Head::LEN];
        head.encode(&mut whole);
        whole.extend(payload);
        let mut outgoing = Outgoing::new(whole.len() as u32);
        while !outgoing.is_done() {
            if !self.send_next(&mut outgoing, &whole)? && !self.take(PATIENCE)? {
                return Err(Error::new("the server grants no credits"));
            }
        }
        Ok(self.tag)
    }

    /// Returns the next answer, which may be that to any request.
    pub(crate) fn answer(&mut self) -> Result<(Head, Vec<u8>)> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Ok(answer);
            }
            self.flush()?;
            if !self.take(PATIENCE)? {
                return Err(Error::new("a request was not answered"));
            }
        }
    }

    /// Makes a request, and returns its status and the payload of the answer.
    pub(crate) fn request(
        &mut self,
        operation: Operation,
        fill: impl FnOnce(&mut Head),
        payload: &[u8],
    ) -> Result<(Head, Vec<u8>)> {
        let mut head = Head::request(operation, 0);
        fill(&mut head);
        let tag = self.post(head, payload)?;
        let (head, payload) = self.answer()?;
        if head.tag != tag || head.operation() != Some(operation) {
            return Err(Error::new(format!("{head:?} answers another request")));
        }
        Ok((head, payload))
    }

    /// Makes a pull or a push of `len` bytes of a region, with the memory `pieces`.
    pub(super) fn transfer(
        &mut self,
        operation: Operation,
        (region, len): (u32, usize),
        pieces: &[Descriptor],
    ) -> Result<Option<Status>> {
        let fill = |head: &mut Head| {
            (head.region, head.length) = (region, len as u32);
            head.count = pieces.len() as u16;
        };
        let mut payload = vec![0; pieces.len() * Descriptor::LEN];
        for (place, piece) in payload.chunks_exact_mut(Descriptor::LEN).zip(pieces) {
            piece.encode(place);
        }
        Ok(self.request(operation, fill, &payload)?.0.status())
    }
}

/// Returns the descriptor of a part of a region.
pub(crate) fn part(region: &Region, at: usize, len: usize) -> Descriptor {
    Descriptor {
        offset: region.address() + at as u64,
        token: region.rkey(),
        length: len as u32,
    }
}

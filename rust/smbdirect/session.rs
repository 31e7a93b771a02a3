// SPDX-License-Identifier: GPL-2.0

//! The state of a connection, on either side (MS-SMBD 3.1).
//!
//! The owner passes each message that arrives to [`Session::receive`], and asks [`Session::next`] for
//! the next message to send whenever it may have changed: when a message has arrived, when there is
//! something to send, and after [`Session::tick`]. Messages must be sent in the order in which `next`
//! has returned them.

use crate::{
    credits::{
        Credits,
        Overrun, //
    },
    data::{
        Header,
        Malformed, //
    },
    negotiate::{
        Request,
        Response,
        MIN_MESSAGE,
        MIN_REASSEMBLED,
        NOT_SUPPORTED,
        SUCCESS,
        VERSION, //
    },
    reassembly::{
        Misfit,
        Outgoing,
        Place,
        Reassembly, //
    },
    wire::put,
};
use core::ops::Range;

/// The properties that a side declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest message that the side sends, in bytes.
    pub send: u32,
    /// The largest message that the side receives, in bytes: the size of its Receive buffers.
    pub receive: u32,
    /// The largest reassembled message that the side receives, in bytes, at least
    /// [`MIN_REASSEMBLED`].
    pub reassembled: u32,
    /// The most credits that the side grants: one less than it has Receives, and at least 2.
    pub credits: u16,
    /// The most bytes that the side moves by RDMA for one request.
    pub read_write: u32,
}

/// The reason why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The negotiation message is too short, or declares less than every side must support.
    Negotiation,
    /// The sides support no common version.
    Version,
    /// A message is larger than was negotiated.
    Size,
    /// A message is not a Data Transfer message.
    Malformed,
    /// The peer has sent more messages than it has credits for, or has granted too many credits.
    Credits,
    /// A message of the upper layer is larger than was negotiated.
    TooLong,
    /// A fragment does not continue the message that has begun.
    Order,
    /// The peer has not negotiated in time, or has not answered a keep-alive.
    Silent,
}

impl Broken {
    /// Returns the reason as a log line says it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Negotiation => "bad negotiation",
            Self::Version => "no common version",
            Self::Size => "message larger than negotiated",
            Self::Malformed => "malformed message",
            Self::Credits => "more messages than credits",
            Self::TooLong => "reassembled message larger than negotiated",
            Self::Order => "fragment out of order",
            Self::Silent => "no answer to a keep-alive",
        }
    }
}

impl From<Malformed> for Broken {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl From<Overrun> for Broken {
    fn from(_: Overrun) -> Self {
        Self::Credits
    }
}

impl From<Misfit> for Broken {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::TooLong => Self::TooLong,
            Misfit::Order => Self::Order,
        }
    }
}

/// A message that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming<'m> {
    /// The request was accepted. The owner sends the response now, before any other message.
    Negotiated(Response),
    /// Bytes of a message of the upper layer, and their place in it.
    Data(Place, &'m [u8]),
    /// No data.
    Empty,
}

/// A message to send: its header, and the bytes of the upper layer's message that follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The header.
    pub header: Header,
    /// The bytes.
    pub range: Range<usize>,
}

impl Next {
    /// Writes the message to the beginning of `out`. `whole` is the message of the upper layer. Returns
    /// the length, or `None` if `out` is too short, or if `whole` does not have the bytes.
    pub fn write(&self, out: &mut [u8], whole: &[u8]) -> Option<usize> {
        let data = whole.get(self.range.clone())?;
        let len = self.header.encode(out)?;
        let data = put(out.get_mut(len..)?, &[data])?;
        len.checked_add(data)
    }
}

/// The keep-alive (MS-SMBD 3.1.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeepAlive {
    /// A message has arrived since the last tick.
    Heard,
    /// None has.
    Quiet,
    /// The next message asks the peer for an answer.
    Pending,
    /// The peer was asked.
    Asked,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    ours: Limits,
    is_negotiated: bool,
    /// The largest message that this side may send, in bytes.
    max_send: u32,
    /// The largest message that the peer may send, in bytes.
    max_receive: u32,
    /// The largest message of the upper layer that the peer takes, in bytes.
    max_outgoing: u32,
    credits: Credits,
    incoming: Reassembly,
    keep_alive: KeepAlive,
    /// True if the peer has asked for a message at once.
    is_asked: bool,
}

impl Session {
    /// Returns the state of a responder before the request has arrived.
    pub fn new(ours: Limits) -> Self {
        Self {
            ours,
            is_negotiated: false,
            max_send: ours.send,
            max_receive: ours.receive,
            max_outgoing: 0,
            credits: Credits::new(ours.credits),
            incoming: Reassembly::new(ours.reassembled),
            keep_alive: KeepAlive::Heard,
            is_asked: false,
        }
    }

    /// Returns the request of a requester with these limits.
    pub fn request(ours: &Limits) -> Request {
        Request {
            min_version: VERSION,
            max_version: VERSION,
            credits_requested: ours.credits,
            preferred_send: ours.send,
            max_receive: ours.receive,
            max_reassembled: ours.reassembled,
        }
    }

    /// Returns the response to a request whose versions do not include ours. The responder sends it
    /// and closes the connection.
    pub fn refusal() -> Response {
        Response {
            min_version: VERSION,
            max_version: VERSION,
            version: 0,
            credits_requested: 0,
            credits_granted: 0,
            status: NOT_SUPPORTED,
            max_read_write: 0,
            preferred_send: 0,
            max_receive: 0,
            max_reassembled: 0,
        }
    }

    /// Returns the state of a requester that has received `response`.
    ///
    /// # Errors
    ///
    /// [`Broken::Version`], [`Broken::Negotiation`].
    pub fn connected(ours: Limits, response: &Response) -> Result<Self, Broken> {
        if response.status != SUCCESS || response.version != VERSION {
            return Err(Broken::Version);
        }
        if response.credits_granted == 0 || response.preferred_send > ours.receive {
            return Err(Broken::Negotiation);
        }
        let mut this = Self::new(ours);
        this.open(
            response.credits_requested,
            response.preferred_send,
            response.max_receive,
            response.max_reassembled,
        )?;
        this.credits.on_granted(response.credits_granted)?;
        Ok(this)
    }

    /// Notes what the peer has declared.
    fn open(
        &mut self,
        credits: u16,
        preferred: u32,
        receive: u32,
        reassembled: u32,
    ) -> Result<(), Broken> {
        let is_small = receive < MIN_MESSAGE || reassembled < MIN_REASSEMBLED;
        if is_small || credits == 0 {
            return Err(Broken::Negotiation);
        }
        self.is_negotiated = true;
        self.max_send = self.ours.send.min(receive);
        self.max_receive = self.ours.receive.min(preferred).max(MIN_MESSAGE);
        self.max_outgoing = reassembled;
        self.credits.on_requested(credits);
        Ok(())
    }

    /// Returns the response of a responder to the first message.
    fn negotiate(&mut self, message: &[u8]) -> Result<Response, Broken> {
        let request = Request::decode(message).ok_or(Broken::Negotiation)?;
        if !(request.min_version..=request.max_version).contains(&VERSION) {
            return Err(Broken::Version);
        }
        self.open(
            request.credits_requested,
            request.preferred_send,
            request.max_receive,
            request.max_reassembled,
        )?;
        Ok(Response {
            min_version: VERSION,
            max_version: VERSION,
            version: VERSION,
            credits_requested: self.ours.credits,
            credits_granted: self.credits.grant(),
            status: SUCCESS,
            max_read_write: self.ours.read_write,
            preferred_send: self.max_send,
            max_receive: self.max_receive,
            max_reassembled: self.ours.reassembled,
        })
    }

    /// Takes a message that has arrived. Its Receive must be posted again before the next message is
    /// sent, which may grant a credit for it.
    ///
    /// # Errors
    ///
    /// The connection must be closed. Before, the owner sends [`Self::refusal`] for
    /// [`Broken::Version`].
    pub fn receive<'m>(&mut self, message: &'m [u8]) -> Result<Incoming<'m>, Broken> {
        self.keep_alive = KeepAlive::Heard;
        if !self.is_negotiated {
            return self.negotiate(message).map(Incoming::Negotiated);
        }
        if message.len() > self.max_receive as usize {
            return Err(Broken::Size);
        }
        let (header, data) = Header::decode(message)?;
        self.credits.on_message(&header)?;
        self.is_asked |= header.response_requested;
        let place = self.incoming.add(&header)?;
        Ok(place.map_or(Incoming::Empty, |place| Incoming::Data(place, data)))
    }

    /// Returns the largest message of the upper layer that the peer takes, in bytes; 0 before the
    /// negotiation.
    pub fn max_outgoing(&self) -> u32 {
        self.max_outgoing
    }

    /// Returns the next message to send, with the next bytes of `outgoing`, or with none if there is
    /// another reason to send one. `None` if there is no reason, or if the peer must grant credits
    /// first.
    pub fn next(&mut self, outgoing: Option<&mut Outgoing>) -> Option<Next> {
        let outgoing = outgoing.filter(|outgoing| !outgoing.is_done());
        let asks = self.keep_alive == KeepAlive::Pending;
        let has_reason = outgoing.is_some() || self.is_asked || asks || self.credits.is_due();
        if !self.is_negotiated || !has_reason {
            return None;
        }
        let credits_granted = self.credits.take()?;
        self.is_asked = false;
        if asks {
            self.keep_alive = KeepAlive::Asked;
        }
        let (range, remaining) =
            outgoing.map_or((0..0, 0), |outgoing| outgoing.next(self.max_send));
        let header = Header {
            credits_requested: self.ours.credits,
            credits_granted,
            response_requested: asks,
            remaining,
            // CAST: At most `max_send`.
            len: range.end.saturating_sub(range.start) as u32,
        };
        Some(Next { header, range })
    }

    /// Notes that the time between two keep-alives has passed. The owner calls [`Self::next`] then.
    ///
    /// # Errors
    ///
    /// [`Broken::Silent`] if nothing has arrived since the peer was asked, or within two ticks before
    /// the negotiation.
    pub fn tick(&mut self) -> Result<(), Broken> {
        self.keep_alive = match (self.keep_alive, self.is_negotiated) {
            (KeepAlive::Heard, _) => KeepAlive::Quiet,
            (KeepAlive::Quiet, true) => KeepAlive::Pending,
            _ => return Err(Broken::Silent),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::DATA_OFFSET;

    const OURS: Limits = Limits {
        send: 1024,
        receive: 2048,
        reassembled: MIN_REASSEMBLED,
        credits: 8,
        read_write: 1 << 20,
    };

    fn encoded(header: &Header, data: &[u8]) -> Vec<u8> {
        let mut out = [0; DATA_OFFSET];
        let len = header.encode(&mut out).expect("room");
        [&out[..len], data].concat()
    }

    fn request(change: impl FnOnce(&mut Request)) -> Vec<u8> {
        let mut request = Session::request(&OURS);
        change(&mut request);
        let mut out = [0; Request::LEN];
        request.encode(&mut out).expect("room");
        out.to_vec()
    }

    /// Returns a responder and a requester.
    fn pair() -> (Session, Session) {
        let mut server = Session::new(OURS);
        let message = request(|_| ());
        let Ok(Incoming::Negotiated(response)) = server.receive(&message) else {
            panic!("not negotiated");
        };
        let client = Session::connected(OURS, &response).expect("accepted");
        (server, client)
    }

    /// Sends what `from` has to send, and returns the bytes of the data that arrived.
    fn deliver(from: &mut Session, to: &mut Session, mut outgoing: Option<&mut Outgoing>) -> usize {
        let mut bytes = 0;
        while let Some(next) = from.next(outgoing.as_deref_mut()) {
            let message = encoded(&next.header, &vec![7; next.range.len()]);
            match to.receive(&message) {
                Ok(Incoming::Data(place, data)) => {
                    assert_eq!(place.at as usize, next.range.start);
                    bytes += data.len();
                }
                Ok(Incoming::Empty) => assert!(next.range.is_empty()),
                other => panic!("{other:?}"),
            }
        }
        bytes
    }

    #[test]
    fn sides_agree_on_the_smaller_sizes() {
        let (server, client) = pair();
        // The requester sends no more than 1024 bytes, and the responder neither.
        assert_eq!((server.max_send, server.max_receive), (1024, 1024));
        assert_eq!((client.max_send, client.max_receive), (1024, 1024));
        assert_eq!(client.max_outgoing(), MIN_REASSEMBLED);
    }

    #[test]
    fn bad_requests_are_refused() {
        let refused = |message: &[u8]| Session::new(OURS).receive(message).map(|_| ());
        assert_eq!(refused(&request(|_| ())[..19]), Err(Broken::Negotiation));
        assert_eq!(refused(&[]), Err(Broken::Negotiation));
        for (min, max) in [(0x101, 0x200), (0, 0xff), (0x200, 0x100), (0x200, 0)] {
            let message = request(|r| (r.min_version, r.max_version) = (min, max));
            assert_eq!(refused(&message), Err(Broken::Version), "{min} {max}");
        }
        assert_eq!(refused(&request(|r| r.max_version = 0x300)), Ok(()));
        for message in [
            request(|r| r.credits_requested = 0),
            request(|r| r.max_receive = MIN_MESSAGE - 1),
            request(|r| r.max_reassembled = MIN_REASSEMBLED - 1),
        ] {
            assert_eq!(refused(&message), Err(Broken::Negotiation));
        }
    }

    #[test]
    fn bad_responses_are_refused() {
        let mut server = Session::new(OURS);
        let Ok(Incoming::Negotiated(good)) = server.receive(&request(|_| ())) else {
            panic!("not negotiated");
        };
        let refused = |response: Response| Session::connected(OURS, &response).map(|_| ());
        assert_eq!(refused(good), Ok(()));
        assert_eq!(refused(Session::refusal()), Err(Broken::Version));
        for bad in [
            Response {
                credits_granted: 0,
                ..good
            },
            Response {
                preferred_send: OURS.receive + 1,
                ..good
            },
            Response {
                max_receive: 127,
                ..good
            },
        ] {
            assert_eq!(refused(bad), Err(Broken::Negotiation));
        }
    }

    #[test]
    fn a_large_message_takes_turns_with_credits() {
        let (mut server, mut client) = pair();
        for _ in 0..3 {
            let mut outgoing = Outgoing::new(100_000);
            let (mut arrived, mut rounds) = (0, 0);
            while !outgoing.is_done() {
                arrived += deliver(&mut client, &mut server, Some(&mut outgoing));
                assert_eq!(deliver(&mut server, &mut client, None), 0);
                rounds += 1;
                assert!(rounds < 100, "no progress");
            }
            assert_eq!(arrived, 100_000);
        }
    }

    #[test]
    fn more_messages_than_credits_end_the_connection() {
        let (mut server, _) = pair();
        let message = encoded(&Header::default(), &[]);
        for _ in 0..OURS.credits {
            assert_eq!(server.receive(&message), Ok(Incoming::Empty));
        }
        assert_eq!(server.receive(&message), Err(Broken::Credits));
    }

    #[test]
    fn bad_data_end_the_connection() {
        let (server, _) = pair();
        let refused = |message: &[u8]| server.clone().receive(message).map(|_| ());
        let data = |len, remaining| Header {
            credits_requested: 1,
            len,
            remaining,
            ..Header::default()
        };
        assert_eq!(refused(&[0; 19]), Err(Broken::Malformed));
        assert_eq!(
            refused(&encoded(&data(5, 0), &[0; 4])),
            Err(Broken::Malformed)
        );
        assert_eq!(refused(&[0; 1025]), Err(Broken::Size));
        assert_eq!(
            refused(&encoded(&data(4, MIN_REASSEMBLED), &[0; 4])),
            Err(Broken::TooLong)
        );
        assert_eq!(refused(&encoded(&data(0, 1), &[])), Err(Broken::Order));
        let granted = Header {
            credits_granted: u16::MAX,
            ..Header::default()
        };
        let mut server = server;
        assert_eq!(server.receive(&encoded(&granted, &[])), Ok(Incoming::Empty));
        assert_eq!(
            server.receive(&encoded(&granted, &[])),
            Err(Broken::Credits)
        );
    }

    #[test]
    fn a_quiet_peer_is_asked_once() {
        let (mut server, mut client) = pair();
        // The requester's first messages grant the responder its credits.
        deliver(&mut client, &mut server, Some(&mut Outgoing::new(1)));
        for _ in 0..3 {
            assert_eq!(server.tick(), Ok(()));
            assert_eq!(server.next(None), None);
            assert_eq!(server.tick(), Ok(()));
            let asks = server.next(None).expect("asks");
            assert!(asks.header.response_requested);
            assert_eq!(server.next(None), None);
            let message = encoded(&asks.header, &[]);
            assert_eq!(client.receive(&message), Ok(Incoming::Empty));
            deliver(&mut client, &mut server, None);
        }
        assert_eq!((server.tick(), server.tick()), (Ok(()), Ok(())));
        assert!(server.next(None).is_some());
        assert_eq!(server.tick(), Err(Broken::Silent));
    }

    #[test]
    fn a_peer_that_does_not_negotiate_or_grant_is_silent() {
        let mut server = Session::new(OURS);
        assert_eq!(
            (server.tick(), server.tick()),
            (Ok(()), Err(Broken::Silent))
        );
        let (mut server, _) = pair();
        assert_eq!((server.tick(), server.tick()), (Ok(()), Ok(())));
        // Without a credit the peer cannot be asked.
        assert_eq!(server.next(None), None);
        assert_eq!(server.tick(), Err(Broken::Silent));
    }

    #[test]
    fn nothing_is_sent_without_a_reason() {
        let (mut server, mut client) = pair();
        assert_eq!(server.next(None), None);
        // The responder holds no credits until the requester grants some.
        let first = client.next(None).expect("a grant").header;
        assert_eq!((first.credits_granted, first.len), (OURS.credits, 0));
        assert_eq!(client.next(Some(&mut Outgoing::new(0))), None);
        assert_eq!(Session::new(OURS).next(Some(&mut Outgoing::new(1))), None);
    }
}

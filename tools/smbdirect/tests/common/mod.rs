// SPDX-License-Identifier: GPL-2.0

//! The checks that the property tests and the fuzz target share.

#![allow(dead_code, reason = "each test uses its part")]

use smbdirect::{
    bulk::{
        Head,
        Operation,
        Segments, //
    },
    data::{
        Header,
        DATA_OFFSET, //
    },
    descriptor::Descriptor,
    negotiate::{
        Request,
        Response,
        MIN_REASSEMBLED, //
    },
    reassembly::Outgoing,
    session::{
        Incoming,
        Limits,
        Session, //
    },
};

/// Limits that a module might have.
pub(crate) const LIMITS: Limits = Limits {
    send: 4096,
    receive: 4096,
    reassembled: MIN_REASSEMBLED,
    credits: 31,
    read_write: 1 << 20,
};

/// Returns the bytes of a message.
pub(crate) fn message(header: &Header, data: &[u8]) -> Vec<u8> {
    let mut out = [0; DATA_OFFSET];
    let len = header.encode(&mut out).expect("room");
    [&out[..len], data].concat()
}

/// Returns the bytes of a request.
pub(crate) fn request(ours: &Limits) -> Vec<u8> {
    let mut out = [0; Request::LEN];
    Session::request(ours).encode(&mut out).expect("room");
    out.to_vec()
}

/// Returns a responder and a requester that have negotiated.
pub(crate) fn negotiated(server: Limits, client: Limits) -> (Session, Session) {
    let mut responder = Session::new(server);
    let Ok(Incoming::Negotiated(response)) = responder.receive(&request(&client)) else {
        panic!("the request was refused");
    };
    let mut out = [0; Response::LEN];
    response.encode(&mut out).expect("room");
    let response = Response::decode(&out).expect("a response");
    (
        responder,
        Session::connected(client, &response).expect("accepted"),
    )
}

/// Decodes arbitrary bytes as each message. What is decoded is encoded to the same bytes, as far as
/// they mean anything.
pub(crate) fn decode(bytes: &[u8]) {
    let mut out = [0; 64];
    if let Some(request) = Request::decode(bytes) {
        let len = request.encode(&mut out).expect("room");
        assert_eq!(Request::decode(&out[..len]), Some(request));
    }
    if let Some(response) = Response::decode(bytes) {
        let len = response.encode(&mut out).expect("room");
        assert_eq!(Response::decode(&out[..len]), Some(response));
        let _ = Session::connected(LIMITS, &response);
    }
    if let Ok((header, data)) = Header::decode(bytes) {
        assert_eq!(Header::decode(&message(&header, data)), Ok((header, data)));
    }
    if let Some(descriptor) = Descriptor::decode(bytes) {
        let len = descriptor.encode(&mut out).expect("room");
        assert_eq!(out[..len], bytes[..len]);
    }
    if let Some((head, payload)) = Head::decode(bytes) {
        let len = head.encode(&mut out).expect("room");
        assert_eq!(Head::decode(&out[..len]), Some((head, &[][..])));
        segments(&head, payload);
    }
}

/// Walks the pieces of a pull or a push: they have exactly the bytes of the request, in order.
fn segments(head: &Head, payload: &[u8]) {
    let Ok(mut segments) = Segments::decode(head, payload) else {
        return;
    };
    let mut at = 0u32;
    while let Some(piece) = segments.peek() {
        assert!(piece.at == at && piece.len > 0, "{piece:?}");
        let len = piece.len.div_ceil(2);
        segments.advance(len);
        at += len;
    }
    assert_eq!(at, head.length, "{head:?}");
}

/// A responder takes arbitrary messages, each led by its length in a byte, behind a negotiation if
/// the first byte is odd. It never holds more of a message than it has declared.
pub(crate) fn arbitrary(bytes: &[u8]) {
    let Some((first, mut rest)) = bytes.split_first() else {
        return;
    };
    let mut session = match first & 1 {
        0 => Session::new(LIMITS),
        _ => negotiated(LIMITS, LIMITS).0,
    };
    let mut outgoing = Outgoing::new(10_000);
    while let Some((len, behind)) = rest.split_first() {
        let (message, others) = behind.split_at(behind.len().min(usize::from(*len)));
        rest = others;
        match session.receive(message) {
            Ok(Incoming::Data(place, data)) => {
                assert!(place.at as usize + data.len() <= LIMITS.reassembled as usize);
            }
            Ok(_) => (),
            Err(_) => return,
        }
        while let Some(next) = session.next(Some(&mut outgoing)) {
            assert!(next.range.len() + DATA_OFFSET <= LIMITS.send as usize);
        }
        if len & 7 == 0 && session.tick().is_err() {
            return;
        }
    }
}

/// Returns all operations.
pub(crate) fn operations() -> Vec<Operation> {
    (0..=u16::MAX).filter_map(Operation::from_code).collect()
}

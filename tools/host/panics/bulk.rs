// SPDX-License-Identifier: GPL-2.0

//! Calls everything in `smbdirect` with values unknown to the compiler, as `consumer` does with
//! `svcrdma_proto`.

#![no_std]
#![allow(missing_docs)]

use smbdirect::bulk::{Head, Operation, Piece, Segments, Status};
use smbdirect::data::{Header, Malformed};
use smbdirect::descriptor::Descriptor;
use smbdirect::negotiate::{Request, Response};
use smbdirect::reassembly::Outgoing;
use smbdirect::session::{Broken, Incoming, Limits, Next, Session};

#[no_mangle]
pub fn use_receive<'m>(session: &mut Session, message: &'m [u8]) -> Result<Incoming<'m>, Broken> {
    session.receive(message)
}

#[no_mangle]
pub fn use_next(session: &mut Session, outgoing: &mut Outgoing) -> Option<Next> {
    let next = session.next(Some(outgoing));
    if outgoing.is_done() {
        *outgoing = Outgoing::new(session.max_outgoing());
    }
    next
}

#[no_mangle]
pub fn use_tick(session: &mut Session) -> Result<(), Broken> {
    session.tick()
}

#[no_mangle]
pub fn use_request(ours: &Limits, out: &mut [u8]) -> Option<usize> {
    Session::request(ours).encode(out)
}

#[no_mangle]
pub fn use_response(message: &[u8], ours: &Limits) -> Option<Result<Session, Broken>> {
    Some(Session::connected(*ours, &Response::decode(message)?))
}

#[no_mangle]
pub fn use_refusal(out: &mut [u8]) -> Option<usize> {
    Session::refusal().encode(out)
}

#[no_mangle]
pub fn use_decode(message: &[u8]) -> (Option<Request>, Option<Descriptor>) {
    (Request::decode(message), Descriptor::decode(message))
}

#[no_mangle]
pub fn use_data<'m>(
    message: &'m [u8],
    out: &mut [u8],
) -> Result<(&'m [u8], Option<usize>), Malformed> {
    let (header, data) = Header::decode(message)?;
    Ok((data, header.encode(out)))
}

#[no_mangle]
pub fn use_head(message: &[u8], out: &mut [u8]) -> Option<(usize, Operation, bool)> {
    let (head, payload) = Head::decode(message)?;
    let operation = head.operation()?;
    let status = head.status().unwrap_or(Status::Unknown);
    let head = match payload.first() {
        Some(_) => head.answer(status),
        None => Head::request(operation, head.tag),
    };
    Some((head.encode(out)?, operation, head.is_answer()))
}

#[no_mangle]
pub fn use_segments(message: &[u8], len: u32) -> Option<Piece> {
    let (head, payload) = Head::decode(message)?;
    let mut segments = Segments::decode(&head, payload).ok()?;
    segments.advance(len);
    segments.peek()
}

#[no_mangle]
pub fn use_descriptor(descriptor: &Descriptor, out: &mut [u8]) -> Option<usize> {
    descriptor.encode(out)
}

#[no_mangle]
pub fn use_reason(reason: Broken) -> &'static str {
    reason.reason()
}

#[no_mangle]
pub fn use_write(next: &Next, out: &mut [u8], whole: &[u8]) -> Option<usize> {
    next.write(out, whole)
}

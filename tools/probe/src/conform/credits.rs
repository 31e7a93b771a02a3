// SPDX-License-Identifier: GPL-2.0

//! Rows about credits (RFC 8166, section 3.3.1).

use super::{
    bench::{reply_to, require, Bench},
    row::Row, //
};
use crate::{
    error::{Error, Result},
    message::{procedure, Answer, Message, VERSION},
    peer::{Incoming, Params, Peer, PATIENCE},
    xdr::Xdr,
};
use std::collections::HashSet;

pub(super) const ROWS: &[Row] = &[
    Row::script(
        "RFC 8166, 4.2.3",
        "credits are granted, whatever is asked",
        |b| {
            let mut peer = b.peer()?;
            for asked in [0, 1, 7, u32::MAX] {
                let granted = null(&mut peer, asked)?;
                require(
                    granted > 0,
                    format!("no credit is granted when {asked} are requested"),
                )?;
            }
            Ok(())
        },
    ),
    Row::script("RFC 8166, 3.3.1", "errors grant credits too", |b| {
        let mut peer = b.peer()?;
        for (version, procedure) in [(2, procedure::MSG), (VERSION, NO_PROCEDURE)] {
            let xid = peer.xid();
            let head = [xid, version, 1, procedure, 0, 0, 0];
            peer.send_bytes(
                &Xdr::new()
                    .words(&head)
                    .raw(&peer.null_rpc(xid))
                    .into_bytes(),
            )?;
            match peer.answer_to(xid)? {
                Incoming::Answer(answer) if answer.credits() > Some(0) => (),
                other => return Err(Error::new(format!("unexpected {other:?}"))),
            }
        }
        peer.null().map(drop)
    }),
    Row::script(
        "RFC 8167, 4.1",
        "credits asked for by what cannot be decoded",
        |b| {
            let mut peer = b.peer()?;
            let granted = null(&mut peer, ASKED)?;
            require(granted > 1, "one credit is too few for this row")?;
            let xid = peer.xid();
            let mut message = Message::inline(xid, peer.null_rpc(xid));
            message.credits = 1;
            message.procedure = NO_PROCEDURE;
            match peer.exchange(&message)? {
                Incoming::Answer(answer) if answer.credits() >= Some(granted) => Ok(()),
                other => Err(Error::new(format!(
                    "{granted} were granted before, then {other:?}"
                ))),
            }
        },
    ),
    Row::script("RFC 8166, 3.3.1", "as many Calls as credits at once", |b| {
        at_once(b, 0).and_then(|answered| require(answered, "a Call was not answered"))
    }),
    Row::script("RFC 8166, 3.3.1", "more Calls than credits", |b| {
        // The server may serve them or close this connection.
        at_once(b, MOST)?;
        b.peer().map(drop)
    }),
];

/// An undefined `rdma_proc`.
const NO_PROCEDURE: u32 = 5;

/// A number of credits that every server can grant.
const ASKED: u32 = 4;

/// The largest number of credits that rows request.
pub(super) const MOST: u32 = 128;

/// Makes a NULL Call that requests `asked` credits. Returns the grant.
pub(super) fn null(peer: &mut Peer, asked: u32) -> Result<u32> {
    let xid = peer.xid();
    let mut message = Message::inline(xid, peer.null_rpc(xid));
    message.credits = asked;
    reply_to(peer, &message).map(|reply| reply.credits)
}

/// Makes as many Calls as there are credits plus `more`, without waiting for replies. Returns true
/// if all were answered, and false if the connection has ended.
fn at_once(bench: &Bench<'_>, more: u32) -> Result<bool> {
    let params = Params {
        receives: 2 * MOST,
        ..Params::default()
    };
    let mut peer = Peer::connect(&bench.target, params)?;
    let granted = null(&mut peer, MOST)?.min(MOST);
    let mut in_flight = HashSet::new();
    for _ in 0..granted + more {
        let xid = peer.xid();
        let mut message = Message::inline(xid, peer.null_rpc(xid));
        message.credits = MOST;
        match peer.send(&message) {
            Ok(()) => in_flight.insert(xid),
            // siw refuses to send once the server has closed.
            Err(error) if error.is_not_connected() => return Ok(false),
            Err(error) => return Err(error),
        };
    }
    while !in_flight.is_empty() {
        match peer.receive(PATIENCE)? {
            Incoming::Answer(Answer::Reply(reply)) if in_flight.remove(&reply.xid) => (),
            Incoming::Closed => return Ok(false),
            other => return Err(Error::new(format!("no reply but {other:?}"))),
        }
    }
    Ok(true)
}

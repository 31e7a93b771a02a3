// SPDX-License-Identifier: GPL-2.0

//! Rows about Calls of both sides in flight at the same time (RFC 8167).

use super::{
    bench::{require, Bench},
    callbacks::{another, called, gather, still_served, success},
    credits::{self, MOST},
    row::Row,
};
use crate::{
    callback,
    error::{Error, Result},
    message::{Answer, Message, Reply},
    peer::{Incoming, Params, Peer, PATIENCE},
    rpc, session,
};
use std::collections::HashSet;

pub(super) const ROWS: &[Row] = &[
    Row::file_script(
        "RFC 8167, 2.4.1",
        "Call with the XID of a callback under way",
        |b| {
            let (mut peer, callback) = called(b)?;
            let xid = callback.xid;
            peer.send(&Message::inline(xid, peer.null_rpc(xid)))?;
            match peer.answer_to(xid)? {
                Incoming::Answer(Answer::Reply(reply)) if is_success(&reply) => (),
                other => return Err(Error::new(format!("no reply but {other:?}"))),
            }
            answer(&mut peer, &callback)?;
            still_served(&mut peer, another)
        },
    ),
    Row::file_script(
        "RFC 8167, 2.4",
        "callbacks under way have XIDs of their own",
        |b| {
            let mut peer = b.peer()?;
            let waiting = several(&mut peer, b)?;
            let xids: HashSet<u32> = waiting.iter().map(|callback| callback.xid).collect();
            require(
                xids.len() == waiting.len(),
                format!("{} XIDs for {} callbacks", xids.len(), waiting.len()),
            )
        },
    ),
    Row::file_script(
        "RFC 8167, 4.3.2",
        "callbacks answered while all credits are used",
        |b| {
            let params = Params {
                receives: 2 * MOST,
                ..Params::default()
            };
            let mut peer = Peer::connect(&b.target, params)?;
            let waiting = several(&mut peer, b)?;
            let granted = credits::null(&mut peer, MOST)?.min(MOST);
            let mut in_flight = HashSet::new();
            for _ in 0..granted {
                let xid = peer.xid();
                let mut message = Message::inline(xid, peer.null_rpc(xid));
                message.credits = MOST;
                peer.send(&message)?;
                in_flight.insert(xid);
            }
            for callback in &waiting {
                answer(&mut peer, callback)?;
            }
            all_answered(&mut peer, in_flight)?;
            still_served(&mut peer, answer)
        },
    ),
];

/// The number of callbacks to provoke, and the credits granted for them.
const CALLBACKS: u32 = 6;

/// Provokes several callbacks that are in flight at the same time.
fn several(peer: &mut Peer, bench: &Bench<'_>) -> Result<Vec<Reply>> {
    let mut waiting = session::provoke_callbacks(peer, bench.file(), CALLBACKS)?;
    gather(peer, &mut waiting, 1)?;
    // The first answer grants the server more credits.
    answer(peer, &waiting.remove(0))?;
    gather(peer, &mut waiting, 2)?;
    match waiting.len() {
        2.. => Ok(waiting),
        _ => Err(Error::unavailable(
            "the server makes one callback at a time",
        )),
    }
}

/// Answers `callback` and grants credits.
fn answer(peer: &mut Peer, callback: &Reply) -> Result {
    let mut message = Message::inline(callback.xid, success(callback)?);
    message.credits = CALLBACKS;
    peer.send(&message)
}

/// Checks that each of the Calls `in_flight` is answered. Answers callbacks that arrive meanwhile.
fn all_answered(peer: &mut Peer, mut in_flight: HashSet<u32>) -> Result {
    while !in_flight.is_empty() {
        match peer.receive(PATIENCE)? {
            Incoming::Answer(Answer::Reply(reply)) if callback::is_call(&reply.body) => {
                answer(peer, &reply)?;
            }
            Incoming::Answer(Answer::Reply(reply))
                if is_success(&reply) && in_flight.remove(&reply.xid) => {}
            other => {
                let left = in_flight.len();
                return Err(Error::new(format!(
                    "{left} Calls are unanswered: {other:?}"
                )));
            }
        }
    }
    Ok(())
}

/// Returns true if the reply says that the Call was executed.
fn is_success(reply: &Reply) -> bool {
    rpc::results(reply.xid, &reply.body).is_some()
}

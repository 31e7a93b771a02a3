// SPDX-License-Identifier: GPL-2.0

//! Observes the server's reaction to one message.

use super::{
    bench::{begin, Bench},
    props::Props,
};
use crate::{
    error::{Error, Result},
    message::{procedure, Answer, Message, Reply},
    peer::{Incoming, Peer},
    rpc,
    xdr::Words,
};
use std::{fmt, time::Duration};

/// The server's reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// RDMA_ERROR, ERR_VERS 1..1.
    ErrVers,
    /// RDMA_ERROR, ERR_CHUNK.
    ErrChunk,
    /// An RPC reply.
    Reply,
    /// An RPC reply whose XID differs from that of its transport header.
    OtherXid,
    /// An RPC reply that says GARBAGE_ARGS.
    GarbageArgs,
    /// No answer; the connection stays.
    Nothing,
    /// The connection ends.
    Closed,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ErrVers => "ERR_VERS",
            Self::ErrChunk => "ERR_CHUNK",
            Self::Reply => "reply",
            Self::OtherXid => "reply with another XID",
            Self::GarbageArgs => "GARBAGE_ARGS",
            Self::Nothing => "none",
            Self::Closed => "closed",
        })
    }
}

/// The timeout for an answer. Only a faulty server makes the probe wait this long.
const ANSWER: Duration = Duration::from_secs(10);

/// Sends the message that `build` makes and checks that the server's reaction is one of `want`.
/// Returns the reaction.
pub(super) fn try_message(
    bench: &Bench<'_>,
    want: &[Seen],
    build: fn(&Props<'_>) -> Vec<u8>,
) -> Result<Seen> {
    let mut peer = bench.peer()?;
    let memory = peer.region(1 << 20)?;
    let xid = peer.xid();
    let bytes = build(&Props {
        peer: &peer,
        xid,
        memory: &memory,
        file: bench.file(),
    });
    send(&mut peer, &bytes, want)
}

/// Sends `bytes` and checks that the server's only reaction is one of `want`. Returns the reaction.
pub(super) fn send(peer: &mut Peer, bytes: &[u8], want: &[Seen]) -> Result<Seen> {
    peer.send_bytes(bytes)?;
    let seen = if want.contains(&Seen::Nothing) {
        look_behind(peer, bytes)?
    } else {
        look(peer, bytes)?
    };
    if seen == Seen::Closed {
        // A peer that leaves first hides the server's reason to close.
        peer.wait_disconnected(ANSWER)?;
    }
    if want.contains(&seen) {
        Ok(seen)
    } else {
        Err(Error::new(format!("{seen} instead of {}", want[0])))
    }
}

/// Waits for the reaction to the message `sent`.
fn look(peer: &mut Peer, sent: &[u8]) -> Result<Seen> {
    match understand(sent, peer.receive(ANSWER)?)? {
        Seen::Closed => Ok(Seen::Closed),
        seen => {
            let null = send_null(peer)?;
            alone(peer, null, seen)
        }
    }
}

/// Determines the reaction to the message `sent` with a NULL Call behind it, as there may be no
/// answer.
fn look_behind(peer: &mut Peer, sent: &[u8]) -> Result<Seen> {
    let mut null = send_null(peer)?;
    let seen = match peer.receive(ANSWER)? {
        Incoming::Answer(Answer::Reply(reply)) if reply.xid == null => {
            // A late answer would arrive before the reply to another NULL Call.
            null = send_null(peer)?;
            Seen::Nothing
        }
        incoming => understand(sent, incoming)?,
    };
    alone(peer, null, seen)
}

/// Sends a NULL Call. Returns its XID.
fn send_null(peer: &mut Peer) -> Result<u32> {
    let xid = peer.xid();
    peer.send(&Message::inline(xid, peer.null_rpc(xid)))?;
    Ok(xid)
}

/// Checks that the next message is the reply to the NULL Call `null`. Returns `seen`, or `Closed`
/// if the connection has ended.
fn alone(peer: &mut Peer, null: u32, seen: Seen) -> Result<Seen> {
    match peer.answer_to(null)? {
        Incoming::Answer(Answer::Reply(_)) => Ok(seen),
        Incoming::Closed => Ok(Seen::Closed),
        other => Err(Error::new(format!("{seen}, and then {other:?}"))),
    }
}

/// Classifies `incoming` as the reaction to the message `sent`. Returns an error if it is not a
/// valid one.
fn understand(sent: &[u8], incoming: Incoming) -> Result<Seen> {
    let mut words = Words::new(sent);
    let (xid, version) = (words.word(), words.word());
    match incoming {
        Incoming::Silence => Ok(Seen::Nothing),
        Incoming::Closed => Ok(Seen::Closed),
        Incoming::Answer(answer) if answer.xid() != xid => {
            Err(Error::new(format!("unexpected answer: {answer:?}")))
        }
        Incoming::Answer(Answer::Reply(reply)) => executed(&reply),
        Incoming::Answer(Answer::ErrVers {
            version: its,
            low: 1,
            high: 1,
            ..
        }) if Some(its) == version => Ok(Seen::ErrVers),
        Incoming::Answer(Answer::ErrChunk { .. }) => Ok(Seen::ErrChunk),
        Incoming::Answer(answer) => Err(Error::new(format!("unexpected {answer:?}"))),
    }
}

/// Classifies an RPC reply. Returns an error unless all of it is inline and the Call was executed
/// or its arguments could not be decoded.
fn executed(reply: &Reply) -> Result<Seen> {
    let xid = Words::new(&reply.body).word().unwrap_or_default();
    rpc::has_version_3(xid, &reply.body)?;
    let status = rpc::accepted(xid, &reply.body).map(|(status, _)| status);
    match (reply.procedure, xid == reply.xid, status) {
        (procedure::MSG, true, Some(rpc::SUCCESS)) => Ok(Seen::Reply),
        (procedure::MSG, false, Some(rpc::SUCCESS)) => Ok(Seen::OtherXid),
        (procedure::MSG, true, Some(rpc::GARBAGE_ARGS)) => Ok(Seen::GarbageArgs),
        _ => Err(Error::new(format!(
            "the Call failed: {}",
            begin(&reply.body)
        ))),
    }
}

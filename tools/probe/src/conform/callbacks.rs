// SPDX-License-Identifier: GPL-2.0

//! Rows about callbacks: Calls that the server makes to the client (RFC 8167).

use super::{
    bench::{require, Bench},
    row::Row, //
};
use crate::{
    callback,
    error::{Error, Result},
    message::{error_code, procedure, Answer, Message, Reply, VERSION},
    peer::{Incoming, Params, Peer, PATIENCE},
    session,
    xdr::{Words, Xdr},
};
use std::time::{Duration, Instant};
use svcrdma_proto::{
    chunk::{ReadSegment, Segment},
    cm,
};

/// The time during which all callbacks are refused, or none may arrive, and the maximum of
/// repetitions in that time. A server that repeats without a pause does so thousands of times.
const REFUSING: Duration = Duration::from_secs(5);
const MOST_REPEATED: u32 = 50;

/// The time after which no further callback is expected before another one is answered.
const PAUSE: Duration = Duration::from_millis(500);

/// A little more than a tenth of a lease of 90 s, after which Linux's nfsd gives up on a callback.
/// With a longer lease it has not given up yet.
const GIVEN_UP: Duration = Duration::from_secs(12);

/// The time in which a callback that is repeated immediately must arrive.
const REPEATING: Duration = Duration::from_secs(1);

pub(super) const ROWS: &[Row] = &[
    Row::file_script(
        "RFC 8167, 5.1",
        "callbacks come over the session's connection",
        |b| {
            let (mut peer, callback) = called(b)?;
            let answer = success(&callback)?;
            peer.send(&Message::inline(callback.xid, answer))?;
            still_served(&mut peer, another)
        },
    ),
    Row::file_script("RFC 8167, 5.3", "callback is inline and has credits", |b| {
        let (_peer, callback) = called(b)?;
        require(
            callback.procedure == procedure::MSG,
            "the callback is not an RDMA_MSG",
        )?;
        let is_plain = callback.writes.is_empty() && callback.reply.is_none();
        require(is_plain, "the callback has chunks")?;
        require(callback.credits > 0, "the callback grants no credits")
    }),
    Row::file_script("RFC 8167, 5.1", "callback is a Call, with one XID", |b| {
        let (_peer, callback) = called(b)?;
        let mut words = Words::new(&callback.body);
        let head = (words.word(), words.word());
        // CALL.
        require(
            head == (Some(callback.xid), Some(0)),
            format!("{head:x?} in a message with XID {:x}", callback.xid),
        )
    }),
    Row::file_script("RFC 8167, 5.4", "callback refused with ERR_CHUNK", |b| {
        refused(b, &[error_code::CHUNK])
    }),
    Row::file_script(
        "RFC 8166, 4.5",
        "callback that was refused does not come again",
        |b| {
            let (mut peer, callback) = called(b)?;
            refuse(&mut peer, callback.xid, &[error_code::CHUNK])?;
            repeats_not(&mut peer, callback.xid)
        },
    ),
    Row::file_script("RFC 8167, 5.4", "callback refused with ERR_VERS", |b| {
        refused(b, &[error_code::VERS, 2, 2])
    }),
    Row::file_script(
        "RFC 8166, 4.5",
        "callback and an RDMA_ERROR of no known kind",
        |b| {
            let (mut peer, callback) = called(b)?;
            for error in [&[3][..], &[error_code::VERS]] {
                refuse(&mut peer, callback.xid, error)?;
            }
            // Versions that no Call of the server has used.
            for version in [0, 2, u32::MAX] {
                let words = [
                    callback.xid,
                    version,
                    4,
                    procedure::ERROR,
                    error_code::CHUNK,
                ];
                peer.send_bytes(&Xdr::new().words(&words).into_bytes())?;
            }
            let answer = success(&callback)?;
            peer.send(&Message::inline(callback.xid, answer))?;
            // A server that takes one of these for a refusal repeats the callback.
            still_served(&mut peer, another)?;
            match peer.receive(REPEATING)? {
                Incoming::Silence => Ok(()),
                other => Err(Error::new(format!("unexpected {other:?}"))),
            }
        },
    ),
    Row::file_script("RFC 8167, 5.4", "callbacks refused, whatever comes", |b| {
        let (mut peer, callback) = called(b)?;
        refuse(&mut peer, callback.xid, &[error_code::CHUNK])?;
        let count = refuse_all(&mut peer, Instant::now() + REFUSING)?;
        require(
            count <= MOST_REPEATED,
            format!("the callback was repeated {count} times in {REFUSING:?}"),
        )?;
        still_served(&mut peer, pass_over)
    }),
    Row::file_script(
        "RFC 8167, 5.2",
        "callback's reply with another XID inside",
        |b| {
            let (mut peer, callback) = called(b)?;
            let answer = success(&callback)?;
            let mut other = answer.clone();
            other[..4].copy_from_slice(&(callback.xid ^ 1).to_be_bytes());
            peer.send(&Message::inline(callback.xid, other))?;
            peer.send(&Message::inline(callback.xid, answer))?;
            still_served(&mut peer, another)
        },
    ),
    Row::file_script("RFC 8167, 5.2", "callback answered twice", |b| {
        let (mut peer, callback) = called(b)?;
        let answer = success(&callback)?;
        for _ in 0..2 {
            peer.send(&Message::inline(callback.xid, answer.clone()))?;
        }
        still_served(&mut peer, pass_over)
    }),
    Row::file_script(
        "RFC 8167, 5.2",
        "callback answered with a longer reply",
        |b| {
            let (mut peer, callback) = called(b)?;
            let mut answer = success(&callback)?;
            answer.resize(2048, 0);
            peer.send(&Message::inline(callback.xid, answer))?;
            still_served(&mut peer, pass_over)
        },
    ),
    Row::file_script("RFC 8167, 5.3", "callback answered with chunks", |b| {
        let (mut peer, callback) = called(b)?;
        let segment = Segment {
            handle: 1,
            length: 4,
            offset: 0,
        };
        // The second position would be invalid in a Call, too.
        for position in [24, 25] {
            let mut message = Message::inline(callback.xid, success(&callback)?);
            message.reads = vec![ReadSegment { position, segment }];
            peer.send(&message)?;
        }
        still_served(&mut peer, pass_over)
    }),
    Row::file_script("RFC 8167, 5.1", "callbacks beside another session", |b| {
        let mut peer = b.peer()?;
        let callback = session::provoke_callback_of_two(&mut peer, b.file())?;
        let answer = success(&callback)?;
        peer.send(&Message::inline(callback.xid, answer))?;
        still_served(&mut peer, pass_over)
    }),
    Row::file_script("RFC 8167, 4.1", "no more callbacks than credits", |b| {
        let answers = [3, 1, 8, 1, 2, 5];
        let mut peer = b.peer()?;
        let mut waiting = session::provoke_callbacks(&mut peer, b.file(), answers.len() as u32)?;
        // One credit before the first Reply; a callback allowed by the previous grant may be in
        // flight.
        let (mut granted, mut earlier) = (1, 1);
        for credits in answers {
            let before = waiting.len();
            gather(&mut peer, &mut waiting, 1)?;
            require(
                waiting.len() == before || waiting.len() <= granted.max(earlier),
                format!(
                    "{} callbacks at a time for {granted} credits",
                    waiting.len()
                ),
            )?;
            let callback = waiting.remove(0);
            let mut message = Message::inline(callback.xid, success(&callback)?);
            message.credits = credits;
            peer.send(&message)?;
            (granted, earlier) = (credits as usize, granted);
        }
        require(waiting.is_empty(), "a callback arrived twice")
    }),
    Row::file_script(
        "RFC 8167, 4.1",
        "callbacks without answers keep their credits",
        |b| {
            let mut peer = b.peer()?;
            let mut waiting = session::provoke_callbacks(&mut peer, b.file(), 6)?;
            gather(&mut peer, &mut waiting, 1)?;
            // Another callback could arrive once nfsd has given up on the first.
            match peer.receive(GIVEN_UP)? {
                Incoming::Silence => {
                    require(
                        waiting.len() == 1,
                        format!("{} callbacks at a time", waiting.len()),
                    )?;
                }
                other => return Err(Error::new(format!("unexpected {other:?}"))),
            }
            let answer = success(&waiting[0])?;
            peer.send(&Message::inline(waiting[0].xid, answer))?;
            // The other callbacks have waited for this credit.
            waiting.clear();
            gather(&mut peer, &mut waiting, 1)
        },
    ),
    Row::file_script(
        "RFC 8167, 5.3",
        "no callback above the client's threshold",
        |b| {
            // The client could receive more than the 1024 bytes that it announces.
            let params = Params {
                private_data: cm::Peer {
                    remote_invalidation: false,
                    send: 4096,
                    receive: 1024,
                }
                .private_data()
                .to_vec(),
                ..Params::default()
            };
            let mut peer = Peer::connect(&b.target, params)?;
            let callback = session::provoke_long_callback(&mut peer, b.file())?;
            none_comes(&mut peer, callback)
        },
    ),
    Row::file_script(
        "RFC 8881, 2.10.3",
        "no callback where a session has no backchannel",
        |b| {
            let mut peer = b.peer()?;
            let callback = session::provoke_without_channel(&mut peer, b.file())?;
            none_comes(&mut peer, callback)
        },
    ),
    Row::file_script("RFC 8167, 5.2", "callback that gets no answer", |b| {
        let (mut peer, _) = called(b)?;
        still_served(&mut peer, pass_over)?;
        peer.disconnect()?;
        b.peer().map(drop)
    }),
];

/// Connects, creates a session and provokes a callback. Returns both.
pub(super) fn called(bench: &Bench<'_>) -> Result<(Peer, Reply)> {
    let mut peer = bench.peer()?;
    let callback = session::provoke_callback(&mut peer, bench.file())?;
    Ok((peer, callback))
}

/// Adds callbacks to `waiting` until no more arrive. Waits longer for the first `least` of them.
/// Returns an error if there are none at all.
pub(super) fn gather(peer: &mut Peer, waiting: &mut Vec<Reply>, least: usize) -> Result {
    loop {
        let patience = if waiting.len() < least {
            PATIENCE
        } else {
            PAUSE
        };
        match peer.receive(patience)? {
            Incoming::Silence => return require(!waiting.is_empty(), "no callback arrived"),
            Incoming::Answer(Answer::Reply(reply)) if callback::is_call(&reply.body) => {
                waiting.push(reply);
            }
            incoming => return Err(Error::new(format!("unexpected {incoming:?}"))),
        }
    }
}

/// Checks that no callback arrives, and that `first`, which holds an earlier one, is `None`.
fn none_comes(peer: &mut Peer, first: Option<Reply>) -> Result {
    require(first.is_none(), "a callback arrived")?;
    match peer.receive(REFUSING)? {
        Incoming::Silence => still_served(peer, |_, _| Err(Error::new("a callback arrived late"))),
        other => Err(Error::new(format!("unexpected {other:?}"))),
    }
}

/// Builds the successful reply to a callback.
pub(super) fn success(callback: &Reply) -> Result<Vec<u8>> {
    let answer = callback::success(callback);
    answer.ok_or_else(|| Error::new(format!("unknown callback: {callback:?}")))
}

/// Answers a callback with this RDMA_ERROR and checks that the connection stays.
fn refused(bench: &Bench<'_>, error: &[u32]) -> Result {
    let (mut peer, callback) = called(bench)?;
    refuse(&mut peer, callback.xid, error)?;
    // The server may try again.
    still_served(&mut peer, |peer, callback| {
        refuse(peer, callback.xid, error)
    })
}

/// Checks that no callback with this XID arrives for a while; others may.
fn repeats_not(peer: &mut Peer, xid: u32) -> Result {
    let end = Instant::now() + REPEATING;
    loop {
        match peer.receive(end.saturating_duration_since(Instant::now()))? {
            Incoming::Silence => return Ok(()),
            Incoming::Answer(Answer::Reply(reply)) if callback::is_call(&reply.body) => {
                require(reply.xid != xid, "the callback was repeated")?;
            }
            incoming => return Err(Error::new(format!("unexpected {incoming:?}"))),
        }
    }
}

/// Refuses callbacks until `end`. Returns their number.
fn refuse_all(peer: &mut Peer, end: Instant) -> Result<u32> {
    let mut count = 0;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match peer.receive(left)? {
            Incoming::Silence => return Ok(count),
            Incoming::Answer(Answer::Reply(reply)) if callback::is_call(&reply.body) => {
                refuse(peer, reply.xid, &[error_code::CHUNK])?;
                count += 1;
            }
            incoming => return Err(Error::new(format!("unexpected {incoming:?}"))),
        }
        if left.is_zero() {
            return Ok(count);
        }
    }
}

/// Sends an RDMA_ERROR (RFC 8166, section 4.2.4).
fn refuse(peer: &mut Peer, xid: u32, error: &[u32]) -> Result {
    let head = [xid, VERSION, 4, procedure::ERROR];
    peer.send_bytes(&Xdr::new().words(&head).words(error).into_bytes())
}

/// Makes a NULL Call, which must be answered. Passes callbacks that arrive before the reply to
/// `other`.
pub(super) fn still_served(
    peer: &mut Peer,
    mut other: impl FnMut(&mut Peer, &Reply) -> Result,
) -> Result {
    let xid = peer.xid();
    peer.send(&Message::inline(xid, peer.null_rpc(xid)))?;
    loop {
        match peer.receive(PATIENCE)? {
            Incoming::Answer(Answer::Reply(reply)) if reply.xid == xid => return Ok(()),
            Incoming::Answer(Answer::Reply(reply)) if callback::is_call(&reply.body) => {
                other(peer, &reply)?;
            }
            incoming => return Err(Error::new(format!("answered with {incoming:?}"))),
        }
    }
}

/// Fails because another callback has arrived.
pub(super) fn another(_: &mut Peer, other: &Reply) -> Result {
    Err(Error::new(format!("unexpected callback: {other:?}")))
}

/// Ignores a callback.
fn pass_over(_: &mut Peer, _: &Reply) -> Result {
    Ok(())
}

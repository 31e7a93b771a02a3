// SPDX-License-Identifier: GPL-2.0

//! `bad`: messages that no client should send, and what RFC 8166 wants as answer.
//!
//! Each row of the table gets a connection of its own, on which a NULL Call must be answered
//! before and, unless the row may end the connection, afterwards.

mod rows;

use self::rows::{Props, Row, Seen, NOTHING, ROWS};
use crate::{
    args::Args,
    error::{Error, Result},
    message::Answer,
    peer::{Incoming, Manners, Peer, SILENCE},
};
use std::{
    net::SocketAddr,
    time::Duration, //
};

/// Options that take a value.
pub(crate) const OPTIONS: &[&str] = &["file"];

/// How long an answer that should come may take. Only a wrong server makes anybody wait so long.
const ANSWER: Duration = Duration::from_secs(10);

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let target = args.target()?;
    let file = args.text("file");
    let mut wrong = 0;
    println!("{:<7} {:<38} {:<10} answer", "RFC8166", "message", "wanted");
    for row in ROWS {
        let Some(file) = file.or((!row.needs_file).then_some("")) else {
            continue;
        };
        let seen = try_row(&target, row, file)
            .map_err(|error| Error::new(format!("{}: {error}", row.what)))?;
        let good = row.want.contains(&seen);
        let note = if good { "" } else { "  WRONG" };
        println!(
            "{:<7} {:<38} {:<10} {seen}{note}",
            row.section, row.what, row.want[0]
        );
        wrong += u32::from(!good);
    }
    match wrong {
        0 => Ok(()),
        _ => Err(Error::new(format!("{wrong} answers are wrong"))),
    }
}

/// Sends the message of `row` and says what came of it.
fn try_row(target: &SocketAddr, row: &Row, file: &str) -> Result<Seen> {
    let mut peer = Peer::connect(target, Manners::default())?;
    let memory = peer.region(1 << 20)?;
    peer.null()?;
    let xid = peer.xid();
    let bytes = (row.build)(&Props {
        xid,
        memory: &memory,
        file,
    });
    peer.send_bytes(&bytes)?;
    let version = bytes.get(4..8).and_then(|word| word.try_into().ok());
    let version = version.map_or(0, u32::from_be_bytes);
    let seen = look(&mut peer, xid, version, row.want == NOTHING)?;
    if seen == Seen::Closed {
        return Ok(seen);
    }
    // "The connection stays" is part of every other answer.
    Ok(peer.null().map_or(Seen::Closed, |_credits| seen))
}

/// Waits for the answer to `xid` of protocol version `sent`.
fn look(peer: &mut Peer, xid: u32, sent: u32, quiet: bool) -> Result<Seen> {
    let patience = if quiet { SILENCE } else { ANSWER };
    Ok(match peer.receive(patience)? {
        Incoming::Silence => Seen::Nothing,
        Incoming::Closed => Seen::Closed,
        Incoming::Answer(answer) if answer.xid() != Some(xid) => Seen::Garbage,
        Incoming::Answer(Answer::Reply(_)) => Seen::Reply,
        Incoming::Answer(Answer::ErrVers {
            version,
            low: 1,
            high: 1,
            ..
        }) if version == sent => Seen::ErrVers,
        Incoming::Answer(Answer::ErrChunk { .. }) => Seen::ErrChunk,
        Incoming::Answer(_) => Seen::Garbage,
    })
}

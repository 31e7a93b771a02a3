// SPDX-License-Identifier: GPL-2.0

//! `negotiate`: private data of all kinds, and what RFC 8797 wants to follow from it.
//!
//! The threshold for replies shows in what the server does with a READ for which no chunk is
//! offered: it is answered inline when the reply fits, and with ERR_CHUNK when it does not.

use crate::{
    args::Args,
    error::{Error, Result},
    message::{Answer, Message},
    missing,
    peer::{Incoming, Manners, Peer},
    rpc,
};
use std::net::SocketAddr;
use svcrdma_proto::cm;

/// Options that take a value.
pub(crate) const OPTIONS: &[&str] = &["file"];

/// What surrounds the data of the READ in its reply: 28 bytes of transport header, 24 of RPC
/// header, 12 of COMPOUND header, 8 per operation and 8 of READ; a few more per path component.
const AROUND: u32 = 200;

/// A row of the table.
struct Row {
    what: &'static str,
    private_data: &'static [u8],
    /// The threshold that follows for replies, in bytes.
    replies: u32,
}

const ROWS: &[Row] = &[
    Row {
        what: "absent",
        private_data: &[],
        replies: 1024,
    },
    Row {
        what: "short",
        private_data: &[0xf6, 0xab, 0x0e, 0x18, 1, 0, 3],
        replies: 1024,
    },
    Row {
        what: "wrong magic",
        private_data: &[0xf6, 0xab, 0x0e, 0x19, 1, 0, 3, 3],
        replies: 1024,
    },
    Row {
        what: "wrong version",
        private_data: &[0xf6, 0xab, 0x0e, 0x18, 2, 0, 3, 3],
        replies: 1024,
    },
    Row {
        what: "1 KiB",
        private_data: &[0xf6, 0xab, 0x0e, 0x18, 1, 0, 0, 0],
        replies: 1024,
    },
    Row {
        what: "sends 4, receives 2 KiB",
        private_data: &[0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 1],
        replies: 2048,
    },
    Row {
        what: "4 KiB",
        private_data: &[0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3],
        replies: 4096,
    },
    Row {
        what: "256 KiB, all flags, more behind",
        private_data: &[0xf6, 0xab, 0x0e, 0x18, 1, 0xff, 255, 255, 1, 2, 3],
        replies: 256 << 10,
    },
];

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let target = args.target()?;
    let file = args.text("file").ok_or_else(|| missing("file"))?;
    println!(
        "{:<34} {:>9} {:>7} {:>7}",
        "private data", "threshold", "below", "above"
    );
    for row in ROWS {
        try_row(&target, row, file)
            .map_err(|error| Error::new(format!("{}: {error}", row.what)))?;
    }
    Ok(())
}

/// Connects with the private data of `row` and tries both sides of the threshold.
fn try_row(target: &SocketAddr, row: &Row, file: &str) -> Result<()> {
    let manners = Manners {
        private_data: row.private_data.to_vec(),
        // Large enough for what a server that gets the threshold wrong sends.
        receive_size: 8192,
        ..Manners::default()
    };
    let mut peer = Peer::connect(target, manners)?;
    let magic = &cm::private_data(0, 0, false)[..5];
    if !peer.private_data().starts_with(magic) {
        return Err(Error::new("the server sent no private data of version 1"));
    }
    let server = cm::Peer::parse(peer.private_data());
    let threshold = row.replies.min(server.send);
    peer.null()?;
    let below = fits(&mut peer, file, threshold - AROUND)?;
    let above = fits(&mut peer, file, threshold)?;
    println!(
        "{:<34} {threshold:>9} {:>7} {:>7}",
        row.what,
        word(below),
        word(above)
    );
    if !below || above {
        return Err(Error::new("the server uses another threshold"));
    }
    Ok(())
}

/// Names an outcome.
fn word(inline: bool) -> &'static str {
    if inline {
        "inline"
    } else {
        "refused"
    }
}

/// Says whether a READ of `count` bytes is answered inline.
fn fits(peer: &mut Peer, file: &str, count: u32) -> Result<bool> {
    let xid = peer.xid();
    let message = Message::inline(xid, rpc::read(xid, file, count));
    match peer.exchange(&message)? {
        Incoming::Answer(Answer::Reply(reply)) if reply.body.len() > count as usize => Ok(true),
        Incoming::Answer(Answer::ErrChunk { .. }) => Ok(false),
        other => Err(Error::new(format!("a READ of {count} bytes got {other:?}"))),
    }
}

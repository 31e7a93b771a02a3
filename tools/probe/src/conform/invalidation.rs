// SPDX-License-Identifier: GPL-2.0

//! Rows about replies that invalidate a handle of the client (RFC 8797, sections 3.2 and 4.1). As
//! not every device reports the invalidation, rows check for it by a write, which then fails.

use super::{
    bench::{reply_to, require, Bench},
    row::{Check, Needs, Row}, //
};
use crate::{
    compound,
    error::{Error, Result},
    ffi::{Region, Window},
    message::Message,
    peer::{Params, Peer},
};
use svcrdma_proto::{chunk::Segment, cm};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "what a reply invalidates is named in its Call",
        source: "RFC 8797, 4.1",
        needs: Needs::Window,
        check: Check::Script(|b| {
            let mut peer = able(b)?;
            let (used, other) = (window(&mut peer)?, window(&mut peer)?);
            read(&mut peer, b, used.rkey(), used.region())?;
            peer.null()?;
            // The server may have invalidated the first window.
            read(&mut peer, b, other.rkey(), other.region())
        }),
    },
    Row::file_script("RFC 8797, 4.1", "no handle is invalidated unasked", |b| {
        keeps_handle(b.peer()?, b)?;
        // Both sides must announce support.
        let peer = able(b)?;
        if cm::Peer::parse(peer.private_data()).remote_invalidation {
            Ok(())
        } else {
            keeps_handle(peer, b)
        }
    }),
];

/// The length of a READ, in bytes.
const SIZE: u32 = 8192;

/// Connects a client that announces support for remote invalidation.
fn able(bench: &Bench<'_>) -> Result<Peer> {
    let params = Params {
        private_data: cm::Peer {
            remote_invalidation: true,
            send: 4096,
            receive: 4096,
        }
        .private_data()
        .to_vec(),
        ..Params::default()
    };
    Peer::connect(&bench.target, params)
}

/// Reads twice with the same handle, which no reply may invalidate.
fn keeps_handle(mut peer: Peer, bench: &Bench<'_>) -> Result {
    let region = peer.region(SIZE as usize)?;
    // An attempt to invalidate the handle of a region would end the connection.
    let window = peer.window(SIZE as usize)?;
    let (handle, memory) = window
        .as_ref()
        .map_or((region.rkey(), &region), |w| (w.rkey(), w.region()));
    read(&mut peer, bench, handle, memory)?;
    read(&mut peer, bench, handle, memory)
}

/// Creates a memory window; the device must support them.
fn window(peer: &mut Peer) -> Result<Window> {
    let window = peer.window(SIZE as usize)?;
    window.ok_or_else(|| Error::unavailable("no memory window"))
}

/// Reads the file into `region`, with `handle` in the Write chunk.
fn read(peer: &mut Peer, bench: &Bench<'_>, handle: u32, region: &Region) -> Result {
    let xid = peer.xid();
    let mut message = Message::inline(xid, compound::read(xid, bench.file(), SIZE));
    message.writes = vec![vec![Segment {
        handle,
        length: SIZE,
        offset: region.address(),
    }]];
    let reply = reply_to(peer, &message)?;
    require(
        reply.writes == message.writes,
        format!("the Write list was returned as {:?}", reply.writes),
    )
}

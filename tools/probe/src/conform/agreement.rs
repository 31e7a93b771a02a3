// SPDX-License-Identifier: GPL-2.0

//! Rows about what both sides agree on when they connect: private data and the inline thresholds that
//! follow from it (RFC 8797), and RDMA Reads.
//!
//! The threshold for Replies shows in the answer to a READ that offers no chunk: the server answers
//! inline if the Reply fits, and with ERR_CHUNK otherwise.

use super::{
    bench::{require, Bench},
    calls::chunk,
    memory::Memory,
    row::Row, //
};
use crate::{
    compound,
    error::{Error, Result},
    message::{procedure, Answer, Message},
    peer::{Incoming, Params, Peer},
};
use svcrdma_proto::cm;

pub(super) const ROWS: &[Row] = &[
    Row::script("RFC 8797, 4", "server's private data", sent),
    Row::file_script("RFC 8797, 5.1", "no private data", |b| {
        replies(b, &[], 1024)
    }),
    Row::file_script("RFC 8797, 5.1", "short private data", |b| {
        replies(b, &[0xf6, 0xab, 0x0e, 0x18, 1, 0, 3], 1024)
    }),
    Row::file_script("RFC 8797, 5.1", "private data of another magic", |b| {
        replies(b, &[0xf6, 0xab, 0x0e, 0x19, 1, 0, 3, 3], 1024)
    }),
    Row::file_script("RFC 8797, 5.2", "private data of another version", |b| {
        replies(b, &[0xf6, 0xab, 0x0e, 0x18, 2, 0, 3, 3], 1024)?;
        replies(b, &[0xf6, 0xab, 0x0e, 0x18, 0, 0, 3, 3], 1024)
    }),
    Row::file_script(
        "RFC 8797, 4.1",
        "size for receiving counts for replies",
        |b| replies(b, &[0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 1], 2048),
    ),
    Row::file_script("RFC 8797, 4", "all flags, and more behind", |b| {
        replies(b, &[0xf6, 0xab, 0x0e, 0x18, 1, 0xfe, 3, 3, 1, 2, 3], 4096)
    }),
    Row::file_script("RFC 8797, 4.1", "all size codes", size_codes),
    Row::file_script(
        "RFC 8797, 5.2",
        "private data behind another layer's",
        |b| {
            // Private data on InfiniBand has 56 bytes.
            for before in [1, 4, 7, 9, 20, 48] {
                let data = [&[0xf6; 48][..before], &[0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3]].concat();
                replies(b, &data, 4096)
                    .map_err(|error| error.within(format_args!("behind {before} bytes")))?;
            }
            Ok(())
        },
    ),
    Row::script("RFC 8166, 3.3.2", "Call of the threshold's size", |b| {
        let (mut peer, threshold) = caller(b)?;
        match long_call(&mut peer, threshold)? {
            Incoming::Answer(Answer::Reply(_)) => peer.null().map(drop),
            other => Err(Error::new(format!("no reply but {other:?}"))),
        }
    }),
    Row::script(
        "RFC 8166, 3.3.2",
        "Call of 1024 bytes without private data",
        |b| {
            let params = Params {
                private_data: Vec::new(),
                ..Params::default()
            };
            let mut peer = Peer::connect(&b.target, params)?;
            match long_call(&mut peer, 1024)? {
                Incoming::Answer(Answer::Reply(_)) => peer.null().map(drop),
                other => Err(Error::new(format!("no reply but {other:?}"))),
            }
        },
    ),
    Row::script("RFC 8166, 3.3.2", "Call of one byte more", |b| {
        let (mut peer, threshold) = caller(b)?;
        match long_call(&mut peer, threshold + 1)? {
            // The server may also accept more than it announced.
            Incoming::Closed | Incoming::Answer(Answer::Reply(_)) => b.peer().map(drop),
            other => Err(Error::new(format!(
                "neither closed nor a reply but {other:?}"
            ))),
        }
    }),
    Row::script(
        "RFC 8166, 4.5.3",
        "client that serves no RDMA Reads",
        no_reads,
    ),
];

/// The length of a transport header without chunks, in bytes.
const HEADER: u32 = 28;

/// The sizes that this side announces in its private data.
const SIZE: u32 = 4096;

/// Checks that the server's private data is well-formed, if there is any. It may be at any offset,
/// as the private data of other layers may precede it.
fn sent(bench: &Bench<'_>) -> Result {
    let peer = bench.peer()?;
    let all = peer.private_data();
    let [magic @ .., _, _, _, _] = cm::Peer::default().private_data();
    let at = all.windows(magic.len()).position(|bytes| bytes == magic);
    let Some(said) = at.and_then(|at| all.get(at + magic.len()..)) else {
        return Err(Error::unavailable("the server sends no private data"));
    };
    // Version 1, and no flag other than the defined one.
    let is_good = matches!(said, [1, 0 | 1, _, _, ..]);
    require(is_good, format!("malformed private data {all:02x?}"))
}

/// A sample of size codes at and between the limits.
const CODES: [u8; 12] = [0, 1, 2, 3, 4, 7, 15, 63, 127, 128, 254, 255];

/// Checks that each code means (code + 1) * 1024 bytes.
fn size_codes(bench: &Bench<'_>) -> Result {
    let is_tried = |code: &u8| !bench.is_quick || CODES.contains(code);
    for code in (0..=u8::MAX).filter(is_tried) {
        let data = [0xf6, 0xab, 0x0e, 0x18, 1, 0, code, code];
        let size = (u32::from(code) + 1) * 1024;
        replies(bench, &data, size).map_err(|error| error.within(format_args!("code {code}")))?;
    }
    Ok(())
}

/// Checks that with this private data Replies of up to `size` bytes arrive inline, or up to the
/// server's own limit if that is lower, and that longer ones do not.
fn replies(bench: &Bench<'_>, private_data: &[u8], size: u32) -> Result {
    let params = Params {
        private_data: private_data.to_vec(),
        // Large enough for the Reply of a server that gets the threshold wrong.
        receive_size: 2 * size.max(SIZE) as usize,
        // One Call at a time.
        receives: 2,
        ..Params::default()
    };
    let mut peer = Peer::connect(&bench.target, params)?;
    let server = cm::Peer::parse(peer.private_data());
    let threshold = size.min(server.send);
    peer.null()?;
    // The length of the Reply without the data.
    let around = inline_reply(&mut peer, bench.file(), 4)?.map(|len| len - 4);
    let around = around.ok_or_else(|| Error::new("not even 4 bytes arrive inline"))?;
    let fits = threshold - around;
    let exact = inline_reply(&mut peer, bench.file(), fits)?;
    require(
        exact == Some(threshold),
        format!("{threshold} bytes do not arrive inline"),
    )?;
    let above = inline_reply(&mut peer, bench.file(), fits + 4)?;
    require(
        above.is_none(),
        format!("{} bytes arrive inline", threshold + 4),
    )
}

/// Makes a READ of `count` bytes. Returns the length of the Reply if it arrives inline, or `None`
/// for an ERR_CHUNK.
fn inline_reply(peer: &mut Peer, file: &str, count: u32) -> Result<Option<u32>> {
    let xid = peer.xid();
    let message = Message::inline(xid, compound::read(xid, file, count));
    match peer.exchange(&message)? {
        Incoming::Answer(Answer::Reply(reply)) if reply.body.len() > count as usize => {
            Ok(Some(HEADER + reply.body.len() as u32))
        }
        Incoming::Answer(Answer::ErrChunk { .. }) => Ok(None),
        other => Err(Error::new(format!("a READ of {count} bytes got {other:?}"))),
    }
}

/// Checks that a client that serves no RDMA Reads is served, and that a Call of its that has a Read
/// chunk gets ERR_CHUNK.
fn no_reads(bench: &Bench<'_>) -> Result {
    let params = Params {
        reads: 0,
        own_reads: 0,
        ..Params::default()
    };
    let mut peer = Peer::connect(&bench.target, params)?;
    peer.null()?;
    let xid = peer.xid();
    let mut message = Message::inline(xid, Vec::new());
    message.procedure = procedure::NOMSG;
    let call = peer.null_rpc(xid);
    let mut memory = Memory::of(&peer)?;
    let segments = memory.filled(&call, &[call.len() as u32])?;
    message.reads = chunk(0, &segments);
    match peer.exchange(&message)? {
        Incoming::Answer(Answer::ErrChunk { .. }) => peer.null().map(drop),
        other => Err(Error::new(format!("a Call in a chunk got {other:?}"))),
    }
}

/// Connects. Returns the inline threshold for Calls, too.
fn caller(bench: &Bench<'_>) -> Result<(Peer, u32)> {
    let peer = bench.peer()?;
    let server = cm::Peer::parse(peer.private_data());
    Ok((peer, server.receive.min(SIZE)))
}

/// Makes a NULL Call in a message of `size` bytes.
fn long_call(peer: &mut Peer, size: u32) -> Result<Incoming> {
    let xid = peer.xid();
    let mut bytes = Message::inline(xid, peer.null_rpc(xid)).encode();
    bytes.resize(size as usize, 0);
    peer.send_bytes(&bytes)?;
    peer.answer_to(xid)
}

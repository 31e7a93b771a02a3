// SPDX-License-Identifier: GPL-2.0

//! Rows about data that is not DDP-eligible: everything except the data of READ and WRITE and the
//! text of links (RFC 8267, sections 4 and 6.1).

use super::{
    bench::{expect_err_chunk, expect_quiet, require, Bench},
    links,
    memory::Memory,
    replies::expected,
    row::Row,
};
use crate::{
    compound::Compound,
    error::Result,
    message::{procedure, Message},
    peer::{Params, Peer},
    rpc, session,
};
use svcrdma_proto::chunk::ReadSegment;

pub(super) const ROWS: &[Row] = &[
    Row::file_script("RFC 8166, 6.1", "name of a file by Read chunk", |b| {
        removal(b, |_, inline| Ok(inline))
    }),
    Row::file_script(
        "RFC 8166, 6.1",
        "name of a file by Read chunk, beside a position-zero chunk",
        |b| {
            removal(b, |memory, inline| {
                let mut message = Message::inline(inline.xid, Vec::new());
                message.procedure = procedure::NOMSG;
                let whole = [inline.body.len() as u32];
                let zero = memory.filled(&inline.body, &whole)?.into_iter();
                let zero = zero.map(|segment| ReadSegment {
                    position: 0,
                    segment,
                });
                message.reads = zero.chain(inline.reads).collect();
                Ok(message)
            })
        },
    ),
    Row::file_script(
        "RFC 8267, 6.4.2",
        "chunks that are longer than a reply may be",
        unanswerable,
    ),
    Row::script("RFC 8166, 6.1", "file handle by Read chunk", |b| {
        let mut peer = b.peer()?;
        let mut memory = Memory::of(&peer)?;
        let xid = peer.xid();
        // GETATTR of version 3.
        let call = rpc::version_3(xid, 1).word(32);
        refused(
            &mut peer,
            &reduced(&mut memory, xid, &call.into_bytes(), &[7; 32])?,
        )
    }),
    Row::file_script(
        "RFC 8166, 6.1",
        "data of READ_PLUS stays in the reply",
        |b| {
            const COUNT: u32 = 2000;
            let mut peer = b.peer()?;
            let mut memory = Memory::of(&peer)?;
            let chunk = memory.segments(&[COUNT]);
            let reply = session::read_plus(&mut peer, b.file(), COUNT, vec![chunk])?;
            let written: Vec<u32> = reply.writes.iter().flatten().map(|s| s.length).collect();
            require(
                written == [0],
                format!("the Write chunk was filled with {written:?} bytes"),
            )?;
            let data = expected(0, COUNT as usize);
            let has_data = reply.body.windows(data.len()).any(|bytes| bytes == data);
            require(has_data, "the data is not in the reply")
        },
    ),
];

/// The name of a link; longer than any XDR padding.
const NAME: &str = "rpcrdma-probe's to remove";

/// Checks that a REMOVE whose name is in a Read chunk is refused and not executed. `form` turns the
/// RDMA_MSG into the message to send.
fn removal(bench: &Bench<'_>, form: fn(&mut Memory, Message) -> Result<Message>) -> Result {
    let mut peer = bench.peer()?;
    let mut memory = Memory::of(&peer)?;
    let folder = bench.folder();
    links::make(&mut peer, folder, NAME)?;
    let xid = peer.xid();
    let whole = Compound::at(xid, folder).remove(NAME).finish().inline;
    let (call, name) = whole.split_at(whole.len() - NAME.len().next_multiple_of(4));
    let message = reduced(&mut memory, xid, call, &name[..NAME.len()])?;
    refused(&mut peer, &form(&mut memory, message)?)?;
    let was_there = links::remove(&mut peer, folder, NAME)?;
    require(was_there, "the REMOVE was executed nevertheless")
}

/// Checks that a Call is refused before it is executed if its Write list does not fit a reply, as
/// the client accepts only 1024 bytes.
fn unanswerable(bench: &Bench<'_>) -> Result {
    const SEGMENTS: usize = 62;
    let params = Params {
        private_data: vec![0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 0],
        ..Params::default()
    };
    let folder = bench.folder();
    links::make(&mut bench.peer()?, folder, NAME)?;
    let mut peer = Peer::connect(&bench.target, params)?;
    let mut memory = Memory::of(&peer)?;
    let xid = peer.xid();
    let whole = Compound::at(xid, folder).remove(NAME).finish().inline;
    let mut message = Message::inline(xid, whole);
    message.writes = vec![memory.segments(&[4; SEGMENTS])];
    refused(&mut peer, &message)?;
    let was_there = links::remove(&mut bench.peer()?, folder, NAME)?;
    require(was_there, "the REMOVE was executed nevertheless")
}

/// Returns an RDMA_MSG of `call` followed by `item` in a Read chunk.
fn reduced(memory: &mut Memory, xid: u32, call: &[u8], item: &[u8]) -> Result<Message> {
    let mut message = Message::inline(xid, call.to_vec());
    let position = call.len() as u32;
    let segments = memory.filled(item, &[item.len() as u32])?.into_iter();
    message.reads = segments
        .map(|segment| ReadSegment { position, segment })
        .collect();
    Ok(message)
}

/// Sends `message` and checks that the only answer is ERR_CHUNK.
fn refused(peer: &mut Peer, message: &Message) -> Result {
    peer.send(message)?;
    expect_err_chunk(peer, message.xid)?;
    expect_quiet(peer)
}

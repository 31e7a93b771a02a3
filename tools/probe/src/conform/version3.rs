// SPDX-License-Identifier: GPL-2.0

//! Rows about NFS version 3, whose files are those of version 4: handles are of both, as with Linux.

use super::{
    memory::{pattern, Memory},
    row::{begin, reply_to, require, Bench, Row},
};
use crate::{
    compound::{Compound, Results},
    error::{Error, Result},
    message::{Message, Reply},
    peer::Peer,
    rpc,
    xdr::{Words, Xdr},
};
use svcrdma_proto::chunk::ReadSegment;

pub(super) const ROWS: &[Row] = &[
    Row::file_script(
        "RFC 8267, 4",
        "WRITE of version 3 by Read chunk, READ by Write chunk",
        |b| {
            let mut file = File::new(b)?;
            let data = pattern(3, SIZE as usize);
            file.write(&data)?;
            let (reply, memory) = file.read(&[&[1000, SIZE]], None)?;
            let written = reply.writes.first().map_or(&[][..], Vec::as_slice);
            require(memory.content(written)? == data, "other bytes came back")?;
            let (count, inline) = read_results(&reply.body)?;
            require(
                (count, inline.len()) == (SIZE, 0),
                format!("{count} bytes, {} of them inline", inline.len()),
            )
        },
    ),
    Row::file_script("RFC 8166, 3.5.3", "READ of version 3 by Reply chunk", |b| {
        let mut file = File::new(b)?;
        let data = pattern(4, SIZE as usize);
        file.write(&data)?;
        let (reply, memory) = file.read(&[], Some(&[1000, SIZE]))?;
        let body = memory.content(reply.reply.as_deref().unwrap_or_default())?;
        let (count, came) = read_results(&body)?;
        let pad = came.len() - came.len().min(data.len());
        require(
            count == SIZE && came.starts_with(&data) && pad < 4,
            format!("{count} bytes, {} of them in the Reply chunk", came.len()),
        )
    }),
];

/// Procedures (RFC 1813).
mod procedure {
    pub(super) const READ: u32 = 6;
    pub(super) const WRITE: u32 = 7;
}

/// A READ and a WRITE have so many bytes, which take a pad.
const SIZE: u32 = 9001;

/// Where: behind what other rows read.
const AT: u64 = 1 << 20;

/// Words of `fattr3`.
const ATTRIBUTES: usize = 21;

/// A file with its handle, and a client.
struct File {
    peer: Peer,
    handle: Vec<u8>,
}

impl File {
    fn new(bench: &Bench<'_>) -> Result<Self> {
        let mut peer = bench.peer()?;
        let xid = peer.xid();
        let call = Compound::at(xid, bench.file()).handle().finish();
        let reply = reply_to(&mut peer, &Message::inline(xid, call.inline))?;
        let handle = || {
            let mut results = Results::new(xid, &reply.body)?;
            results.at(bench.file())?;
            results.handle()
        };
        let handle = handle().ok_or_else(|| Error::new("the file has no handle"))?;
        let handle = handle.to_vec();
        Ok(Self { peer, handle })
    }

    /// The beginning of a Call: what both have.
    fn call(&self, xid: u32, procedure: u32) -> Xdr {
        rpc::version_3(xid, procedure)
            .opaque(&self.handle)
            .hyper(AT)
    }

    /// Writes `data` to the disk.
    fn write(&mut self, data: &[u8]) -> Result {
        let mut memory = Memory::of(&self.peer)?;
        let xid = self.peer.xid();
        let len = data.len() as u32;
        // FILE_SYNC.
        let call = self.call(xid, procedure::WRITE).words(&[len, 2, len]);
        let position = call.len() as u32;
        let mut message = Message::inline(xid, call.into_bytes());
        let segments = memory.filled(data, &[100, len - 100])?;
        let reads = segments.into_iter();
        message.reads = reads
            .map(|segment| ReadSegment { position, segment })
            .collect();
        let reply = reply_to(&mut self.peer, &message)?;
        let status = rpc::results(xid, &reply.body).and_then(|mut words| words.word());
        require(status == Some(0), format!("WRITE: {}", begin(&reply.body)))
    }

    /// Reads as much, into these chunks.
    fn read(&mut self, writes: &[&[u32]], reply: Option<&[u32]>) -> Result<(Reply, Memory)> {
        let mut memory = Memory::of(&self.peer)?;
        let xid = self.peer.xid();
        let call = self.call(xid, procedure::READ).word(SIZE);
        let mut message = Message::inline(xid, call.into_bytes());
        message.writes = writes.iter().map(|lens| memory.segments(lens)).collect();
        message.reply = reply.map(|lens| memory.segments(lens));
        Ok((reply_to(&mut self.peer, &message)?, memory))
    }
}

/// Returns the count in the results of a READ, and what is behind it.
fn read_results(body: &[u8]) -> Result<(u32, &[u8])> {
    let read = || {
        let xid = Words::new(body).word()?;
        let mut words = rpc::results(xid, body)?;
        let (status, has_attributes) = (words.word()?, words.word()?);
        (status == 0).then_some(())?;
        words.skip(if has_attributes == 1 { ATTRIBUTES } else { 0 })?;
        let count = words.word()?;
        // The end of the file, and the count again.
        words.skip(1)?;
        (words.word()? == count).then_some((count, words.rest()))
    };
    read().ok_or_else(|| Error::new(format!("READ: {}", begin(body))))
}

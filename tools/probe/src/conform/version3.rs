// SPDX-License-Identifier: GPL-2.0

//! Rows about NFS version 3. They use handles of version 4, which Linux accepts in version 3.

use super::{
    bench::{begin, reply_to, require, Bench},
    links,
    memory::{pattern, Memory},
    row::Row,
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
            require(
                memory.content(written)? == data,
                "wrong data in the Write chunk",
            )?;
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
    Row::file_script(
        "RFC 8267, 4",
        "link of version 3, text by Read and Write chunk",
        |b| {
            let mut peer = b.peer()?;
            let folder = handle(&mut peer, b.folder())?;
            links::remove(&mut peer, b.folder(), LINK)?;
            let link = make_link(&mut peer, &folder)?;
            let checked = check_text(&mut peer, &link);
            let removed = links::remove(&mut peer, b.folder(), LINK)?;
            checked.and(require(removed, "the link cannot be removed"))
        },
    ),
];

/// Procedure numbers (RFC 1813).
mod procedure {
    pub(super) const READLINK: u32 = 5;
    pub(super) const READ: u32 = 6;
    pub(super) const WRITE: u32 = 7;
    pub(super) const SYMLINK: u32 = 10;
}

/// The name of the link, and its text.
const LINK: &str = "rpcrdma-probe.link of version 3";
const TEXT: &[u8] = b"somewhere";
const LEN: u32 = TEXT.len() as u32;

/// NFS3ERR_STALE and NFS3ERR_BADHANDLE: the server does not know the handle.
const STALE: u32 = 70;
const BAD_HANDLE: u32 = 10001;

/// The length of a READ or WRITE, in bytes; not a multiple of 4, so that it needs padding.
const SIZE: u32 = 9001;

/// The file offset of the READ and WRITE, beyond the part that other rows read.
const AT: u64 = 1 << 20;

/// The length of `fattr3`, in words.
const ATTRIBUTES: usize = 21;

/// A client and the handle of a file.
struct File {
    peer: Peer,
    handle: Vec<u8>,
}

impl File {
    fn new(bench: &Bench<'_>) -> Result<Self> {
        let mut peer = bench.peer()?;
        let handle = handle(&mut peer, bench.file())?;
        Ok(Self { peer, handle })
    }

    /// Builds the beginning that READ and WRITE share.
    fn call(&self, xid: u32, procedure: u32) -> Xdr {
        rpc::version_3(xid, procedure)
            .opaque(&self.handle)
            .hyper(AT)
    }

    /// Makes a FILE_SYNC WRITE of `data`.
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
        results(xid, &reply.body).map(drop)
    }

    /// Reads [`SIZE`] bytes into these chunks.
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

/// Returns the handle of the file or directory `path`.
fn handle(peer: &mut Peer, path: &str) -> Result<Vec<u8>> {
    let xid = peer.xid();
    let call = Compound::at(xid, path).handle().finish();
    let reply = reply_to(peer, &Message::inline(xid, call.inline))?;
    let handle = || {
        let mut results = Results::new(xid, &reply.body)?;
        results.at(path)?;
        results.handle()
    };
    let handle = handle().ok_or_else(|| Error::new(format!("\"{path}\" has no handle")))?;
    Ok(handle.to_vec())
}

/// Creates the link in `folder` with its text in a Read chunk. Returns its handle.
fn make_link(peer: &mut Peer, folder: &[u8]) -> Result<Vec<u8>> {
    let mut memory = Memory::of(peer)?;
    let xid = peer.xid();
    let call = rpc::version_3(xid, procedure::SYMLINK)
        .opaque(folder)
        .opaque(LINK.as_bytes())
        // No attributes.
        .words(&[0; 6])
        .word(LEN);
    let position = call.len() as u32;
    let mut message = Message::inline(xid, call.into_bytes());
    let segments = memory.filled(TEXT, &[4, LEN - 4])?.into_iter();
    message.reads = segments
        .map(|segment| ReadSegment { position, segment })
        .collect();
    let reply = reply_to(peer, &message)?;
    let mut words = results(xid, &reply.body)?;
    let handle = match words.word() {
        Some(1) => words.opaque(),
        _ => None,
    };
    let handle =
        handle.ok_or_else(|| Error::unavailable("SYMLINK of version 3 returns no handle"))?;
    Ok(handle.to_vec())
}

/// Checks that a READLINK of `link` returns the text in a Write chunk.
fn check_text(peer: &mut Peer, link: &[u8]) -> Result {
    let mut memory = Memory::of(peer)?;
    let xid = peer.xid();
    let call = rpc::version_3(xid, procedure::READLINK).opaque(link);
    let mut message = Message::inline(xid, call.into_bytes());
    message.writes = vec![memory.segments(&[4, 100])];
    let reply = reply_to(peer, &message)?;
    let lengths: Vec<u32> = reply.writes.iter().flatten().map(|s| s.length).collect();
    require(
        lengths == [4, LEN - 4],
        format!("the Write chunk was returned as {lengths:?}"),
    )?;
    require(
        memory.content(&reply.writes[0])? == TEXT,
        "wrong text in the Write chunk",
    )?;
    let mut words = results(xid, &reply.body)?;
    let len = skip_attributes(&mut words).and_then(|()| words.word());
    require(
        len == Some(LEN) && words.rest().is_empty(),
        format!("READLINK: {}", begin(&reply.body)),
    )
}

/// Returns the results in the reply to the Call `xid` behind their status, which must be
/// successful.
fn results(xid: u32, body: &[u8]) -> Result<Words<'_>> {
    rpc::has_version_3(xid, body)?;
    let mut words = rpc::results(xid, body)
        .ok_or_else(|| Error::new(format!("no results: {}", begin(body))))?;
    match words.word() {
        Some(0) => Ok(words),
        Some(STALE | BAD_HANDLE) => Err(Error::unavailable(
            "handles of version 4 are unknown in version 3",
        )),
        status => Err(Error::new(format!("status {status:?}: {}", begin(body)))),
    }
}

/// Takes the attributes, if they are present.
fn skip_attributes(words: &mut Words<'_>) -> Option<()> {
    let count = match words.word()? {
        1 => ATTRIBUTES,
        _ => 0,
    };
    words.skip(count)
}

/// Returns the count in the results of a READ and the data behind it.
fn read_results(body: &[u8]) -> Result<(u32, &[u8])> {
    let xid = Words::new(body).word().unwrap_or_default();
    let mut words = results(xid, body)?;
    let mut read = || {
        skip_attributes(&mut words)?;
        let count = words.word()?;
        // The end-of-file flag; the length of the data follows.
        words.skip(1)?;
        (words.word()? == count).then_some((count, words.rest()))
    };
    read().ok_or_else(|| Error::new(format!("READ: {}", begin(body))))
}

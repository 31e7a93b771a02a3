// SPDX-License-Identifier: GPL-2.0

//! Rows about symbolic links, whose text may be in chunks like the data of files.

use super::{
    memory::Memory,
    replies::{reduced, Tried, PAGE},
    row::{begin, reply_to, require, Bench, Row},
};
use crate::{
    compound::{components, operation, Compound, Results},
    error::Result,
    message::Message,
    peer::Peer,
};

pub(super) const ROWS: &[Row] = &[
    Row::file_script(
        "RFC 8267, 6.1",
        "link's text by Read and Write chunk",
        |b| {
            with_link(b, || {
                let tried = Tried::new(b, &[&[5, 100]], None, |c| {
                    c.root().lookup(NAME).readlink().root().lookup(b.file())
                })?;
                tried.written(&[&[5, 4]])?;
                tried.holds_bytes(0, TEXT)?;
                tried.results(|r| {
                    r.at(NAME)?;
                    (r.link_elsewhere()? == LEN).then_some(())?;
                    r.at(b.file())
                })
            })
        },
    ),
    Row::file_script("RFC 8267, 6.4.1", "READ, READLINK and READ in one", |b| {
        with_link(b, || {
            let first = PAGE - words_between(b.file()) * 4;
            let tried = Tried::new(b, &[&[5000], &[100], &[2000, 9000]], None, |c| {
                let c = c.read(0, first).root().lookup(NAME).readlink();
                c.root().lookup(b.file()).read(4096, 5002)
            })?;
            tried.written(&[&[first], &[LEN], &[2000, 3002]])?;
            tried.results(|r| {
                let mut lengths = [r.read_elsewhere()?, 0, 0];
                r.at(NAME)?;
                lengths[1] = r.link_elsewhere()?;
                r.at(b.file())?;
                lengths[2] = r.read_elsewhere()?;
                (lengths == [first, LEN, 5002]).then_some(())
            })?;
            tried.holds(0, 0, first as usize)?;
            tried.holds_bytes(1, TEXT)?;
            tried.holds(2, 4096, 5002)
        })
    }),
];

const NAME: &str = "rpcrdma-probe.link";

const TEXT: &[u8] = b"somewhere";
const LEN: u32 = TEXT.len() as u32;

/// Words of results from one READ of the file to the next one, with a READLINK between: PUTROOTFH,
/// LOOKUP, READLINK with its text, PUTROOTFH and the LOOKUPs of the file.
fn words_between(file: &str) -> u32 {
    2 + 2 + (3 + LEN.div_ceil(4)) + 2 + 2 * components(file).count() as u32
}

/// Makes the link, whose text goes by Read chunk; removes it after `check`.
fn with_link(bench: &Bench<'_>, check: impl FnOnce() -> Result) -> Result {
    let mut peer = bench.peer()?;
    // What an earlier run has left.
    remove(&mut peer)?;
    let mut memory = Memory::of(&peer)?;
    let xid = peer.xid();
    let call = Compound::at_root(xid).create_link(NAME, LEN);
    let message = reduced(xid, call.finish(), &memory.filled(TEXT, &[4, 5])?);
    let reply = reply_to(&mut peer, &message)?;
    let made = || {
        let mut results = Results::new(xid, &reply.body)?;
        results.at("")?;
        results.good(operation::CREATE)
    };
    require(made().is_some(), format!("CREATE: {}", begin(&reply.body)))?;
    let checked = check();
    let removed = require(remove(&mut peer)?, "the link cannot be removed");
    checked.and(removed)
}

/// Removes the link; whether there was one.
fn remove(peer: &mut Peer) -> Result<bool> {
    let xid = peer.xid();
    let call = Compound::at_root(xid).remove(NAME).finish();
    let reply = reply_to(peer, &Message::inline(xid, call.inline))?;
    let removed = || {
        let mut results = Results::new(xid, &reply.body)?;
        results.at("")?;
        results.good(operation::REMOVE)
    };
    Ok(removed().is_some())
}

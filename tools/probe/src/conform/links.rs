// SPDX-License-Identifier: GPL-2.0

//! Rows about symbolic links, whose text may be in chunks like file data.

use super::{
    bench::{begin, reply_to, require, Bench},
    memory::Memory,
    replies::{reduced, PAGE},
    row::Row,
    tried::Tried,
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
            with_link(b, |link| {
                let tried = Tried::new(b, &[&[5, 100]], None, |c| {
                    c.root().lookup(link).readlink().root().lookup(b.file())
                })?;
                tried.written(&[&[5, 4]])?;
                tried.holds_bytes(0, TEXT)?;
                tried.results(|r| {
                    r.at(link)?;
                    r.link_elsewhere(LEN)?;
                    r.at(b.file())
                })
            })
        },
    ),
    Row::file_script("RFC 8267, 6.4.1", "READ, READLINK and READ in one", |b| {
        with_link(b, |link| {
            let first = PAGE - words_between(link, b.file()) * 4;
            let tried = Tried::new(b, &[&[5000], &[100], &[2000, 9000]], None, |c| {
                let c = c.read(0, first).root().lookup(link).readlink();
                c.root().lookup(b.file()).read(4096, 5002)
            })?;
            tried.written(&[&[first], &[LEN], &[2000, 3002]])?;
            tried.results(|r| {
                r.read_elsewhere(first)?;
                r.at(link)?;
                r.link_elsewhere(LEN)?;
                r.at(b.file())?;
                r.read_elsewhere(5002)
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

/// Returns the number of words between the results of two READs of `file`, with a READLINK of
/// `link` and the lookups of both between them.
fn words_between(link: &str, file: &str) -> u32 {
    let lookups = components(link).chain(components(file)).count() as u32;
    let roots = 2;
    2 * (roots + lookups) + 3 + LEN.div_ceil(4)
}

/// Creates the link, passes its path to `check`, and removes it.
fn with_link(bench: &Bench<'_>, check: impl FnOnce(&str) -> Result) -> Result {
    let folder = bench.folder();
    let mut peer = bench.peer()?;
    make(&mut peer, folder, NAME)?;
    let checked = check(&format!("{folder}/{NAME}"));
    let removed = require(
        remove(&mut peer, folder, NAME)?,
        "the link cannot be removed",
    );
    checked.and(removed)
}

/// Creates the link `name` in `folder`, with its text in a Read chunk.
pub(super) fn make(peer: &mut Peer, folder: &str, name: &str) -> Result {
    // An earlier run may have left it.
    remove(peer, folder, name)?;
    let mut memory = Memory::of(peer)?;
    let xid = peer.xid();
    let call = Compound::at(xid, folder).create_link(name, LEN);
    let message = reduced(xid, call.finish(), &memory.filled(TEXT, &[4, LEN - 4])?);
    let reply = reply_to(peer, &message)?;
    let made = || {
        let mut results = Results::new(xid, &reply.body)?;
        results.at(folder)?;
        results.good(operation::CREATE)
    };
    require(made().is_some(), format!("CREATE: {}", begin(&reply.body)))
}

/// Removes the link `name` from `folder`. Returns true if it existed.
pub(super) fn remove(peer: &mut Peer, folder: &str, name: &str) -> Result<bool> {
    let xid = peer.xid();
    let call = Compound::at(xid, folder).remove(name).finish();
    let reply = reply_to(peer, &Message::inline(xid, call.inline))?;
    let removed = || {
        let mut results = Results::new(xid, &reply.body)?;
        results.at(folder)?;
        results.good(operation::REMOVE)
    };
    Ok(removed().is_some())
}

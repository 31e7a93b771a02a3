// SPDX-License-Identifier: GPL-2.0

//! Rows about Write chunks and Reply chunks: data must arrive in the client's chunks, and the
//! returned lists must report its length.

use super::{
    bench::{begin, reply_to, require},
    memory::{pattern, Memory},
    row::Row,
    tried::Tried,
};
use crate::{
    compound::{operation, Call, Compound, Results},
    error::{Error, Result},
    message::Message,
    peer::Peer,
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

pub(super) const ROWS: &[Row] = &[
    Row::file_script("RFC 8166, 3.4.6", "Write chunk filled in order", |b| {
        let tried = Tried::new(b, &[&[1000, 4096, 100_000]], None, |c| c.read(0, 60_000))?;
        tried.written(&[&[1000, 4096, 54_904]])?;
        tried.results(|r| r.read_elsewhere(60_000))?;
        tried.holds(0, 0, 60_000)
    }),
    Row::file_script("RFC 8166, 3.4.6", "Write chunk just large enough", |b| {
        let tried = Tried::new(b, &[&[4000, 5001]], None, |c| c.read(1, 9001))?;
        tried.written(&[&[4000, 5001]])?;
        tried.results(|r| r.read_elsewhere(9001))?;
        tried.holds(0, 1, 9001)
    }),
    Row::file_script("RFC 8166, 3.4.4", "empty segments in a Write chunk", |b| {
        let tried = Tried::new(b, &[&[0, 1000, 0, 9000]], None, |c| c.read(0, 5000))?;
        tried.written(&[&[0, 1000, 0, 4000]])?;
        tried.results(|r| r.read_elsewhere(5000))?;
        tried.holds(0, 0, 5000)
    }),
    Row::file_script("RFC 8166, 3.4.6", "Write chunk of many segments", |b| {
        let tried = Tried::new(b, &[&[4096; 16]], None, |c| c.read(0, 65_536))?;
        tried.written(&[&[4096; 16]])?;
        tried.results(|r| r.read_elsewhere(65_536))?;
        tried.holds(0, 0, 65_536)
    }),
    Row::file_script("RFC 8267, 6.4.1", "Write chunk for each READ", |b| {
        let tried = Tried::new(b, &[&[5000], &[2000, 9000]], None, |c| {
            c.read(0, PAGE).read(4096, 5002)
        })?;
        tried.written(&[&[PAGE], &[2000, 3002]])?;
        tried.results(|r| {
            r.read_elsewhere(PAGE)?;
            r.read_elsewhere(5002)
        })?;
        tried.holds(0, 0, PAGE as usize)?;
        tried.holds(1, 4096, 5002)
    }),
    Row::file_script("RFC 8267, 6.4.1", "more READs than Write chunks", |b| {
        let tried = Tried::new(b, &[&[5000]], None, |c| c.read(0, PAGE).read(4096, 501))?;
        tried.written(&[&[PAGE]])?;
        let data = expected(4096, 501);
        tried.results(|r| {
            r.read_elsewhere(PAGE)?;
            (r.read()? == data).then_some(())
        })?;
        tried.holds(0, 0, PAGE as usize)
    }),
    Row::file_script("RFC 8267, 6.4.1", "17 READs, 16 Write chunks", |b| {
        let chunks = [&[PAGE][..]; 16];
        let reads = |c| {
            (0..16)
                .fold(c, |c: Compound, _| c.read(0, PAGE))
                .read(4096, 501)
        };
        let tried = Tried::new(b, &chunks, None, reads)?;
        tried.written(&chunks)?;
        let data = expected(4096, 501);
        tried.results(|r| {
            for _ in 0..16 {
                r.read_elsewhere(PAGE)?;
            }
            (r.read()? == data).then_some(())
        })?;
        (0..16).try_for_each(|nth| tried.holds(nth, 0, PAGE as usize))
    }),
    Row::file_script("RFC 8166, 4.3.2", "more Write chunks than READs", |b| {
        let tried = Tried::new(b, &[&[4000], &[10, 20], &[30]], None, |c| c.read(0, 3000))?;
        tried.written(&[&[3000], &[0, 0], &[0]])?;
        tried.results(|r| r.read_elsewhere(3000))?;
        tried.holds(0, 0, 3000)
    }),
    Row::file_script(
        "RFC 8267, 6.4.1",
        "empty Write chunk asks for inline data",
        |b| {
            let tried = Tried::new(b, &[&[], &[100]], None, |c| c.read(0, 501))?;
            tried.written(&[&[], &[0]])?;
            let data = expected(0, 501);
            tried.results(|r| (r.read()? == data).then_some(()))
        },
    ),
    Row::file_script(
        "RFC 8267, 6.4.1",
        "empty Write chunk for the second READ",
        |b| {
            let tried = Tried::new(b, &[&[5000], &[]], None, |c| {
                c.read(0, PAGE).read(4096, 501)
            })?;
            tried.written(&[&[PAGE], &[]])?;
            let data = expected(4096, 501);
            tried.results(|r| {
                r.read_elsewhere(PAGE)?;
                (r.read()? == data).then_some(())
            })?;
            tried.holds(0, 0, PAGE as usize)
        },
    ),
    Row::file_script(
        "RFC 8267, 6.4.1",
        "READ of no bytes has its Write chunk",
        |b| {
            let tried = Tried::new(b, &[&[4000], &[4000]], None, |c| {
                c.read(1 << 40, 100).read(0, 3000)
            })?;
            tried.written(&[&[0], &[3000]])?;
            tried.results(|r| {
                (r.read()?.is_empty()).then_some(())?;
                r.read_elsewhere(3000)
            })?;
            tried.holds(1, 0, 3000)
        },
    ),
    Row::file_script("RFC 8267, 6.4.1", "READ that fails", |b| {
        let tried = Tried::new(b, &[&[4000]], None, |c| c.root().read(0, 100))?;
        // RFC 8267 requires an empty chunk; RFC 8166, section 3.4.6, requires the original chunk,
        // unused.
        tried
            .written(&[&[0]])
            .or_else(|_| tried.has_empty_write_chunk())?;
        tried.results(|r| {
            r.good(operation::PUTROOTFH)?;
            (r.status(operation::READ)? != 0).then_some(())
        })
    }),
    Row::file_script(
        "RFC 8166, 4.3.2",
        "Write list for a Call without data",
        |b| {
            let tried = Tried::new(b, &[&[100, 200], &[300]], None, |c| c)?;
            tried.written(&[&[0, 0], &[0]])?;
            tried.results(|_| Some(()))
        },
    ),
    Row::file_script("RFC 8166, 3.5.3", "Reply chunk filled in order", |b| {
        let tried = Tried::new(b, &[], Some(&[30_000, 0, 40_000]), |c| c.read(0, 60_000))?;
        let body = tried.reply_chunk()?;
        let data = expected(0, 60_000);
        tried.results_in(&body, |r| (r.read()? == data).then_some(()))
    }),
    Row::file_script(
        "RFC 8166, 3.5.3",
        "data with a pad in the Reply chunk",
        |b| {
            let tried = Tried::new(b, &[], Some(&[9001, 100]), |c| c.read(0, 8999))?;
            let body = tried.reply_chunk()?;
            let data = expected(0, 8999);
            tried.results_in(&body, |r| (r.read()? == data).then_some(()))
        },
    ),
    Row::file_script("RFC 8166, 3.5.3", "Reply chunk of two segments", |b| {
        let tried = Tried::new(b, &[], Some(&[60_000, 10_000]), |c| c.read(0, 65_536))?;
        let body = tried.reply_chunk()?;
        let data = expected(0, 65_536);
        tried.results_in(&body, |r| (r.read()? == data).then_some(()))
    }),
    Row::file_script(
        "RFC 8166, 3.4.6",
        "Write chunk and unused Reply chunk",
        |b| {
            let tried = Tried::new(b, &[&[65_536]], Some(&[65_536]), |c| c.read(0, 65_536))?;
            tried.written(&[&[65_536]])?;
            tried.reply_chunk_is_unused()?;
            tried.results(|r| r.read_elsewhere(65_536))?;
            tried.holds(0, 0, 65_536)
        },
    ),
    Row::file_script("RFC 8166, 3.5.3", "Write list and Reply chunk", |b| {
        let tried = Tried::new(b, &[&[5000]], Some(&[9000]), |c| {
            c.read(0, PAGE).read(4096, 5002)
        })?;
        tried.written(&[&[PAGE]])?;
        tried.holds(0, 0, PAGE as usize)?;
        let body = tried.reply_chunk()?;
        let data = expected(4096, 5002);
        tried.results_in(&body, |r| {
            r.read_elsewhere(PAGE)?;
            (r.read()? == data).then_some(())
        })
    }),
    Row::file_script("RFC 8166, 3.5.1", "Reply chunk that is not needed", |b| {
        let tried = Tried::new(b, &[], Some(&[9000]), |c| c.read(0, 501))?;
        let data = expected(0, 501);
        tried.reply_chunk_is_unused()?;
        tried.results(|r| (r.read()? == data).then_some(()))
    }),
];

/// The length of a first READ such that the data of a second one starts on a page boundary of the
/// reply, 16 bytes further. For other lengths Linux's nfsd returns wrong data, over any transport.
pub(super) const PAGE: u32 = 4096 - 16;

/// The number of bytes at the beginning of the file with known content.
const KNOWN: usize = 64 << 10;

/// The minimum length of the file: that of the longest message that a server may send.
const LENGTH: u64 = 256 << 10;

/// The seed of the known content.
const SEED: u32 = 8166;

/// Returns the known content of the file at `offset`.
pub(super) fn expected(offset: usize, len: usize) -> Vec<u8> {
    pattern(SEED, KNOWN)[offset..offset + len].to_vec()
}

/// Writes the [`expected`] content to the beginning of `file` and extends it to [`LENGTH`] bytes.
pub(super) fn fill_file(peer: &mut Peer, file: &str) -> Result {
    fill(peer, file, 0, &expected(0, KNOWN))?;
    fill(peer, file, LENGTH - 4, &[0; 4])
}

/// Writes `data` to `file` at `offset`.
fn fill(peer: &mut Peer, file: &str, offset: u64, data: &[u8]) -> Result {
    let mut memory = Memory::of(peer)?;
    let xid = peer.xid();
    let len = data.len() as u32;
    let call = Compound::at(xid, file).write(offset, len).finish();
    let message = reduced(xid, call, &memory.filled(data, &[len])?);
    let reply = reply_to(peer, &message)?;
    let mut results = Results::new(xid, &reply.body)
        .ok_or_else(|| Error::new(format!("no results but {}", begin(&reply.body))))?;
    match results.last_status() {
        0 => require(
            results.at(file).and_then(|()| results.write()) == Some(len),
            format!("{file} was not written in full"),
        ),
        status => Err(Error::unavailable(format!(
            "{file} cannot be written: NFS status {status}"
        ))),
    }
}

/// Returns `call` with `segments` as its first Read chunk.
pub(super) fn reduced(xid: u32, call: Call, segments: &[Segment]) -> Message {
    let mut message = Message::inline(xid, call.inline);
    let position = call.positions.first().copied().unwrap_or_default();
    message.reads = segments
        .iter()
        .map(|&segment| ReadSegment { position, segment })
        .collect();
    message
}

// SPDX-License-Identifier: GPL-2.0

//! Rows about Read chunks: their contents must reach their places in the Call.

use super::{
    bench::{begin, expect_quiet, reply_to, require, Bench},
    headers::OTHER_XID,
    memory::{pattern, Memory},
    messages::{LENGTH, MISFIT},
    props::Props,
    row::{Check, Needs, Row},
    seen::{self, Seen},
};
use crate::{
    compound::{Call, Compound, Results},
    error::{Error, Result},
    message::{procedure, Answer, Message},
    peer::{Incoming, Peer},
    rpc,
    xdr::Xdr,
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

pub(super) const ROWS: &[Row] = &[
    Row::file_script("RFC 8166, 3.4.5", "Read chunks in descending order", |b| {
        write(b, &[1000, 777], &[], |segments| segments.reverse())
    }),
    Row::file_script("RFC 8166, 3.4.5", "Read chunks interleaved", |b| {
        write(b, &[1200, 900], &[&[500, 700], &[400, 500]], |segments| {
            segments.swap(1, 2);
        })
    }),
    Row::file_script("RFC 8166, 3.4.5.2", "Read chunks without pads", |b| {
        write(b, &[1, 2, 3, 5, 2001], &[], |_| ())
    }),
    Row::file_script("RFC 8166, 3.4.5.2", "Read chunks with pads", |b| {
        write(b, &[5, 2001], &[&[8], &[2004]], |_| ())
    }),
    Row::file_script("RFC 8166, 3.4.5", "Read chunk of two segments", |b| {
        write(b, &[64], &[&[40, 24]], |_| ())
    }),
    Row::file_script("RFC 8166, 3.4.4", "empty segments among others", |b| {
        write(b, &[777], &[&[0, 300, 0, 0, 477, 0]], |_| ())
    }),
    Row::file_script("RFC 8166, 3.4.4", "empty Read chunk", |b| {
        write(b, &[0, 100, 0], &[&[0], &[100], &[0, 0]], |_| ())
    }),
    Row::file_script("RFC 8166, 3.4.4", "Read chunk of 128 segments", |b| {
        write(b, &[12_800], &[&[100; 128]], |_| ())
    }),
    Row::file_script("RFC 8267, 6.4.2", "Read list of 40 chunks", |b| {
        written_or_refused(write(b, &[100; 40], &[], |_| ()))
    }),
    Row::file_script(
        "RFC 8267, 6.4.2",
        "8 Read chunks in descending order",
        |b| written_or_refused(write(b, &[100; 8], &[], |segments| segments.reverse())),
    ),
    Row::file_script(
        "RFC 8267, 6.4.2",
        "40 Read chunks in descending order",
        |b| written_or_refused(write(b, &[100; 40], &[], |segments| segments.reverse())),
    ),
    Row::file_script("RFC 8166, 3.4.5", "Read chunk of 256 KiB", |b| {
        write(b, &[256 << 10], &[&[1, 4095, 100_001, 158_047]], |_| ())
    }),
    Row::file_script("RFC 8166, 3.5.3", "position-zero chunk", |b| {
        position_zero(b, &[], &[64, 4, 2000])
    }),
    Row::file_script("RFC 8166, 3.5.3", "position-zero chunk and others", |b| {
        position_zero(b, &[1001, 600], &[64, 4, 2000])
    }),
    Row {
        name: "position-zero chunk in an RDMA_MSG",
        source: "RFC 8166, 3.5.3",
        needs: Needs::Nothing,
        check: Check::Answer(&[Seen::ErrChunk], |p| {
            let mut message = Message::inline(p.xid, p.null(p.xid));
            message.reads = chunk(0, &[p.segment(40)]);
            message.encode()
        }),
    },
    Row::choice(
        "RFC 8166, 4.5.2",
        "position-zero chunk with another XID",
        |b| in_chunk(b, OTHER_XID, |peer, xid| peer.null_rpc(xid ^ 1)),
    ),
    Row::script("RFC 8166, 4.5.2", "position-zero chunk with a reply", |b| {
        for direction in [1, 2, u32::MAX] {
            in_chunk(b, &[Seen::ErrChunk], |_, xid| {
                Xdr::new().words(&[xid, direction, 0, 0, 0, 0]).into_bytes()
            })?;
        }
        Ok(())
    }),
    Row::file_script(
        "RFC 8267, 6.4.2",
        "16 segments in each chunk",
        sixteen_segments,
    ),
    Row::script("RFC 8166, 4.5.2", "arguments that mean nothing", |b| {
        // GETATTR without a file handle: GARBAGE_ARGS.
        fails(b, 1, 4)
    }),
    Row::script("RFC 8166, 4.5.2", "procedure that there is not", |b| {
        // PROC_UNAVAIL.
        fails(b, 4711, 3)
    }),
    Row::script("RFC 8166, 3.4.5", "positions not multiples of 4", |b| {
        refused(b, &[Seen::ErrChunk], &[(-3, 64)])?;
        refused(b, &[Seen::ErrChunk], &[(-1, 64)])?;
        refused(b, &[Seen::ErrChunk], &[(1, 64)]).map(drop)
    }),
    Row::choice(
        "RFC 8166, 3.4.5",
        "position one word beyond the Call",
        |b| refused(b, MISFIT, &[(4, 64)]),
    ),
    Row::choice(
        "RFC 8166, 3.4.5",
        "Read chunks that touch, out of place",
        |b| refused(b, MISFIT, &[(-8, 12), (0, 64)]),
    ),
    Row::choice(
        "RFC 8166, 3.4.4",
        "segments of 2^32 bytes and more in all",
        |b| {
            refused(b, LENGTH, &[(0, u32::MAX), (0, 1)])?;
            refused(b, LENGTH, &[(0, 1 << 31); 2])?;
            refused(b, LENGTH, &[(0, u32::MAX); 3])
        },
    ),
    Row {
        name: "Read chunk longer than its memory",
        source: "RFC 8166, 4.5.3",
        needs: Needs::Nothing,
        check: Check::Answer(&[Seen::Closed], |p| p.beyond_memory()),
    },
    Row {
        name: "Call as long as the server takes",
        source: "RFC 8166, 3.4.4",
        needs: Needs::CallLimit,
        check: Check::Script(|b| match long_null(b, 0)? {
            Incoming::Answer(Answer::Reply(_)) => Ok(()),
            other => Err(Error::new(format!("no reply but {other:?}"))),
        }),
    },
    Row {
        name: "Call one word longer",
        source: "RFC 8166, 3.4.4",
        needs: Needs::CallLimit,
        check: Check::Script(|b| match long_null(b, 4)? {
            Incoming::Answer(Answer::ErrChunk { .. }) => Ok(()),
            other => Err(Error::new(format!("not ERR_CHUNK but {other:?}"))),
        }),
    },
];

/// The file offset of writes, beyond the part that other rows read.
const AT: u64 = 1 << 20;

/// Makes a COMPOUND that writes pieces of the lengths `lens` one behind the other, and reads them
/// back. Each piece is in a Read chunk of one segment, or of the segments in `cuts`. `order`
/// rearranges the Read list.
fn write(
    bench: &Bench<'_>,
    lens: &[u32],
    cuts: &[&[u32]],
    order: fn(&mut Vec<ReadSegment>),
) -> Result {
    let mut peer = bench.peer()?;
    let mut memory = Memory::of(&peer)?;
    let xid = peer.xid();
    let (call, data) = write_call(bench, xid, lens);
    let mut message = Message::inline(xid, call.inline);
    for (nth, (position, data)) in call.positions.iter().zip(&data).enumerate() {
        let whole = [data.len() as u32];
        let segments = memory.filled(data, cuts.get(nth).unwrap_or(&&whole[..]))?;
        message.reads.extend(chunk(*position, &segments));
    }
    order(&mut message.reads);
    let reply = reply_to(&mut peer, &message)?;
    check_written(bench, xid, &reply.body, lens)?;
    check_file(bench, &mut peer, &data.concat())
}

/// Accepts that the server supports fewer chunks, if it answers accordingly.
fn written_or_refused(written: Result) -> Result {
    match written {
        Err(error) if error.is_declined() => Ok(()),
        written => written,
    }
}

/// As [`write`], with the Call itself in a position-zero Read chunk. Its segments have the lengths
/// in `cut`, and a last one takes the rest. Without pieces the Call is a GETATTR.
fn position_zero(bench: &Bench<'_>, lens: &[u32], cut: &[u32]) -> Result {
    let mut peer = bench.peer()?;
    let mut memory = Memory::of(&peer)?;
    let xid = peer.xid();
    let (call, data) = write_call(bench, xid, lens);
    let mut message = Message::inline(xid, Vec::new());
    message.procedure = procedure::NOMSG;
    let mut rest = call.inline.len() as u32;
    let mut lengths: Vec<u32> = cut.iter().map(|&len| take(&mut rest, len)).collect();
    lengths.push(rest);
    message.reads = chunk(0, &memory.filled(&call.inline, &lengths)?);
    for (position, data) in call.positions.iter().zip(&data) {
        let segments = memory.filled(data, &[data.len() as u32])?;
        message.reads.extend(chunk(*position, &segments));
    }
    let reply = reply_to(&mut peer, &message)?;
    check_written(bench, xid, &reply.body, lens)?;
    check_file(bench, &mut peer, &data.concat())
}

/// Sends this RPC message in a position-zero Read chunk and checks that the server's reaction is
/// one of `want`. Returns the reaction.
fn in_chunk(
    bench: &Bench<'_>,
    want: &[Seen],
    body: impl Fn(&Peer, u32) -> Vec<u8>,
) -> Result<Seen> {
    let mut peer = bench.peer()?;
    let mut memory = Memory::of(&peer)?;
    let xid = peer.xid();
    let body = body(&peer, xid);
    let mut message = Message::inline(xid, Vec::new());
    message.procedure = procedure::NOMSG;
    message.reads = chunk(0, &memory.filled(&body, &[2, body.len() as u32 - 2])?);
    seen::send(&mut peer, &message.encode(), want)
}

/// Makes a Call with a WRITE and a READ that has all kinds of chunks, each of 16 segments, which
/// every server must accept.
fn sixteen_segments(bench: &Bench<'_>) -> Result {
    const PIECE: u32 = 100;
    let mut peer = bench.peer()?;
    let mut memory = Memory::of(&peer)?;
    let xid = peer.xid();
    let data = pattern(xid, 16 * PIECE as usize);
    let call = Compound::at(xid, bench.file())
        .write(AT, 16 * PIECE)
        .read(AT, 16 * PIECE)
        .getattr()
        .finish();
    let mut cut = [4; 16];
    cut[15] = call.inline.len() as u32 - 15 * 4;
    let mut message = Message::inline(xid, Vec::new());
    message.procedure = procedure::NOMSG;
    message.reads = chunk(0, &memory.filled(&call.inline, &cut)?);
    let position = call.positions.first().copied().unwrap_or_default();
    message
        .reads
        .extend(chunk(position, &memory.filled(&data, &[PIECE; 16])?));
    message.writes = vec![memory.segments(&[PIECE; 16])];
    message.reply = Some(memory.segments(&[PIECE; 16]));
    let reply = reply_to(&mut peer, &message)?;
    require(
        reply.writes == message.writes,
        format!(
            "the Write list is not full, results: {}",
            begin(&reply.body)
        ),
    )?;
    require(
        memory.content(&message.writes[0])? == data,
        "wrong data in the Write chunk",
    )?;
    let understood = || {
        let mut results = Results::new(xid, &reply.body)?;
        results.at(bench.file())?;
        results.write()?;
        results.read_elsewhere(16 * PIECE)?;
        results.end()
    };
    require(
        understood().is_some(),
        format!("wrong results: {}", begin(&reply.body)),
    )
}

/// Makes a Call of `procedure` of NFS version 3 without arguments and with chunks that no result
/// uses. Checks that RPC itself answers with `status` in an RDMA_MSG.
fn fails(bench: &Bench<'_>, procedure: u32, status: u32) -> Result {
    let mut peer = bench.peer()?;
    let mut memory = Memory::of(&peer)?;
    let xid = peer.xid();
    let mut message = Message::inline(xid, rpc::version_3(xid, procedure).into_bytes());
    message.writes = vec![memory.segments(&[100, 200])];
    message.reply = Some(memory.segments(&[1000]));
    let reply = reply_to(&mut peer, &message)?;
    rpc::has_version_3(xid, &reply.body)?;
    let found = rpc::accepted(xid, &reply.body).map(|(status, _)| status);
    require(
        reply.procedure == procedure::MSG && found == Some(status),
        format!("not status {status} but {}", begin(&reply.body)),
    )?;
    let back = reply.writes.iter().chain(&reply.reply).flatten();
    let lengths: Vec<u32> = back.map(|segment| segment.length).collect();
    require(
        lengths == [0; 3],
        format!("chunks were returned as {lengths:?}"),
    )?;
    expect_quiet(&mut peer)
}

/// Subtracts up to `len` from `rest`. Returns the part that was subtracted.
fn take(rest: &mut u32, len: u32) -> u32 {
    let taken = len.min(*rest);
    *rest -= taken;
    taken
}

/// Returns a COMPOUND that writes pieces of these lengths, and the pieces.
fn write_call(bench: &Bench<'_>, xid: u32, lens: &[u32]) -> (Call, Vec<Vec<u8>>) {
    let mut compound = Compound::at(xid, bench.file());
    let mut data = Vec::new();
    let mut at = AT;
    for (nth, &len) in (1..).zip(lens) {
        compound = compound.write(at, len);
        data.push(pattern(xid ^ nth, len as usize));
        at += u64::from(len);
    }
    (compound.getattr().finish(), data)
}

/// Checks that the results report writes of these lengths.
fn check_written(bench: &Bench<'_>, xid: u32, body: &[u8], lens: &[u32]) -> Result {
    let written = || {
        let mut results = Results::new(xid, body)?;
        results.at(bench.file())?;
        let written = lens.iter().map(|_| results.write());
        let written = written.collect::<Option<Vec<_>>>()?;
        results.end()?;
        Some(written)
    };
    require(
        written().as_deref() == Some(lens),
        format!("wrong results: {}", begin(body)),
    )
}

/// Checks that the file holds `data`.
fn check_file(bench: &Bench<'_>, peer: &mut Peer, data: &[u8]) -> Result {
    if data.is_empty() {
        return Ok(());
    }
    let mut memory = Memory::of(peer)?;
    let xid = peer.xid();
    let len = data.len() as u32;
    let call = Compound::at(xid, bench.file()).read(AT, len).finish();
    let mut message = Message::inline(xid, call.inline);
    message.writes = vec![memory.segments(&[len])];
    let reply = reply_to(peer, &message)?;
    let written = reply.writes.first().map_or(&[][..], Vec::as_slice);
    require(memory.content(written)? == data, "wrong data in the file")
}

/// Returns a Read chunk of these segments.
pub(super) fn chunk(position: u32, segments: &[Segment]) -> Vec<ReadSegment> {
    segments
        .iter()
        .map(|&segment| ReadSegment { position, segment })
        .collect()
}

/// Sends a WRITE of 64 bytes with Read segments of these positions, relative to that of its data,
/// and these lengths. Checks that the server's reaction is one of `want` and returns it.
fn refused(bench: &Bench<'_>, want: &[Seen], segments: &[(i64, u32)]) -> Result<Seen> {
    let mut peer = bench.peer()?;
    let memory = peer.region(4096)?;
    let xid = peer.xid();
    let props = Props {
        peer: &peer,
        xid,
        memory: &memory,
        file: bench.file(),
    };
    let bytes = props.write(64, segments);
    seen::send(&mut peer, &bytes, want).map_err(|error| error.within(format_args!("{segments:?}")))
}

/// Makes a NULL Call that is `more` bytes longer than the limit. Returns the answer.
fn long_null(bench: &Bench<'_>, more: u32) -> Result<Incoming> {
    let mut peer = bench.peer()?;
    let xid = peer.xid();
    let len = bench.call_limit.unwrap_or_default() + more;
    // The server ignores what follows the Call.
    let region = peer.region(len as usize)?;
    region.write(0, &peer.null_rpc(xid))?;
    let mut message = Message::inline(xid, Vec::new());
    message.procedure = procedure::NOMSG;
    let segment = Segment {
        handle: region.rkey(),
        length: len,
        offset: region.address(),
    };
    message.reads = chunk(0, &[segment]);
    let incoming = peer.exchange(&message)?;
    peer.null()?;
    Ok(incoming)
}

// SPDX-License-Identifier: GPL-2.0

//! Rows of one message each: the message and the reactions that the RFC allows.

use super::{
    props::Props,
    row::{Check, Needs, Row},
    seen::Seen,
};
use crate::{
    compound,
    message::{procedure, Message},
    rpc,
    xdr::Xdr,
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

/// Creates a row that needs no file.
const fn row(
    source: &'static str,
    name: &'static str,
    want: &'static [Seen],
    build: fn(&Props<'_>) -> Vec<u8>,
) -> Row {
    Row {
        name,
        source,
        needs: Needs::Nothing,
        check: Check::Answer(want, build),
    }
}

/// Creates a row that reads a file.
const fn file_row(
    source: &'static str,
    name: &'static str,
    want: &'static [Seen],
    build: fn(&Props<'_>) -> Vec<u8>,
) -> Row {
    Row {
        needs: Needs::File,
        ..row(source, name, want, build)
    }
}

const VERS: &[Seen] = &[Seen::ErrVers];
const CHUNK: &[Seen] = &[Seen::ErrChunk];
/// Reactions to chunks that do not fit the Call: either the transport detects that or the decoder
/// of the arguments does (RFC 8166, section 4.5.2).
pub(super) const MISFIT: &[Seen] = &[Seen::ErrChunk, Seen::GarbageArgs];
/// Reactions to chunks of wrong lengths, which the device may detect (RFC 8166, section 4.5.3).
pub(super) const LENGTH: &[Seen] = &[Seen::ErrChunk, Seen::Closed];
const NOTHING: &[Seen] = &[Seen::Nothing];
const CLOSED: &[Seen] = &[Seen::Closed];
const REPLY: &[Seen] = &[Seen::Reply];

/// Returns `segment` with an invalid handle.
fn wrong(segment: Segment) -> Segment {
    Segment {
        handle: segment.handle ^ 0x5a5a_5a5a,
        ..segment
    }
}

/// A length beyond what any server accepts in one Call.
const HUGE: u32 = u32::MAX - 3;

pub(super) const ROWS: &[Row] = &[
    row("RFC 8166, 4.5.1", "version 0", VERS, |p| {
        p.null_with(0, procedure::MSG)
    }),
    row("RFC 8166, 4.5.1", "version 2", VERS, |p| {
        p.null_with(2, procedure::MSG)
    }),
    row("RFC 8166, 4.5.1", "version 2^32-1", VERS, |p| {
        p.null_with(u32::MAX, procedure::MSG)
    }),
    row("RFC 8166, 4.5.2", "procedure 5", CHUNK, |p| {
        p.null_with(1, 5)
    }),
    row("RFC 8166, 4.5.2", "procedure 2^32-1", CHUNK, |p| {
        p.null_with(1, u32::MAX)
    }),
    row("RFC 8166, 4.6.1", "RDMA_MSGP", CHUNK, |p| {
        p.null_with(1, procedure::MSGP)
    }),
    row("RFC 8166, 4.6.2", "RDMA_DONE", NOTHING, |p| {
        p.null_with(1, procedure::DONE)
    }),
    row("RFC 8166, 4.2.4", "RDMA_ERROR of a client", NOTHING, |p| {
        p.err_vers(1)
    }),
    // The server may see an unknown version first (RFC 8166, section 4.5.1), or a message that is
    // no Call.
    row(
        "RFC 8166, 4.2.4",
        "RDMA_ERROR of a client, of version 2",
        &[Seen::Nothing, Seen::ErrVers],
        |p| p.err_vers(2),
    ),
    row("RFC 8166, 4.5", "no bytes but an XID", NOTHING, |p| {
        Xdr::new().word(p.xid).into_bytes()
    }),
    row("RFC 8166, 4.5", "12 bytes", NOTHING, |p| {
        Xdr::new().words(&[p.xid, 1, 32]).into_bytes()
    }),
    row("RFC 8166, 4.5", "no chunk lists", NOTHING, |p| {
        p.fixed(1, procedure::MSG).into_bytes()
    }),
    row("RFC 8166, 4.5", "no Write list", NOTHING, |p| {
        p.fixed(1, procedure::MSG).word(0).into_bytes()
    }),
    row(
        "RFC 8166, 4.5",
        "24 bytes of another version",
        NOTHING,
        |p| p.fixed(2, procedure::MSG).words(&[0, 0]).into_bytes(),
    ),
    row("RFC 8166, 4.5", "27 bytes", NOTHING, |p| {
        let mut bytes = p.fixed(1, procedure::MSG).words(&[0, 0, 0]).into_bytes();
        bytes.truncate(27);
        bytes
    }),
    row("RFC 8166, 4.3.1", "Read list begins with 2", CHUNK, |p| {
        p.lists(&[2, 0, 0])
    }),
    row("RFC 8166, 4.3.2", "Write list begins with 2", CHUNK, |p| {
        p.lists(&[0, 2, 0])
    }),
    row("RFC 8166, 4.3.3", "Reply chunk begins with 2", CHUNK, |p| {
        p.lists(&[0, 0, 2])
    }),
    row("RFC 8166, 4.3.1", "Read segment cut off", CHUNK, |p| {
        p.fixed(1, procedure::MSG)
            .words(&[1, 40, 1, 4])
            .into_bytes()
    }),
    row("RFC 8166, 4.3.1", "Read list without end", CHUNK, |p| {
        p.fixed(1, procedure::MSG)
            .words(&[1, 40, 1, 4, 0, 0])
            .into_bytes()
    }),
    row(
        "RFC 8166, 4.3.2",
        "Write chunk of 2^32-1 segments",
        CHUNK,
        |p| p.lists(&[0, 1, u32::MAX, 1, 4, 0, 0, 0, 0]),
    ),
    row("RFC 8166, 4.3.2", "Write chunk cut off", CHUNK, |p| {
        p.fixed(1, procedure::MSG)
            .words(&[0, 1, 2, 1, 4, 0, 0])
            .into_bytes()
    }),
    row(
        "RFC 8166, 4.3.3",
        "Reply chunk of 2^32-1 segments",
        CHUNK,
        |p| p.lists(&[0, 0, 1, u32::MAX, 1, 4, 0, 0]),
    ),
    row("RFC 8166, 4.3.3", "Reply chunk cut off", CHUNK, |p| {
        p.fixed(1, procedure::MSG)
            .words(&[0, 0, 1, 1, 1, 4, 0])
            .into_bytes()
    }),
    row(
        "RFC 8166, 3.4.5",
        "position not a multiple of 4",
        CHUNK,
        |p| p.write(64, &[(-2, 64)]),
    ),
    row("RFC 8166, 3.4.5", "position beyond the Call", MISFIT, |p| {
        p.write(64, &[(4000, 64)])
    }),
    row("RFC 8166, 3.4.5", "position 2^32-4", MISFIT, |p| {
        p.write(64, &[(0xffff_ff00, 64)])
    }),
    row("RFC 8166, 3.4.5", "Read chunks that overlap", MISFIT, |p| {
        p.write(64, &[(-8, 64), (0, 64)])
    }),
    row(
        "RFC 8166, 3.4.4",
        "Read chunk of 2^32-4 bytes",
        LENGTH,
        |p| p.write(64, &[(0, HUGE)]),
    ),
    row(
        "RFC 8166, 3.4.4",
        "Read chunk of 5 x 2^30 bytes",
        LENGTH,
        |p| {
            p.write(
                64,
                &[
                    (0, 1 << 30),
                    (0, 1 << 30),
                    (0, 1 << 30),
                    (0, 1 << 30),
                    (0, 1 << 30),
                ],
            )
        },
    ),
    row(
        "RFC 8166, 4.5.2",
        "RDMA_NOMSG without a chunk",
        CHUNK,
        |p| p.nomsg(&[]),
    ),
    row("RFC 8166, 3.5.3", "RDMA_NOMSG of no bytes", CHUNK, |p| {
        p.nomsg(&[0])
    }),
    row(
        "RFC 8166, 3.4.4",
        "RDMA_NOMSG of 2^32-4 bytes",
        LENGTH,
        |p| p.nomsg(&[HUGE]),
    ),
    row(
        "RFC 8166, 4.5.2",
        "RDMA_MSG without an RPC message",
        CHUNK,
        |p| p.fixed(1, procedure::MSG).words(&[0, 0, 0]).into_bytes(),
    ),
    row("RFC 8166, 4", "RPC reply to nothing", NOTHING, |p| {
        p.lists(&[0, 0, 0])
            .iter()
            .copied()
            .take(32)
            .chain([0, 0, 0, 1])
            .chain([0; 32])
            .collect()
    }),
    row(
        "RFC 8166, 4.5.3",
        "Read chunk with a wrong rkey",
        CLOSED,
        |p| {
            let call = rpc::write(p.xid, 64);
            let mut message = Message::inline(p.xid, call.inline);
            message.reads.push(ReadSegment {
                position: call.position,
                segment: wrong(p.segment(64)),
            });
            message.encode()
        },
    ),
    row(
        "RFC 8166, 4.5.3",
        "position-zero chunk with a wrong rkey",
        CLOSED,
        |p| {
            let mut message = Message::inline(p.xid, Vec::new());
            message.procedure = procedure::NOMSG;
            message.reads.push(ReadSegment {
                position: 0,
                segment: wrong(p.segment(64)),
            });
            message.encode()
        },
    ),
    file_row(
        "RFC 8166, 4.5.3",
        "Reply chunk with a wrong rkey",
        CLOSED,
        |p| {
            let mut message = Message::inline(p.xid, compound::read(p.xid, p.file, 65536));
            message.reply = Some(vec![wrong(p.segment(70_000))]);
            message.encode()
        },
    ),
    file_row(
        "RFC 8166, 4.5.3",
        "result larger than its Write chunk",
        LENGTH,
        |p| p.read(Some(&[1000]), None),
    ),
    file_row(
        "RFC 8166, 4.5.3",
        "reply larger than its Reply chunk",
        LENGTH,
        |p| p.read(None, Some(&[1000])),
    ),
    file_row("RFC 8166, 4.5.3", "large reply, no chunk", CHUNK, |p| {
        p.read(None, None)
    }),
    file_row(
        "RFC 8166, 4.5.3",
        "Write chunk with a wrong rkey",
        CLOSED,
        |p| {
            let mut message = Message::inline(p.xid, compound::read(p.xid, p.file, 65536));
            message.writes.push(vec![wrong(p.segment(65536))]);
            message.encode()
        },
    ),
    row("RFC 8166, 4.3", "all lists empty", REPLY, |p| {
        p.lists(&[0, 0, 0])
    }),
];

// SPDX-License-Identifier: GPL-2.0

//! Rows about the transport header as a whole.

use super::{
    bench::{expect_err_chunk, expect_quiet, Bench},
    row::{Check, Needs, Row},
    seen::Seen,
};
use crate::{
    error::Result,
    message::{procedure, Message},
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

pub(super) const ROWS: &[Row] = &[
    Row::script("RFC 8166, 4.5.2", "header cut off anywhere", cut_off),
    Row::script("RFC 8166, 4.5.2", "RPC Call cut off", call_cut_off),
    Row::script("RFC 8166, 4.3", "list word other than 0 and 1", list_words),
    Row {
        name: "RPC message with another XID",
        source: "RFC 8166, 4.5.2",
        needs: Needs::Nothing,
        check: Check::Answer(OTHER_XID, |p| {
            Message::inline(p.xid, p.null(p.xid ^ 1)).encode()
        }),
    },
    Row {
        name: "RDMA_NOMSG with a Reply chunk alone",
        source: "RFC 8166, 4.2.4",
        needs: Needs::Nothing,
        check: Check::Answer(&[Seen::ErrChunk], |p| {
            let mut message = Message::inline(p.xid, Vec::new());
            message.procedure = procedure::NOMSG;
            message.reply = Some(vec![p.segment(4096)]);
            message.encode()
        }),
    },
    Row {
        name: "60 Write chunks",
        source: "RFC 8267, 6.4.2",
        needs: Needs::Nothing,
        // The server chooses the number that it accepts.
        check: Check::Answer(&[Seen::ErrChunk, Seen::GarbageArgs, Seen::Reply], |p| {
            let mut message = Message::inline(p.xid, p.null(p.xid));
            message.writes = vec![vec![p.segment(100)]; 60];
            message.encode()
        }),
    },
];

/// The allowed reactions to an RPC message whose XID differs from that of its transport header.
/// That is an error (RFC 8166, section 4.5.2), but the server may ignore it (section 4.2.1). The
/// reply then has either XID.
pub(super) const OTHER_XID: &[Seen] = &[Seen::ErrChunk, Seen::Reply, Seen::OtherXid];

/// The length of the shortest message that is answered, in bytes.
const SHORTEST: usize = 28;

/// The length of the header of [`message`], in words.
const WORDS: usize = 28;

/// The header words that say that a list goes on or ends.
const LIST_WORDS: [usize; 5] = [4, 10, 11, 21, 22];

/// Builds a message with all lists: a Read segment, a Write chunk of two segments and a Reply chunk
/// of one. Its RPC message is `body`.
fn message(xid: u32, body: Vec<u8>) -> Vec<u8> {
    let segment = Segment {
        handle: 1,
        length: 4,
        offset: 0,
    };
    let mut message = Message::inline(xid, body);
    message.reads = vec![ReadSegment {
        position: 40,
        segment,
    }];
    message.writes = vec![vec![segment; 2]];
    message.reply = Some(vec![segment]);
    message.encode()
}

fn cut_off(bench: &Bench<'_>) -> Result {
    let mut peer = bench.peer()?;
    // Includes the part of the RPC message that does not yet tell a Call from a reply.
    for len in 1..WORDS * 4 + 8 {
        let xid = peer.xid();
        peer.send_bytes(&message(xid, peer.null_rpc(xid))[..len])?;
        let result = if len < SHORTEST {
            expect_quiet(&mut peer)
        } else {
            expect_err_chunk(&mut peer, xid)
        };
        result.map_err(|error| error.within(format_args!("after {len} bytes")))?;
    }
    expect_quiet(&mut peer)
}

/// Sends RPC messages that can be told from replies and are too short for a Call. The connection
/// must stay.
fn call_cut_off(bench: &Bench<'_>) -> Result {
    let mut peer = bench.peer()?;
    // From the message type to the procedure.
    for len in 8..24 {
        let xid = peer.xid();
        let mut body = peer.null_rpc(xid);
        body.truncate(len);
        peer.send(&Message::inline(xid, body))?;
        expect_err_chunk(&mut peer, xid)
            .map_err(|error| error.within(format_args!("after {len} bytes")))?;
    }
    expect_quiet(&mut peer)
}

fn list_words(bench: &Bench<'_>) -> Result {
    let mut peer = bench.peer()?;
    for at in LIST_WORDS {
        for value in [2u32, 0x100, 0x0100_0000, 0x8000_0000, u32::MAX] {
            let xid = peer.xid();
            let mut bytes = message(xid, peer.null_rpc(xid));
            bytes[at * 4..at * 4 + 4].copy_from_slice(&value.to_be_bytes());
            peer.send_bytes(&bytes)?;
            expect_err_chunk(&mut peer, xid)
                .map_err(|error| error.within(format_args!("word {at} is {value}")))?;
        }
    }
    expect_quiet(&mut peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc;

    #[test]
    fn list_words_are_where_they_are_said_to_be() {
        let bytes = message(7, rpc::null(3, 7));
        let words: Vec<u32> = bytes
            .chunks(4)
            .map(|word| word.try_into().map_or(9, u32::from_be_bytes))
            .collect();
        assert_eq!(LIST_WORDS.map(|at| words[at]), [1, 0, 1, 0, 1]);
        assert_eq!(words[WORDS..], message_body());
    }

    fn message_body() -> Vec<u32> {
        let body = rpc::null(3, 7);
        body.chunks(4)
            .map(|word| word.try_into().map_or(9, u32::from_be_bytes))
            .collect()
    }
}

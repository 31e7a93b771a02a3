// SPDX-License-Identifier: GPL-2.0

//! The transport header of a received message (RFC 8166, section 4).

use crate::chunk::{
    Chunk,
    ReadList,
    WriteList,
    MAX_WRITE_CHUNKS, //
};
use crate::error::{
    DecodeError,
    Reason, //
};
use crate::report;
use crate::wire::Reader;

/// Protocol version (`rdma_vers`).
pub(crate) const VERSION: u32 = 1;

/// Bytes of the shortest message but an error: four words, and an empty Read list, Write list and
/// Reply chunk. What is shorter is dropped before it is looked at (RFC 8166, section 4.5).
pub const MIN_MESSAGE: usize = 28;

/// Longest message that is looked at, in bytes: the largest threshold RFC 8797 can express.
pub const MAX_MESSAGE: usize = 256 * 1024;

/// Fewest bytes of an RPC Call: what comes before the credential (RFC 5531, section 9). For a shorter
/// one sunrpc would close the connection, with all that is under way.
pub(crate) const MIN_RPC: u32 = 24;

/// `rdma_proc` (RFC 8166, section 4.2.4).
pub(crate) mod procedure {
    /// An RPC message follows the header.
    pub(crate) const MSG: u32 = 0;
    /// The RPC message is in a chunk.
    pub(crate) const NOMSG: u32 = 1;
    /// Obsolete, to be ignored.
    pub(crate) const DONE: u32 = 3;
    /// The peer reports an error.
    pub(crate) const ERROR: u32 = 4;
}

/// Where the body of a Call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// RDMA_MSG: behind the header.
    #[default]
    Msg,
    /// RDMA_NOMSG: in the position-zero Read chunk.
    Nomsg,
}

/// The header of a Call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// XID.
    pub xid: u32,
    /// How many credits the client asks for.
    pub credits: u32,
    /// Where the body is.
    pub kind: Kind,
    /// Offset of the inline RPC message in the received message, in bytes.
    pub body: usize,
    /// The Read list.
    pub reads: ReadList,
    /// The Write list.
    pub writes: WriteList,
    /// The Reply chunk.
    pub reply: Option<Chunk>,
}

/// A reverse-direction reply (RFC 8167, section 5.2): RDMA_MSG without chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reverse {
    /// XID.
    pub xid: u32,
    /// How many reverse-direction Calls the client takes.
    pub credits: u32,
    /// Offset of the RPC message in the received message, in bytes.
    pub body: usize,
}

/// A well-formed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A Call of the client.
    Call(Header),
    /// A reply to a reverse-direction Call.
    Reverse(Reverse),
    /// RDMA_ERROR, which can only be meant for a reverse-direction Call.
    Error {
        /// XID. The credits do not count: there is no RPC message that says what they are for (RFC
        /// 8167, section 4.1).
        xid: u32,
    },
    /// RDMA_DONE, which is obsolete, or an RDMA_ERROR that says what nobody knows.
    Ignored,
}

impl Header {
    /// A header without chunks.
    pub const EMPTY: Self = Self {
        xid: 0,
        credits: 0,
        kind: Kind::Msg,
        body: 0,
        reads: ReadList::EMPTY,
        writes: WriteList::EMPTY,
        reply: None,
    };

    /// Returns how many bytes of RPC message are inline.
    pub(crate) fn inline_len(&self, msg: &[u8]) -> u32 {
        match self.kind {
            Kind::Msg => u32::try_from(msg.len().saturating_sub(self.body)).unwrap_or(0),
            Kind::Nomsg => 0,
        }
    }
}

/// Decodes a received message, all its chunk lists included.
///
/// # Errors
///
/// Says why the message is refused; [`Reason::answer`] says what to do about it.
pub fn decode(msg: &[u8]) -> Result<Received, DecodeError> {
    if msg.len() > MAX_MESSAGE {
        return Err(Reason::Long.dropped());
    }
    let mut reader = Reader::new(msg);
    let (xid, version, credits, proc) = fixed(&mut reader).ok_or(Reason::Short.dropped())?;
    // An error is never answered, whatever its version: two peers could go on for ever. One about
    // a message of ours has our version.
    if proc == procedure::ERROR {
        let is_known = report::is_known(&mut reader).map_err(Reason::dropped)?;
        return Ok(match is_known && version == VERSION {
            true => Received::Error { xid },
            false => Received::Ignored,
        });
    }
    if msg.len() < MIN_MESSAGE {
        return Err(Reason::Short.dropped());
    }
    if version != VERSION {
        return Err(Reason::Version(version).of(xid));
    }
    let kind = match proc {
        procedure::MSG => Kind::Msg,
        procedure::NOMSG => Kind::Nomsg,
        procedure::DONE => return Ok(Received::Ignored),
        _ => return Err(Reason::Procedure.of(xid)),
    };
    let reads = ReadList::parse(&mut reader).map_err(|reason| reason.of(xid))?;
    let writes = WriteList::parse(&mut reader).map_err(|reason| reason.of(xid))?;
    let reply = Chunk::parse_optional(&mut reader).map_err(|reason| reason.of(xid))?;
    let header = Header {
        xid,
        credits,
        kind,
        body: reader.at() as usize,
        reads,
        writes,
        reply,
    };
    match kind {
        Kind::Msg => inline(header, msg, reader),
        Kind::Nomsg if reads.len_at(msg, 0).is_some() => served(header, msg),
        Kind::Nomsg => Err(Reason::NoBody.of(xid)),
    }
}

/// Takes the words every message of every version starts with (RFC 8166, section 4.2).
fn fixed(reader: &mut Reader<'_>) -> Option<(u32, u32, u32, u32)> {
    Some((
        reader.word()?,
        reader.word()?,
        reader.word()?,
        reader.word()?,
    ))
}

/// Takes a Call, if its positions can be right and it has no more Write chunks than are served.
fn served(header: Header, msg: &[u8]) -> Result<Received, DecodeError> {
    let xid = header.xid;
    if !header.reads.is_aligned(msg) {
        return Err(Reason::Misaligned.of(xid));
    }
    if header.writes.chunks() > MAX_WRITE_CHUNKS {
        return Err(Reason::TooManyWrites.of(xid));
    }
    Ok(Received::Call(header))
}

/// Finds out the direction of an RDMA_MSG; `reader` stands at the RPC message.
fn inline(header: Header, msg: &[u8], mut reader: Reader<'_>) -> Result<Received, DecodeError> {
    let xid = header.xid;
    let (rpc_xid, direction) = match (reader.word(), reader.word()) {
        (Some(rpc_xid), Some(direction)) => (rpc_xid, direction),
        _ => return Err(Reason::ShortBody.of(xid)),
    };
    match direction {
        0 if rpc_xid != xid => Err(Reason::Xid.of(xid)),
        0 if header.reads.len_at(msg, 0).is_some() => Err(Reason::TwoBodies.of(xid)),
        0 => served(header, msg),
        1 if header.reads.is_empty() && header.writes.is_empty() && header.reply.is_none() => {
            Ok(Received::Reverse(Reverse {
                xid,
                credits: header.credits,
                body: header.body,
            }))
        }
        1 => Err(Reason::ReverseChunks.dropped()),
        _ => Err(Reason::Direction.of(xid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn decoded(words: &[u32]) -> Result<Received, DecodeError> {
        decode(&message(words))
    }

    fn call(msg: &[u8]) -> Option<Header> {
        match decode(msg) {
            Ok(Received::Call(header)) => Some(header),
            _ => None,
        }
    }

    #[test]
    fn fixed_words_decide_first() {
        let xid = 5;
        let with = |version, proc| decoded(&[xid, version, 1, proc, 0, 0, 0]);
        for version in [0, 2, u32::MAX] {
            assert_eq!(with(version, 0), Err(Reason::Version(version).of(xid)));
            assert_eq!(with(version, 3), Err(Reason::Version(version).of(xid)));
            // An error may carry any version, and is not answered.
            assert_eq!(with(version, 4), Ok(Received::Ignored));
        }
        // RDMA_MSGP and what nobody knows.
        assert_eq!(with(1, 2), Err(Reason::Procedure.of(xid)));
        assert_eq!(with(1, 5), Err(Reason::Procedure.of(xid)));
        assert_eq!(with(1, 3), Ok(Received::Ignored));
    }

    #[test]
    fn errors_have_the_version_of_what_they_are_about() {
        let error = Ok(Received::Error { xid: 5 });
        assert_eq!(decoded(&[5, 1, 1, 4, 2]), error);
        for version in [0, 2, 7] {
            assert_eq!(decoded(&[5, version, 1, 4, 2]), Ok(Received::Ignored));
            assert_eq!(decoded(&[5, version, 1, 4]), Err(Reason::Short.dropped()));
        }
    }

    #[test]
    fn messages_have_a_shortest() {
        for (words, shortest) in [
            ([5, 1, 1, 1, 0, 0, 0], MIN_MESSAGE),
            ([5, 2, 1, 0, 0, 0, 0], MIN_MESSAGE),
            ([5, 1, 1, 4, 2, 0, 0], 20),
            ([5, 1, 1, 4, 1, 1, 1], 28),
        ] {
            let msg = message(&words);
            assert_ne!(decode(&msg[..shortest]), Err(Reason::Short.dropped()));
            for len in 0..shortest {
                assert_eq!(decode(&msg[..len]), Err(Reason::Short.dropped()));
            }
        }
    }

    #[test]
    fn messages_have_a_longest() {
        let mut msg = message(&[5, 1, 1, 0, 0, 0, 0, 5, 0]);
        msg.resize(MAX_MESSAGE, 0);
        assert!(matches!(decode(&msg), Ok(Received::Call(_))));
        msg.push(0);
        assert_eq!(decode(&msg), Err(Reason::Long.dropped()));
    }

    #[test]
    fn the_direction_is_that_of_the_rpc_message() {
        let xid = 5;
        let reverse = Reverse {
            xid,
            credits: 3,
            body: 28,
        };
        // The XIDs of both layers are not compared here: whoever waits for the reply does it.
        let reply = [xid, 1, 3, 0, 0, 0, 0, 6, 1];
        assert_eq!(decoded(&reply), Ok(Received::Reverse(reverse)));
        let msg = message(&[xid, 1, 3, 0, 0, 0, 0, xid, 0]);
        let found = call(&msg).map(|header| {
            let body = (header.kind, header.credits, header.body);
            (body, header.reply, header.invalidatable(&msg))
        });
        assert_eq!(found, Some(((Kind::Msg, 3, 28), None, None)));
        let other = decoded(&[xid, 1, 3, 0, 0, 0, 0, 6, 0]);
        assert_eq!(other, Err(Reason::Xid.of(xid)));
        let neither = decoded(&[xid, 1, 3, 0, 0, 0, 0, 6, 2]);
        assert_eq!(neither, Err(Reason::Direction.of(xid)));
        for body in [&[][..], &[6]] {
            let short = [&[xid, 1, 3, 0, 0, 0, 0][..], body].concat();
            assert_eq!(decoded(&short), Err(Reason::ShortBody.of(xid)));
        }
    }

    #[test]
    fn reverse_replies_have_no_chunks() {
        let drop = Err(Reason::ReverseChunks.dropped());
        for position in [0, 8, 9] {
            let reads = [5, 1, 3, 0, 1, position, 7, 7, 0, 0, 0, 0, 0, 6, 1];
            assert_eq!(decoded(&reads), drop);
        }
        assert_eq!(decoded(&[5, 1, 3, 0, 0, 1, 0, 0, 0, 6, 1]), drop);
        assert_eq!(decoded(&[5, 1, 3, 0, 0, 0, 1, 0, 6, 1]), drop);
    }

    #[test]
    fn there_is_one_body() {
        let xid = 5;
        let read = |proc, position| [xid, 1, 3, proc, 1, position, 7, 7, 0, 0, 0, 0, 0, xid, 0];
        let nomsg = decoded(&read(1, 0));
        assert!(matches!(nomsg, Ok(Received::Call(header)) if header.kind == Kind::Nomsg));
        assert!(matches!(decoded(&read(0, 8)), Ok(Received::Call(_))));
        assert_eq!(decoded(&read(0, 0)), Err(Reason::TwoBodies.of(xid)));
        assert_eq!(decoded(&read(1, 8)), Err(Reason::NoBody.of(xid)));
        let empty = decoded(&[xid, 1, 3, 1, 0, 0, 0]);
        assert_eq!(empty, Err(Reason::NoBody.of(xid)));
        for position in [1, 2, 3, 5, u32::MAX] {
            let odd = decoded(&read(0, position));
            assert_eq!(odd, Err(Reason::Misaligned.of(xid)));
        }
    }

    #[test]
    fn lists_are_well_formed() {
        let xid = 5;
        let good = [xid, 1, 3, 0, 0, 0, 0, xid, 0];
        for at in 4..7 {
            let mut bad = good;
            bad[at] = 2;
            assert_eq!(decoded(&bad), Err(Reason::Discriminator.of(xid)));
        }
        // Write chunks of no segments, and no Reply chunk.
        let writes = |count: usize, direction| {
            let list = [[1, 0].repeat(count), vec![0]].concat();
            decoded(&[&[xid, 1, 3, 0, 0][..], &list, &[0, xid, direction]].concat())
        };
        assert!(matches!(writes(16, 0), Ok(Received::Call(_))));
        assert_eq!(writes(17, 0), Err(Reason::TooManyWrites.of(xid)));
        assert_eq!(writes(17, 1), Err(Reason::ReverseChunks.dropped()));
        // A segment count that would wrap around when turned into bytes.
        for count in [0x1000_0000, 0x1000_0001, u32::MAX] {
            let wrap = decoded(&[xid, 1, 3, 0, 0, 0, 1, count, 6, 0]);
            assert_eq!(wrap, Err(Reason::Truncated.of(xid)));
            let wrap = decoded(&[xid, 1, 3, 0, 0, 1, count, 0, 0, 6, 0]);
            assert_eq!(wrap, Err(Reason::Truncated.of(xid)));
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The transport header of a received message (RFC 8166, section 4).

use crate::chunk::{
    Chunk,
    ReadList,
    WriteList, //
};
use crate::error::DecodeError;
use crate::wire;
use crate::wire::Reader;

/// Protocol version (`rdma_vers`).
pub(crate) const VERSION: u32 = 1;

/// Longest message that is looked at, in bytes: the largest threshold RFC 8797 can express.
pub const MAX_MESSAGE: usize = 256 * 1024;

/// Fewest bytes of an RPC message: XID and direction (RFC 5531, section 9).
pub(crate) const MIN_RPC: u32 = 8;

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

/// A reverse-direction reply (RFC 8167, section 5.3): RDMA_MSG without chunks.
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
        /// XID.
        xid: u32,
    },
    /// RDMA_DONE: obsolete, to be ignored.
    Done,
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

    /// Returns an rkey that the reply may invalidate (RFC 8166, section 3.3.3): the first one this
    /// Call names in its Reply chunk, else in its Write list, else in its Read list.
    pub fn invalidatable(&self, msg: &[u8]) -> Option<u32> {
        let reply = self.reply.and_then(|chunk| chunk.get(msg, 0));
        let segment = match reply {
            Some(segment) => Some(segment),
            None => self.writes.iter(msg).find_map(|chunk| chunk.get(msg, 0)),
        };
        match segment {
            Some(segment) => Some(segment.handle),
            None => self.reads.get(msg, 0).map(|read| read.segment.handle),
        }
    }

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
/// Says why the message is refused; [`DecodeError::answer`] says what to do about it.
pub fn decode(msg: &[u8]) -> Result<Received, DecodeError> {
    if msg.len() > MAX_MESSAGE {
        return Err(DecodeError::Long);
    }
    let mut reader = Reader::new(msg);
    let (xid, version, credits, proc) = fixed(&mut reader).ok_or(DecodeError::Short)?;
    // An error is never answered, whatever its version: two peers could go on for ever.
    if proc == procedure::ERROR {
        return Ok(Received::Error { xid });
    }
    if version != VERSION {
        return Err(DecodeError::Version { xid });
    }
    let kind = match proc {
        procedure::MSG => Kind::Msg,
        procedure::NOMSG => Kind::Nomsg,
        procedure::DONE => return Ok(Received::Done),
        _ => return Err(DecodeError::Procedure { xid }),
    };
    let reads = ReadList::parse(&mut reader, xid)?;
    let writes = WriteList::parse(&mut reader, xid)?;
    let reply = Chunk::parse_optional(&mut reader, xid)?;
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
        Kind::Nomsg if reads.len_at(msg, 0).is_some() => Ok(Received::Call(header)),
        Kind::Nomsg => Err(DecodeError::NoBody { xid }),
    }
}

/// Takes the words every message of every version starts with (RFC 8166, section 4.2.1).
fn fixed(reader: &mut Reader<'_>) -> Option<(u32, u32, u32, u32)> {
    Some((
        reader.word()?,
        reader.word()?,
        reader.word()?,
        reader.word()?,
    ))
}

/// Finds out the direction of an RDMA_MSG; `reader` stands at the RPC message.
fn inline(header: Header, msg: &[u8], mut reader: Reader<'_>) -> Result<Received, DecodeError> {
    let xid = header.xid;
    let direction = match (reader.word(), reader.word()) {
        (Some(_), Some(direction)) => direction,
        _ => return Err(DecodeError::ShortBody { xid }),
    };
    match direction {
        0 if header.reads.len_at(msg, 0).is_some() => Err(DecodeError::TwoBodies { xid }),
        0 => Ok(Received::Call(header)),
        1 if header.reads.is_empty() && header.writes.is_empty() && header.reply.is_none() => {
            Ok(Received::Reverse(Reverse {
                xid,
                credits: header.credits,
                body: header.body,
            }))
        }
        1 => Err(DecodeError::ReverseChunks),
        _ => Err(DecodeError::Direction { xid }),
    }
}

/// Returns where the arguments of the inline Call begin, in bytes of the RPC message: behind
/// credential and verifier (RFC 5531, section 9).
pub(crate) fn arguments(header: &Header, msg: &[u8]) -> Option<u32> {
    let body = u32::try_from(header.body).ok()?;
    // XID, direction, RPC version, program, version, procedure, flavor; then the credential.
    let mut at = 28u32;
    let credential = wire::word(msg, body.checked_add(at)?)?;
    at = at.checked_add(8)?.checked_add(wire::padded(credential)?)?;
    let verifier = wire::word(msg, body.checked_add(at)?)?;
    at.checked_add(4)?.checked_add(wire::padded(verifier)?)
}

// SPDX-License-Identifier: GPL-2.0

//! Encodes and decodes RPC-over-RDMA messages of the client's side (RFC 8166, section 4).

use crate::xdr::{Words, Xdr};
use svcrdma_proto::chunk::{ReadSegment, Segment};

/// The version of RPC-over-RDMA.
pub(crate) const VERSION: u32 = 1;

/// Values of `rdma_proc`.
pub(crate) mod procedure {
    pub(crate) const MSG: u32 = 0;
    pub(crate) const NOMSG: u32 = 1;
    pub(crate) const MSGP: u32 = 2;
    pub(crate) const DONE: u32 = 3;
    pub(crate) const ERROR: u32 = 4;
}

/// Values of `rdma_err`.
pub(crate) mod error_code {
    pub(crate) const VERS: u32 = 1;
    pub(crate) const CHUNK: u32 = 2;
}

/// A well-formed message to send.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) xid: u32,
    pub(crate) credits: u32,
    pub(crate) procedure: u32,
    pub(crate) reads: Vec<ReadSegment>,
    pub(crate) writes: Vec<Vec<Segment>>,
    pub(crate) reply: Option<Vec<Segment>>,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// Creates an RDMA_MSG without chunks that carries `body`.
    pub(crate) fn inline(xid: u32, body: Vec<u8>) -> Self {
        Self {
            xid,
            credits: 32,
            procedure: procedure::MSG,
            reads: Vec::new(),
            writes: Vec::new(),
            reply: None,
            body,
        }
    }

    /// Encodes the message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let fixed = [self.xid, VERSION, self.credits, self.procedure];
        let xdr = Xdr::new().words(&fixed);
        let xdr = self.reads.iter().fold(xdr, |xdr, read| {
            segment(xdr.words(&[1, read.position]), &read.segment)
        });
        let xdr = self
            .writes
            .iter()
            .fold(xdr.word(0), |xdr, write| chunk(xdr.word(1), write));
        let xdr = match &self.reply {
            Some(reply) => chunk(xdr.words(&[0, 1]), reply),
            None => xdr.words(&[0, 0]),
        };
        xdr.raw(&self.body).into_bytes()
    }
}

/// Appends a counted array of segments.
fn chunk(xdr: Xdr, segments: &[Segment]) -> Xdr {
    segments
        .iter()
        .fold(xdr.word(segments.len() as u32), segment)
}

/// Appends a segment.
fn segment(xdr: Xdr, segment: &Segment) -> Xdr {
    xdr.words(&[segment.handle, segment.length])
        .hyper(segment.offset)
}

/// A message from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An RPC message.
    Reply(Reply),
    /// RDMA_ERROR with ERR_VERS and the range of supported versions.
    ErrVers {
        xid: u32,
        credits: u32,
        version: u32,
        low: u32,
        high: u32,
    },
    /// RDMA_ERROR with ERR_CHUNK.
    ErrChunk { xid: u32, credits: u32 },
    /// A message that cannot be decoded.
    Malformed(Vec<u8>),
}

/// An RDMA_MSG or RDMA_NOMSG from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) xid: u32,
    pub(crate) credits: u32,
    pub(crate) procedure: u32,
    /// The Write list, with the lengths that the server has written.
    pub(crate) writes: Vec<Vec<Segment>>,
    /// The Reply chunk with the lengths that the server has written, if it was returned.
    pub(crate) reply: Option<Vec<Segment>>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Decodes a message from the server.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        decode(bytes).unwrap_or_else(|| Self::Malformed(bytes.to_vec()))
    }

    /// Returns the XID, if the message has one.
    pub(crate) fn xid(&self) -> Option<u32> {
        match self {
            Self::Reply(reply) => Some(reply.xid),
            Self::ErrVers { xid, .. } | Self::ErrChunk { xid, .. } => Some(*xid),
            Self::Malformed(_) => None,
        }
    }

    /// Returns the granted credits, if the message could be decoded.
    pub(crate) fn credits(&self) -> Option<u32> {
        match self {
            Self::Reply(Reply { credits, .. })
            | Self::ErrVers { credits, .. }
            | Self::ErrChunk { credits, .. } => Some(*credits),
            Self::Malformed(_) => None,
        }
    }
}

/// Decodes a message from the server; returns `None` if it is malformed.
fn decode(bytes: &[u8]) -> Option<Answer> {
    let mut words = Words::new(bytes);
    let xid = words.word()?;
    // An ERR_VERS repeats the version of the request.
    let version = words.word()?;
    let credits = words.word()?;
    let procedure = words.word()?;
    match procedure {
        procedure::ERROR => decode_error(xid, credits, version, &mut words),
        procedure::MSG | procedure::NOMSG if version == VERSION => {
            // The Read list of a reply is always empty.
            (words.word()? == 0).then_some(())?;
            let writes = decode_writes(&mut words)?;
            let reply = decode_reply_chunk(&mut words)?;
            Some(Answer::Reply(Reply {
                xid,
                credits,
                procedure,
                writes,
                reply,
                body: words.rest().to_vec(),
            }))
        }
        _ => None,
    }
}

/// Decodes the rest of an RDMA_ERROR.
fn decode_error(xid: u32, credits: u32, version: u32, words: &mut Words<'_>) -> Option<Answer> {
    match words.word()? {
        error_code::VERS => Some(Answer::ErrVers {
            xid,
            credits,
            version,
            low: words.word()?,
            high: words.word()?,
        }),
        error_code::CHUNK if version == VERSION => Some(Answer::ErrChunk { xid, credits }),
        _ => None,
    }
}

/// Decodes a Write list.
fn decode_writes(words: &mut Words<'_>) -> Option<Vec<Vec<Segment>>> {
    let mut writes = Vec::new();
    loop {
        match words.word()? {
            0 => return Some(writes),
            1 => writes.push(decode_chunk(words)?),
            _ => return None,
        }
    }
}

/// Decodes the Reply chunk, if it is present.
fn decode_reply_chunk(words: &mut Words<'_>) -> Option<Option<Vec<Segment>>> {
    match words.word()? {
        0 => Some(None),
        1 => decode_chunk(words).map(Some),
        _ => None,
    }
}

/// Decodes a chunk.
fn decode_chunk(words: &mut Words<'_>) -> Option<Vec<Segment>> {
    let mut segments = Vec::new();
    for _ in 0..words.word()? {
        segments.push(Segment {
            handle: words.word()?,
            length: words.word()?,
            offset: words.hyper()?,
        });
    }
    Some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_message_has_28_bytes() {
        assert_eq!(Message::inline(7, Vec::new()).encode().len(), 28);
    }

    fn at(handle: u32, length: u32) -> Segment {
        Segment {
            handle,
            length,
            offset: 0,
        }
    }

    #[test]
    fn a_reply_with_chunks_is_understood() {
        let bytes = Xdr::new()
            .words(&[7, 1, 32, 0, 0])
            .words(&[1, 2, 11, 4096, 0, 0, 12, 100, 0, 0, 0])
            .words(&[1, 1, 13, 0, 0, 0])
            .raw(b"body")
            .into_bytes();
        let expected = Reply {
            xid: 7,
            credits: 32,
            procedure: procedure::MSG,
            writes: vec![vec![at(11, 4096), at(12, 100)]],
            reply: Some(vec![at(13, 0)]),
            body: b"body".to_vec(),
        };
        assert_eq!(Answer::decode(&bytes), Answer::Reply(expected));
    }

    #[test]
    fn errors_are_understood() {
        let vers = Xdr::new().words(&[7, 9, 32, 4, 1, 1, 1]).into_bytes();
        assert_eq!(
            Answer::decode(&vers),
            Answer::ErrVers {
                xid: 7,
                credits: 32,
                version: 9,
                low: 1,
                high: 1
            }
        );
        let chunk = Xdr::new().words(&[7, 1, 32, 4, 2]).into_bytes();
        let expected = Answer::ErrChunk {
            xid: 7,
            credits: 32,
        };
        assert_eq!(Answer::decode(&chunk), expected);
    }

    #[test]
    fn anything_else_is_malformed() {
        for len in [0, 4, 16, 27] {
            assert!(matches!(
                Answer::decode(&vec![0; len]),
                Answer::Malformed(_)
            ));
        }
    }
}

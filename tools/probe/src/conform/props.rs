// SPDX-License-Identifier: GPL-2.0

//! Messages of rows, and the peer, memory and file that they name.

use crate::{
    compound,
    ffi::Region,
    message::{error_code, procedure, Message},
    peer::Peer,
    rpc,
    xdr::Xdr,
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

/// Builds the message of a row.
pub(super) struct Props<'a> {
    pub(super) peer: &'a Peer,
    pub(super) xid: u32,
    pub(super) memory: &'a Region,
    pub(super) file: &'a str,
}

impl Props<'_> {
    /// Builds a NULL Call.
    pub(super) fn null(&self, xid: u32) -> Vec<u8> {
        self.peer.null_rpc(xid)
    }

    /// Starts a message with the four fixed words.
    pub(super) fn fixed(&self, version: u32, procedure: u32) -> Xdr {
        Xdr::new().words(&[self.xid, version, 32, procedure])
    }

    /// Builds a NULL Call that is well-formed except for these fixed words.
    pub(super) fn null_with(&self, version: u32, procedure: u32) -> Vec<u8> {
        self.fixed(version, procedure)
            .words(&[0, 0, 0])
            .raw(&self.null(self.xid))
            .into_bytes()
    }

    /// Builds an RDMA_MSG with these words as chunk lists, and a NULL Call.
    pub(super) fn lists(&self, words: &[u32]) -> Vec<u8> {
        self.fixed(1, procedure::MSG)
            .words(words)
            .raw(&self.null(self.xid))
            .into_bytes()
    }

    /// Builds an RDMA_ERROR of `version`, long enough to be processed (RFC 8166, section 4.5).
    pub(super) fn err_vers(&self, version: u32) -> Vec<u8> {
        self.fixed(version, procedure::ERROR)
            .words(&[error_code::VERS, 1, 1])
            .into_bytes()
    }

    /// Returns a segment that starts in the memory and claims `length` bytes.
    pub(super) fn segment(&self, length: u32) -> Segment {
        Segment {
            handle: self.memory.rkey(),
            length,
            offset: self.memory.address(),
        }
    }

    /// Builds a WRITE of `count` bytes with Read chunks of these positions (relative to that of its
    /// data) and lengths.
    pub(super) fn write(&self, count: u32, chunks: &[(i64, u32)]) -> Vec<u8> {
        let call = rpc::write(self.xid, count);
        let mut message = Message::inline(self.xid, call.inline);
        for &(shift, length) in chunks {
            message.reads.push(ReadSegment {
                position: (i64::from(call.position) + shift) as u32,
                segment: self.segment(length),
            });
        }
        message.encode()
    }

    /// Builds a WRITE whose chunk ends beyond the registered memory.
    pub(super) fn beyond_memory(&self) -> Vec<u8> {
        let call = rpc::write(self.xid, 8192);
        let mut message = Message::inline(self.xid, call.inline);
        let mut segment = self.segment(8192);
        segment.offset += self.memory.len() as u64 - 4096;
        message.reads = vec![ReadSegment {
            position: call.position,
            segment,
        }];
        message.encode()
    }

    /// Builds an RDMA_NOMSG with a position-zero Read chunk of segments of these lengths.
    pub(super) fn nomsg(&self, lengths: &[u32]) -> Vec<u8> {
        let mut message = Message::inline(self.xid, Vec::new());
        message.procedure = procedure::NOMSG;
        for &length in lengths {
            message.reads.push(ReadSegment {
                position: 0,
                segment: self.segment(length),
            });
        }
        message.encode()
    }

    /// Builds a READ of 64 KiB with a Write chunk and a Reply chunk of segments of these lengths.
    pub(super) fn read(&self, write: Option<&[u32]>, reply: Option<&[u32]>) -> Vec<u8> {
        let segments = |lengths: &[u32]| -> Vec<Segment> {
            lengths.iter().map(|&len| self.segment(len)).collect()
        };
        let mut message = Message::inline(self.xid, compound::read(self.xid, self.file, 65536));
        message.writes = write.map(segments).into_iter().collect();
        message.reply = reply.map(segments);
        message.encode()
    }
}

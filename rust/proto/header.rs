// SPDX-License-Identifier: GPL-2.0

//! The transport header of a Call (RFC 8166, section 4), and the Call that it belongs to.
//!
//! A [`Header`] names places in its message by byte offsets and does not borrow the message, so
//! that it can be kept beside the Receive buffer. A [`View`] is a header together with its message;
//! all functions that need both take a [`View`].

use crate::chunk::{
    Chunk,
    Chunks,
    WriteChunk,
    WriteList, //
};
use crate::error::{
    DecodeError,
    Reason, //
};
use crate::read_list::{
    ReadChunk,
    ReadList,
    ReadSegment,
    ReadSegments, //
};

/// Protocol version (`rdma_vers`).
pub(crate) const VERSION: u32 = 1;

/// Bytes of the shortest message other than RDMA_ERROR: four words, and an empty Read list, Write
/// list and Reply chunk. Shorter messages are dropped (RFC 8166, section 4.5).
pub const MIN_MESSAGE: usize = 28;

/// Bytes of the longest message that is decoded: the largest inline threshold that RFC 8797 can
/// express.
pub const MAX_MESSAGE: usize = 256 * 1024;

/// Bytes of the shortest RPC Call: the fields before the credential (RFC 5531, section 9). sunrpc
/// would close the connection for a shorter one, with all Calls that are in progress.
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

/// The place of the RPC message of a Call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// RDMA_MSG: the RPC message follows the header.
    #[default]
    Msg,
    /// RDMA_NOMSG: the RPC message is in the position-zero Read chunk.
    Nomsg,
}

/// The header of a Call. The default is of no message, and only to be decoded into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// XID.
    pub xid: u32,
    /// Credits that the client asks for.
    pub credits: u32,
    /// The place of the RPC message.
    pub kind: Kind,
    /// Offset of the inline RPC message in the received message, in bytes.
    pub body: usize,
    /// Offset of the arguments in the inline RPC message of a Call with Read chunks, in bytes, as
    /// [`rpc::arguments`](crate::rpc::arguments) returns it. Unspecified for any other Call.
    pub(crate) arguments: Option<u32>,
    /// The Read list.
    pub(crate) reads: ReadList,
    /// The Write list.
    pub(crate) writes: WriteList,
    /// The Reply chunk.
    pub(crate) reply: Option<Chunk>,
}

impl Header {
    /// A header without chunks.
    // Four words precede the Read list, which takes one word.
    pub const EMPTY: Self = Self {
        xid: 0,
        credits: 0,
        kind: Kind::Msg,
        body: MIN_MESSAGE,
        arguments: None,
        reads: ReadList::empty(16),
        writes: WriteList::empty(20),
        reply: None,
    };

    /// Sets the lists of a message without chunks.
    pub(crate) fn set_no_chunks(&mut self) {
        self.reads = Self::EMPTY.reads;
        self.writes = Self::EMPTY.writes;
        self.reply = Self::EMPTY.reply;
        self.body = Self::EMPTY.body;
    }

    /// Returns true if the message has any chunk.
    pub(crate) fn has_chunks(&self) -> bool {
        !self.reads.is_empty() || self.has_write_chunks()
    }

    /// Returns true if the message has a Write chunk or a Reply chunk.
    pub(crate) fn has_write_chunks(&self) -> bool {
        self.writes.chunks() > 0 || self.reply.is_some()
    }

    /// Returns the Call that consists of this header and `message`, which must be the message that
    /// the header was decoded from. Another message leads to useless results, but to no panic and
    /// no endless loop.
    pub fn view<'m>(&'m self, message: &'m [u8]) -> View<'m> {
        View {
            header: self,
            message,
        }
    }
}

/// A Call as received: the header and the message that it was decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'m> {
    header: &'m Header,
    message: &'m [u8],
}

impl<'m> View<'m> {
    /// Returns the header.
    pub fn header(&self) -> &'m Header {
        self.header
    }

    /// Returns the bytes of the message.
    pub fn message(&self) -> &'m [u8] {
        self.message
    }

    /// Returns the Write list and the Reply chunk as they are on the wire. A Reply repeats them.
    pub(crate) fn reply_lists(&self) -> &'m [u8] {
        let lists = self.header.writes.at() as usize..self.header.body;
        self.message.get(lists).unwrap_or(&[])
    }

    /// Returns the number of bytes of the Write list and the Reply chunk on the wire.
    pub(crate) fn reply_lists_len(&self) -> u32 {
        // No message that is decoded is longer than MAX_MESSAGE.
        (self.header.body as u32).saturating_sub(self.header.writes.at())
    }

    /// Returns the bytes of the inline RPC message, which an RDMA_NOMSG does not have.
    #[inline]
    pub fn inline(&self) -> &'m [u8] {
        match self.header.kind {
            Kind::Msg => self.message.get(self.header.body..).unwrap_or(&[]),
            Kind::Nomsg => &[],
        }
    }

    /// Returns the number of bytes of the inline RPC message.
    #[inline]
    pub(crate) fn inline_len(&self) -> u32 {
        u32::try_from(self.inline().len()).unwrap_or(0)
    }

    /// Returns true if the whole RPC message is inline, as that of most Calls is.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.header.kind == Kind::Msg && self.header.reads.is_empty()
    }

    /// Returns the elements of the Read list in their order.
    pub fn reads(&self) -> ReadSegments<'m> {
        self.header.reads.iter(self.message)
    }

    /// Checks that the positions of all Read chunks are multiples of 4, and that there are few if
    /// they are unsorted.
    pub(crate) fn check_reads(&self) -> Result<(), Reason> {
        self.header.reads.check(self.message)
    }

    /// Returns element number `index` of the Read list.
    pub(crate) fn read(&self, index: u32) -> Option<ReadSegment> {
        self.header.reads.get(self.message, index)
    }

    /// Returns the length of the Read chunk at `position` in bytes, or `None` if no chunk is there.
    pub(crate) fn read_len(&self, position: u32) -> Option<u64> {
        self.header.reads.len_at(self.message, position)
    }

    /// Returns the Read chunk that follows `chunk` in the order of the positions.
    pub(crate) fn next_read_chunk(&self, chunk: &ReadChunk) -> Option<ReadChunk> {
        self.header.reads.next_chunk(self.message, chunk)
    }

    /// Returns the Write chunks in their order.
    pub fn writes(&self) -> Chunks<'m> {
        self.header.writes.iter(self.message)
    }

    /// Returns the number of Write chunks.
    pub fn write_chunks(&self) -> u32 {
        self.header.writes.chunks()
    }

    /// Returns the Reply chunk.
    pub fn reply(&self) -> Option<WriteChunk<'m>> {
        let chunk = self.header.reply?;
        Some(chunk.of(self.message))
    }

    /// Returns the error that refuses this Call for `reason`.
    pub(crate) fn refuse(&self, reason: Reason) -> DecodeError {
        reason.of(self.header.xid)
    }
}

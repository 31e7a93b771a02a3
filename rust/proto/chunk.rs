// SPDX-License-Identifier: GPL-2.0

//! Segments, the Write list and the Reply chunk of a Call (RFC 8166, sections 3.4 and 4.3).
//!
//! A list is a span of the received message: the offset of its first element and the number of its
//! elements. [`decode`](crate::decode::decode) makes the lists after it has walked over all their
//! elements, so iterators never reach the end of the message that was decoded.

pub use crate::read_list::{
    ReadSegment,
    ReadSegments,
    MAX_UNSORTED_CHUNKS, //
};

use crate::error::Reason;
use crate::wire;
use crate::wire::Reader;

/// The most Write chunks that the server accepts in a Call. RFC 8267, section 6.4.2, demands at
/// least one.
pub const MAX_WRITE_CHUNKS: u32 = 16;

/// Bytes of a segment on the wire: handle, length, offset.
pub(crate) const SEGMENT_LEN: usize = 16;

/// A range of the client's memory (`xdr_rdma_segment`, RFC 8166, section 3.4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Steering tag (rkey) of the memory.
    pub handle: u32,
    /// Length in bytes. In a Write chunk or a Reply chunk of a Call it is an upper bound.
    pub length: u32,
    /// Address of the first byte in the client's address space.
    pub offset: u64,
}

impl Segment {
    /// Decodes a segment.
    pub(crate) fn decode(raw: &[u8; SEGMENT_LEN]) -> Self {
        let raw = u128::from_be_bytes(*raw);
        Self {
            handle: (raw >> 96) as u32,
            length: (raw >> 64) as u32,
            offset: raw as u64,
        }
    }
}

/// The place of a Write chunk or a Reply chunk in its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Offset of the first segment.
    at: u32,
    /// Number of segments.
    count: u32,
}

impl Chunk {
    /// Reads a chunk, beginning at its segment count, from `reader`.
    fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        let count = reader.word()?;
        let at = reader.at();
        reader.skip(count, SEGMENT_LEN)?;
        Some(Self { at, count })
    }

    /// Reads a Reply chunk, which may be absent, from `reader` (RFC 8166, section 4.3.3).
    pub(crate) fn parse_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, Reason> {
        if !is_present(reader)? {
            return Ok(None);
        }
        Self::parse(reader).map(Some).ok_or(Reason::Truncated)
    }

    /// Returns this chunk of `message`.
    pub(crate) fn of(self, message: &[u8]) -> WriteChunk<'_> {
        WriteChunk {
            segments: items(message, self.at, self.count, SEGMENT_LEN),
        }
    }

    /// Sets the lengths of the segments to those of `written` bytes, which fill them in order.
    /// `lists` is a copy of the message from byte `from` on. Returns `None` if it is too short.
    pub(crate) fn set_written(self, lists: &mut [u8], from: u32, written: u32) -> Option<()> {
        let at = self.at.checked_sub(from)? as usize;
        let len = (self.count as usize).checked_mul(SEGMENT_LEN)?;
        let segments = lists.get_mut(at..)?.get_mut(..len)?;
        let mut left = written;
        for segment in segments.chunks_exact_mut(SEGMENT_LEN) {
            let length = segment.get_mut(4..8)?;
            let offered = u32::from_be_bytes(*length.first_chunk()?);
            let filled = offered.min(left);
            left = left.saturating_sub(filled);
            length.copy_from_slice(&filled.to_be_bytes());
        }
        Some(())
    }
}

/// A Write chunk or a Reply chunk. Its segments are filled in their order (RFC 8166, section
/// 3.4.6).
#[derive(Clone, Copy, Debug)]
pub struct WriteChunk<'m> {
    /// The bytes of the segments.
    segments: &'m [u8],
}

impl<'m> WriteChunk<'m> {
    /// Returns the segments in order.
    pub fn segments(&self) -> Segments<'m> {
        Segments(self.segments)
    }

    /// Returns the number of bytes that fit into the chunk.
    pub fn capacity(&self) -> u64 {
        let lengths = self.segments().map(|segment| u64::from(segment.length));
        lengths.fold(0, u64::saturating_add)
    }
}

/// Iterator over the segments of a [`WriteChunk`].
#[derive(Clone, Debug)]
pub struct Segments<'m>(&'m [u8]);

impl Iterator for Segments<'_> {
    type Item = Segment;

    #[inline]
    fn next(&mut self) -> Option<Segment> {
        let (raw, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(Segment::decode(raw))
    }
}

/// The Write list of a Call (RFC 8166, section 4.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteList {
    /// Offset of the discriminator of the first element.
    at: u32,
    /// Number of Write chunks.
    count: u32,
}

impl WriteList {
    /// Returns a list without elements at byte `at`.
    pub(crate) const fn empty(at: u32) -> Self {
        Self { at, count: 0 }
    }

    /// Reads a Write list from `reader`.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Reason> {
        let mut list = Self::empty(reader.at());
        while is_present(reader)? {
            Chunk::parse(reader).ok_or(Reason::Truncated)?;
            list.count = list.count.saturating_add(1);
        }
        Ok(list)
    }

    /// Returns the offset of the list in bytes.
    pub(crate) fn at(&self) -> u32 {
        self.at
    }

    /// Returns the number of Write chunks.
    pub(crate) fn chunks(&self) -> u32 {
        self.count
    }

    /// Returns the Write chunks in their order.
    pub(crate) fn iter<'m>(&self, message: &'m [u8]) -> Chunks<'m> {
        Chunks {
            message,
            rest: self.walk(),
        }
    }

    /// Starts a walk that does not borrow the message.
    pub(crate) fn walk(&self) -> ChunkWalk {
        ChunkWalk {
            at: self.at,
            left: self.count,
        }
    }
}

/// The rest of a walk over a [`WriteList`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkWalk {
    /// Offset of the discriminator of the next element.
    at: u32,
    /// Write chunks that are left.
    left: u32,
}

impl ChunkWalk {
    /// Returns the next chunk.
    pub(crate) fn take(&mut self, message: &[u8]) -> Option<Chunk> {
        self.left = self.left.checked_sub(1)?;
        let count = wire::word(message, self.at.checked_add(4)?)?;
        let at = self.at.checked_add(8)?;
        self.at = count.checked_mul(SEGMENT_LEN as u32)?.checked_add(at)?;
        Some(Chunk { at, count })
    }
}

/// Iterator over the Write chunks of a Call.
#[derive(Clone, Debug)]
pub struct Chunks<'m> {
    message: &'m [u8],
    rest: ChunkWalk,
}

impl<'m> Iterator for Chunks<'m> {
    type Item = WriteChunk<'m>;

    fn next(&mut self) -> Option<WriteChunk<'m>> {
        let chunk = self.rest.take(self.message)?;
        Some(chunk.of(self.message))
    }
}

/// Returns the bytes of `count` items of `size` bytes each, which begin at byte `at` of `message`,
/// or no bytes if the message is too short.
pub(crate) fn items(message: &[u8], at: u32, count: u32, size: usize) -> &[u8] {
    let len = (count as usize).saturating_mul(size);
    let rest = message.get(at as usize..);
    rest.and_then(|rest| rest.get(..len)).unwrap_or(&[])
}

/// Reads a list discriminator. Returns true if an item follows (RFC 8166, section 4.3).
pub(crate) fn is_present(reader: &mut Reader<'_>) -> Result<bool, Reason> {
    match reader.word() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(_) => Err(Reason::Discriminator),
        None => Err(Reason::Truncated),
    }
}

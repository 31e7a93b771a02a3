// SPDX-License-Identifier: GPL-2.0

//! Segments and the three chunk lists of a Call (RFC 8166, sections 3.4 and 4.3).
//!
//! A list is a span of the received message: the offset of its first element and the number of its
//! elements. [`decode`](crate::decode::decode) makes the lists after it has walked over all their
//! elements, so iterators never reach the end of the message that was decoded.

use crate::error::Reason;
use crate::wire;
use crate::wire::Reader;

/// The most Write chunks that the server accepts in a Call. RFC 8267, section 6.4.2, demands at
/// least one.
pub const MAX_WRITE_CHUNKS: u32 = 16;

/// Bytes of a segment on the wire: handle, length, offset.
pub(crate) const SEGMENT_LEN: u32 = 16;

/// Bytes of a Read list element: discriminator, position, segment.
const READ_LEN: u32 = 24;

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
    /// Reads the segment at byte `at` of `message`.
    pub(crate) fn read(message: &[u8], at: u32) -> Option<Self> {
        let raw = u128::from_be_bytes(*wire::bytes(message, at)?);
        Some(Self {
            handle: (raw >> 96) as u32,
            length: (raw >> 64) as u32,
            offset: raw as u64,
        })
    }
}

/// An element of the Read list (`xdr_read_chunk`, RFC 8166, section 3.4.5).
///
/// All elements with the same position form one Read chunk, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSegment {
    /// Offset of the first byte of the chunk in the unreduced Call, in bytes.
    pub position: u32,
    /// The client's memory.
    pub segment: Segment,
}

impl ReadSegment {
    /// Reads the Read list element whose discriminator is at byte `at` of `message`.
    fn read(message: &[u8], at: u32) -> Option<Self> {
        Some(Self {
            position: wire::word(message, at.checked_add(4)?)?,
            segment: Segment::read(message, at.checked_add(8)?)?,
        })
    }
}

/// The offsets of list elements of equal size.
#[derive(Clone, Copy, Debug)]
struct Steps {
    /// Offset of the next element.
    at: u32,
    /// Elements that are left.
    left: u32,
    /// Bytes of an element.
    step: u32,
}

impl Steps {
    /// Returns the next offset.
    fn take(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        self.at = at.checked_add(self.step)?;
        Some(at)
    }
}

/// A Read chunk: all elements of the Read list with one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadChunk {
    /// Offset of the first byte of the chunk in the unreduced Call, in bytes.
    pub(crate) position: u32,
    /// Bytes of all segments.
    pub(crate) len: u64,
}

/// The Read list of a Call (RFC 8166, section 4.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadList {
    /// Offset of the discriminator of the first element.
    at: u32,
    /// Number of elements.
    count: u32,
}

impl ReadList {
    /// A list without elements.
    pub(crate) const EMPTY: Self = Self { at: 0, count: 0 };

    /// Reads a Read list from `reader`.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Reason> {
        let at = reader.at();
        let mut count = 0u32;
        while is_present(reader)? {
            // Position and segment.
            reader.skip(1, 4 + SEGMENT_LEN).ok_or(Reason::Truncated)?;
            count = count.saturating_add(1);
        }
        Ok(Self { at, count })
    }

    /// Returns true if the list has no elements.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the elements in the order of the list.
    pub(crate) fn iter<'m>(&self, message: &'m [u8]) -> ReadSegments<'m> {
        ReadSegments {
            message,
            steps: Steps {
                at: self.at,
                left: self.count,
                step: READ_LEN,
            },
        }
    }

    /// Returns element number `index`.
    pub(crate) fn get(&self, message: &[u8], index: u32) -> Option<ReadSegment> {
        if index >= self.count {
            return None;
        }
        let at = index.checked_mul(READ_LEN)?.checked_add(self.at)?;
        ReadSegment::read(message, at)
    }

    /// Returns the length of the chunk at `position` in bytes, or `None` if no chunk is there.
    pub(crate) fn len_at(&self, message: &[u8], position: u32) -> Option<u64> {
        let mut len = None;
        for read in self.iter(message).filter(|read| read.position == position) {
            let sum = len.unwrap_or(0u64);
            len = Some(sum.saturating_add(u64::from(read.segment.length)));
        }
        len
    }

    /// Returns the chunk with the lowest position above `position`.
    pub(crate) fn next_chunk(&self, message: &[u8], position: u32) -> Option<ReadChunk> {
        let mut found: Option<ReadChunk> = None;
        for read in self.iter(message).filter(|read| read.position > position) {
            let length = u64::from(read.segment.length);
            match &mut found {
                Some(chunk) if chunk.position < read.position => {}
                Some(chunk) if chunk.position == read.position => {
                    chunk.len = chunk.len.saturating_add(length);
                }
                _ => {
                    found = Some(ReadChunk {
                        position: read.position,
                        len: length,
                    });
                }
            }
        }
        found
    }
}

/// Iterator over the elements of a Read list.
#[derive(Clone, Debug)]
pub struct ReadSegments<'m> {
    message: &'m [u8],
    steps: Steps,
}

impl Iterator for ReadSegments<'_> {
    type Item = ReadSegment;

    fn next(&mut self) -> Option<ReadSegment> {
        ReadSegment::read(self.message, self.steps.take()?)
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
            message,
            chunk: self,
        }
    }
}

/// A Write chunk or a Reply chunk. Its segments are filled in their order (RFC 8166, section
/// 3.4.6).
#[derive(Clone, Copy, Debug)]
pub struct WriteChunk<'m> {
    message: &'m [u8],
    chunk: Chunk,
}

impl<'m> WriteChunk<'m> {
    /// Returns the number of segments.
    pub fn len(&self) -> u32 {
        self.chunk.count
    }

    /// Returns true if the chunk has no segments.
    pub fn is_empty(&self) -> bool {
        self.chunk.count == 0
    }

    /// Returns the segments in order.
    pub fn segments(&self) -> Segments<'m> {
        Segments {
            message: self.message,
            steps: Steps {
                at: self.chunk.at,
                left: self.chunk.count,
                step: SEGMENT_LEN,
            },
        }
    }

    /// Returns the number of bytes that fit into the chunk.
    pub fn capacity(&self) -> u64 {
        let lengths = self.segments().map(|segment| u64::from(segment.length));
        lengths.fold(0, u64::saturating_add)
    }

    /// Returns the number of bytes of the chunk on the wire: discriminator, count, segments.
    pub(crate) fn wire_len(&self) -> u64 {
        u64::from(self.chunk.count)
            .saturating_mul(u64::from(SEGMENT_LEN))
            .saturating_add(8)
    }
}

/// Iterator over the segments of a [`WriteChunk`].
#[derive(Clone, Debug)]
pub struct Segments<'m> {
    message: &'m [u8],
    steps: Steps,
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        Segment::read(self.message, self.steps.take()?)
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
    /// A list without elements.
    pub(crate) const EMPTY: Self = Self { at: 0, count: 0 };

    /// Reads a Write list from `reader`.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Reason> {
        let at = reader.at();
        let mut count = 0u32;
        while is_present(reader)? {
            Chunk::parse(reader).ok_or(Reason::Truncated)?;
            count = count.saturating_add(1);
        }
        Ok(Self { at, count })
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
        self.at = count.checked_mul(SEGMENT_LEN)?.checked_add(at)?;
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

/// Reads a list discriminator. Returns true if an item follows (RFC 8166, section 4.3).
fn is_present(reader: &mut Reader<'_>) -> Result<bool, Reason> {
    match reader.word() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(_) => Err(Reason::Discriminator),
        None => Err(Reason::Truncated),
    }
}

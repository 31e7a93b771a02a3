// SPDX-License-Identifier: GPL-2.0

//! Segments and the three chunk lists of a Call (RFC 8166, sections 3.4 and 4.3).
//!
//! A list is a span of the received message: where its first element lies and how many there are.
//! [`decode`](crate::header::decode) makes them after it has walked the whole list, so iterating
//! never runs out of the message that was decoded.

use crate::error::Reason;
use crate::wire;
use crate::wire::Reader;

/// Most Write chunks of a Call. RFC 8267, section 6.4.2, wants one at least.
pub const MAX_WRITE_CHUNKS: u32 = 16;

/// Bytes of a segment on the wire: handle, length, offset.
pub(crate) const SEGMENT_LEN: u32 = 16;

/// Bytes of a Read list element: discriminator, position, segment.
const READ_LEN: u32 = 24;

/// A piece of the client's memory (`xdr_rdma_segment`, RFC 8166, section 3.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Steering tag (rkey) that the memory is registered under.
    pub handle: u32,
    /// Length in bytes; in a Write or Reply chunk of a Call an upper bound.
    pub length: u32,
    /// Address of the first byte, in the client's terms.
    pub offset: u64,
}

impl Segment {
    /// Reads the segment at byte `at` of `msg`.
    fn read(msg: &[u8], at: u32) -> Option<Self> {
        let raw = u128::from_be_bytes(*wire::bytes(msg, at)?);
        Some(Self {
            handle: (raw >> 96) as u32,
            length: (raw >> 64) as u32,
            offset: raw as u64,
        })
    }
}

/// An element of the Read list (`xdr_read_chunk`, RFC 8166, section 3.4.5).
///
/// All elements of one position form one Read chunk, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSegment {
    /// Where the chunk's first byte lies in the unreduced Call, in bytes.
    pub position: u32,
    /// The client's memory.
    pub segment: Segment,
}

/// Yields `count` spans of the wire form, `step` bytes apart.
#[derive(Clone, Copy, Debug)]
struct Steps {
    at: u32,
    left: u32,
    step: u32,
}

impl Steps {
    /// Takes the next offset.
    fn take(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        self.at = at.checked_add(self.step)?;
        Some(at)
    }
}

/// One Read chunk as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadChunk {
    /// Where its first byte lies in the unreduced Call, in bytes.
    pub(crate) position: u32,
    /// Bytes of all its segments.
    pub(crate) len: u64,
}

/// The Read list of a Call (RFC 8166, section 4.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadList {
    /// Offset of the first element's discriminator.
    at: u32,
    count: u32,
}

impl ReadList {
    /// A list without elements.
    pub const EMPTY: Self = Self { at: 0, count: 0 };

    /// Takes a Read list off `reader`.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Reason> {
        let at = reader.at();
        let mut count = 0u32;
        while present(reader)? {
            // Position and segment.
            reader.skip(1, 4 + SEGMENT_LEN).ok_or(Reason::Truncated)?;
            count = count.saturating_add(1);
        }
        Ok(Self { at, count })
    }

    /// Whether the client offered no Read chunk.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether all positions are multiples of 4.
    pub(crate) fn is_aligned(&self, msg: &[u8]) -> bool {
        self.iter(msg).all(|read| read.position & 3 == 0)
    }

    /// Returns the elements in the order of the list.
    pub fn iter<'a>(&self, msg: &'a [u8]) -> ReadSegments<'a> {
        ReadSegments {
            msg,
            steps: Steps {
                at: self.at,
                left: self.count,
                step: READ_LEN,
            },
        }
    }

    /// Returns element number `index`.
    pub(crate) fn get(&self, msg: &[u8], index: u32) -> Option<ReadSegment> {
        if index >= self.count {
            return None;
        }
        let at = index.checked_mul(READ_LEN)?.checked_add(self.at)?;
        read_segment(msg, at)
    }

    /// Returns the length of the chunk at `position`, in bytes; `None` when there is none.
    pub(crate) fn len_at(&self, msg: &[u8], position: u32) -> Option<u64> {
        let mut len = None;
        for read in self.iter(msg).filter(|read| read.position == position) {
            len = Some(u64::saturating_add(
                len.unwrap_or(0),
                u64::from(read.segment.length),
            ));
        }
        len
    }

    /// Returns the chunk with the lowest position behind `position`.
    pub(crate) fn next_chunk(&self, msg: &[u8], position: u32) -> Option<ReadChunk> {
        let mut found: Option<ReadChunk> = None;
        for read in self.iter(msg).filter(|read| read.position > position) {
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

/// Reads the Read list element whose discriminator lies at byte `at`.
fn read_segment(msg: &[u8], at: u32) -> Option<ReadSegment> {
    Some(ReadSegment {
        position: wire::word(msg, at.checked_add(4)?)?,
        segment: Segment::read(msg, at.checked_add(8)?)?,
    })
}

/// Iterator over a [`ReadList`].
#[derive(Clone, Debug)]
pub struct ReadSegments<'a> {
    msg: &'a [u8],
    steps: Steps,
}

impl Iterator for ReadSegments<'_> {
    type Item = ReadSegment;

    fn next(&mut self) -> Option<ReadSegment> {
        read_segment(self.msg, self.steps.take()?)
    }
}

/// A Write chunk or a Reply chunk: segments filled in order (RFC 8166, section 3.4.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Offset of the first segment.
    at: u32,
    count: u32,
}

impl Chunk {
    /// Takes a chunk, from its segment count on, off `reader`.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        let count = reader.word()?;
        let at = reader.at();
        reader.skip(count, SEGMENT_LEN)?;
        Some(Self { at, count })
    }

    /// Takes a Reply chunk off `reader`, which may be absent (RFC 8166, section 4.3.3).
    pub(crate) fn parse_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, Reason> {
        if !present(reader)? {
            return Ok(None);
        }
        Self::parse(reader).map(Some).ok_or(Reason::Truncated)
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> u32 {
        self.count
    }

    /// Returns the segments in order.
    pub fn iter<'a>(&self, msg: &'a [u8]) -> Segments<'a> {
        Segments {
            msg,
            steps: Steps {
                at: self.at,
                left: self.count,
                step: SEGMENT_LEN,
            },
        }
    }

    /// Returns how many bytes the chunk can take.
    pub fn capacity(&self, msg: &[u8]) -> u64 {
        self.iter(msg).fold(0, |sum, segment| {
            u64::saturating_add(sum, u64::from(segment.length))
        })
    }

    /// Returns segment number `index`.
    pub(crate) fn get(&self, msg: &[u8], index: u32) -> Option<Segment> {
        if index >= self.count {
            return None;
        }
        let at = index.checked_mul(SEGMENT_LEN)?.checked_add(self.at)?;
        Segment::read(msg, at)
    }

    /// Returns the bytes the chunk takes on the wire: discriminator, count, segments.
    pub(crate) fn wire_len(&self) -> u64 {
        u64::from(self.count)
            .saturating_mul(u64::from(SEGMENT_LEN))
            .saturating_add(8)
    }
}

/// Iterator over the segments of a [`Chunk`].
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    msg: &'a [u8],
    steps: Steps,
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        Segment::read(self.msg, self.steps.take()?)
    }
}

/// The Write list of a Call (RFC 8166, section 4.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteList {
    /// Offset of the first element's discriminator.
    at: u32,
    count: u32,
}

impl WriteList {
    /// A list without elements.
    pub const EMPTY: Self = Self { at: 0, count: 0 };

    /// Takes a Write list off `reader`.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Reason> {
        let at = reader.at();
        let mut count = 0u32;
        while present(reader)? {
            Chunk::parse(reader).ok_or(Reason::Truncated)?;
            count = count.saturating_add(1);
        }
        Ok(Self { at, count })
    }

    /// Whether the client offered no Write chunk.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of Write chunks.
    pub fn chunks(&self) -> u32 {
        self.count
    }

    /// Returns the Write chunks in order.
    pub fn iter<'a>(&self, msg: &'a [u8]) -> Chunks<'a> {
        Chunks {
            msg,
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

/// What is left of a walk over a [`WriteList`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkWalk {
    at: u32,
    left: u32,
}

impl ChunkWalk {
    /// Takes the next chunk.
    pub(crate) fn take(&mut self, msg: &[u8]) -> Option<Chunk> {
        self.left = self.left.checked_sub(1)?;
        let count = wire::word(msg, self.at.checked_add(4)?)?;
        let at = self.at.checked_add(8)?;
        self.at = count.checked_mul(SEGMENT_LEN)?.checked_add(at)?;
        Some(Chunk { at, count })
    }
}

/// Iterator over a [`WriteList`].
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    msg: &'a [u8],
    rest: ChunkWalk,
}

impl Iterator for Chunks<'_> {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        self.rest.take(self.msg)
    }
}

/// Takes a list discriminator: whether an item follows (RFC 8166, section 4.3).
fn present(reader: &mut Reader<'_>) -> Result<bool, Reason> {
    match reader.word() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(_) => Err(Reason::Discriminator),
        None => Err(Reason::Truncated),
    }
}

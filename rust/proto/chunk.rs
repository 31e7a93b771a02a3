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
pub(crate) const SEGMENT_LEN: usize = 16;

/// Bytes of a Read list element behind its discriminator: position, segment.
const READ_LEN: usize = 20;

/// Bytes of a Read list element.
const ELEMENT_LEN: usize = 24;

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
    /// Decodes a Read list element behind its discriminator.
    fn decode(raw: &[u8; READ_LEN]) -> Option<Self> {
        Some(Self {
            position: u32::from_be_bytes(*raw.first_chunk()?),
            segment: Segment::decode(raw.last_chunk()?),
        })
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
///
/// # Invariants
///
/// - `bytes` is the sum of the lengths of all elements.
/// - `only` is the position of all elements, or `None` if they have none in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadList {
    /// Offset of the discriminator of the first element.
    at: u32,
    /// Number of elements.
    count: u32,
    /// Bytes of all elements.
    bytes: u64,
    /// Position of the only chunk. Nearly all lists have at most one, which is found without a walk.
    only: Option<u32>,
}

impl ReadList {
    /// Returns a list without elements at byte `at`.
    pub(crate) const fn empty(at: u32) -> Self {
        // INVARIANT: There is no element.
        Self {
            at,
            count: 0,
            bytes: 0,
            only: None,
        }
    }

    /// Reads a Read list from `reader`.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Reason> {
        let mut list = Self::empty(reader.at());
        while is_present(reader)? {
            let raw = reader.bytes().ok_or(Reason::Truncated)?;
            list.add(&ReadSegment::decode(raw).ok_or(Reason::Truncated)?);
        }
        Ok(list)
    }

    /// Adds the element `read`, which follows the others in the message.
    fn add(&mut self, read: &ReadSegment) {
        // INVARIANT: Once two elements have different positions, it stays `None`.
        self.only = match self.count {
            0 => Some(read.position),
            _ => self.only.filter(|only| *only == read.position),
        };
        self.bytes = self.bytes.saturating_add(u64::from(read.segment.length));
        self.count = self.count.saturating_add(1);
    }

    /// Returns true if the list has no elements.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the elements in the order of the list.
    pub(crate) fn iter<'m>(&self, message: &'m [u8]) -> ReadSegments<'m> {
        ReadSegments(items(message, self.at, self.count, ELEMENT_LEN))
    }

    /// Returns element number `index`.
    pub(crate) fn get(&self, message: &[u8], index: u32) -> Option<ReadSegment> {
        if index >= self.count {
            return None;
        }
        let at = (index as usize).checked_mul(ELEMENT_LEN)?;
        let raw = wire::bytes::<ELEMENT_LEN>(message, at.checked_add(self.at as usize)?)?;
        ReadSegment::decode(raw.last_chunk()?)
    }

    /// Returns the number of bytes of all elements.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if all positions are multiples of 4.
    pub(crate) fn is_aligned(&self, message: &[u8]) -> bool {
        match self.only {
            Some(position) => position & 3 == 0,
            None if self.is_empty() => true,
            None => self.iter(message).all(|read| read.position & 3 == 0),
        }
    }

    /// Returns the length of the chunk at `position` in bytes, or `None` if no chunk is there.
    pub(crate) fn len_at(&self, message: &[u8], position: u32) -> Option<u64> {
        match self.only {
            Some(only) => (only == position).then_some(self.bytes),
            None if self.is_empty() => None,
            None => self.find_len(message, position),
        }
    }

    /// Finds the length of the chunk at `position` in a list of several chunks.
    fn find_len(&self, message: &[u8], position: u32) -> Option<u64> {
        let mut len = None;
        for read in self.iter(message).filter(|read| read.position == position) {
            let sum = len.unwrap_or(0u64);
            len = Some(sum.saturating_add(u64::from(read.segment.length)));
        }
        len
    }

    /// Returns the chunk with the lowest position above `position`.
    pub(crate) fn next_chunk(&self, message: &[u8], position: u32) -> Option<ReadChunk> {
        match self.only {
            Some(only) => (only > position).then_some(ReadChunk {
                position: only,
                len: self.bytes,
            }),
            None if self.is_empty() => None,
            None => self.find_chunk(message, position),
        }
    }

    /// Finds the chunk with the lowest position above `position` in a list of several chunks.
    // Out of line: few lists have several chunks.
    #[inline(never)]
    fn find_chunk(&self, message: &[u8], position: u32) -> Option<ReadChunk> {
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
pub struct ReadSegments<'m>(&'m [u8]);

impl Iterator for ReadSegments<'_> {
    type Item = ReadSegment;

    #[inline]
    fn next(&mut self) -> Option<ReadSegment> {
        let (raw, rest) = self.0.split_first_chunk::<ELEMENT_LEN>()?;
        self.0 = rest;
        ReadSegment::decode(raw.last_chunk()?)
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
            count: self.count,
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
    /// Number of segments.
    count: u32,
}

impl<'m> WriteChunk<'m> {
    /// Returns the number of segments.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Returns true if the chunk has no segments.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

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
fn items(message: &[u8], at: u32, count: u32, size: usize) -> &[u8] {
    let len = (count as usize).saturating_mul(size);
    let rest = message.get(at as usize..);
    rest.and_then(|rest| rest.get(..len)).unwrap_or(&[])
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

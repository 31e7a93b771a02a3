// SPDX-License-Identifier: GPL-2.0

//! The Read list of a Call (RFC 8166, sections 3.4.5 and 4.3.1).

use crate::chunk::{
    is_present,
    items,
    Segment, //
};
use crate::error::Reason;
use crate::wire;
use crate::wire::Reader;

/// Bytes of a Read list element behind its discriminator: position, segment.
const READ_LEN: usize = 20;

/// Bytes of a Read list element.
const ELEMENT_LEN: usize = 24;

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

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
use core::iter::successors;

/// The most Read chunks, position zero aside, that the server accepts in a list that is not in the
/// order of the positions. RFC 8267, section 6.4.2, demands at least one.
pub const MAX_UNSORTED_CHUNKS: usize = 8;

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
///
/// The default is a chunk that precedes all others but the position-zero Read chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadChunk {
    /// Offset of the first byte of the chunk in the unreduced Call, in bytes.
    pub(crate) position: u32,
    /// Index of the first element.
    pub(crate) first: u32,
    /// Bytes of all segments.
    pub(crate) len: u64,
}

/// The order of the positions in a Read list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    /// No element has a lower position than the one before it.
    #[default]
    Ascending,
    /// All elements have this position, as in nearly all lists. The chunk is found without a walk.
    One(u32),
    /// Any other order.
    Unsorted,
}

/// The Read list of a Call.
///
/// RFC 8166 leaves the order of its elements to the client. A walk in the order of the positions
/// passes over an ascending list once. It passes over an unsorted list once for each chunk, so
/// unsorted lists of more than [`MAX_UNSORTED_CHUNKS`] chunks are refused.
///
/// # Invariants
///
/// - `bytes` is the sum of the lengths of all elements.
/// - `order` is `One` if there are elements and all have the same position.
/// - After [`note_order`](Self::note_order), `order` is `Unsorted` if the positions do not ascend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadList {
    /// Offset of the discriminator of the first element.
    at: u32,
    /// Number of elements.
    count: u32,
    /// Bytes of all elements.
    bytes: u64,
    /// Order of the elements.
    order: Order,
}

impl ReadList {
    /// Returns a list without elements at byte `at`.
    pub(crate) const fn empty(at: u32) -> Self {
        // INVARIANT: There is no element.
        Self {
            at,
            count: 0,
            bytes: 0,
            order: Order::Ascending,
        }
    }

    /// Reads a Read list from `reader`. [`note_order`](Self::note_order) must follow.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Reason> {
        let (mut list, mut only) = (Self::empty(reader.at()), None);
        while is_present(reader)? {
            let raw = reader.bytes().ok_or(Reason::Truncated)?;
            let read = ReadSegment::decode(raw).ok_or(Reason::Truncated)?;
            // Once two elements have different positions, it stays `None`.
            only = match list.count {
                0 => Some(read.position),
                _ => only.filter(|only| *only == read.position),
            };
            list.bytes = list.bytes.saturating_add(u64::from(read.segment.length));
            list.count = list.count.saturating_add(1);
        }
        // INVARIANT: All elements were read.
        list.order = only.map_or(Order::Ascending, Order::One);
        Ok(list)
    }

    /// Notes the order of the elements of `message`, which were read before.
    // Apart from `parse`: that function, which each Call with chunks needs, calls no other.
    #[inline]
    pub(crate) fn note_order(&mut self, message: &[u8]) {
        if self.order == Order::Ascending && !self.is_empty() {
            self.compare_all(message);
        }
    }

    /// Notes the order of the elements of a list of several chunks.
    // Out of line: few lists have several chunks.
    #[inline(never)]
    fn compare_all(&mut self, message: &[u8]) {
        let is_sorted = self.iter(message).is_sorted_by_key(|read| read.position);
        // INVARIANT: All elements were compared.
        self.order = if is_sorted {
            Order::Ascending
        } else {
            Order::Unsorted
        };
    }

    /// Returns true if the list has no elements.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the elements in the order of the list.
    pub(crate) fn iter<'m>(&self, message: &'m [u8]) -> ReadSegments<'m> {
        self.iter_from(message, 0)
    }

    /// Returns the elements from number `index` on.
    fn iter_from<'m>(&self, message: &'m [u8], index: u32) -> ReadSegments<'m> {
        let before = index.saturating_mul(ELEMENT_LEN as u32);
        let at = self.at.saturating_add(before);
        let count = self.count.saturating_sub(index);
        ReadSegments(items(message, at, count, ELEMENT_LEN))
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

    /// Checks that all positions are multiples of 4, and that an unsorted list has few chunks.
    ///
    /// # Errors
    ///
    /// Returns [`Reason::Misaligned`] or [`Reason::TooMany`] if not.
    pub(crate) fn check(&self, message: &[u8]) -> Result<(), Reason> {
        match self.order {
            Order::One(position) if position & 3 == 0 => Ok(()),
            Order::One(_) => Err(Reason::Misaligned),
            _ if self.is_empty() => Ok(()),
            _ => self.check_all(message),
        }
    }

    /// Does so for a list of several chunks.
    // Out of line: few lists have several chunks.
    #[inline(never)]
    fn check_all(&self, message: &[u8]) -> Result<(), Reason> {
        if self.iter(message).any(|read| read.position & 3 != 0) {
            return Err(Reason::Misaligned);
        }
        let before = Some(ReadChunk::default());
        let mut chunks = successors(before, |chunk| self.next_chunk(message, chunk)).skip(1);
        if self.order == Order::Unsorted && chunks.nth(MAX_UNSORTED_CHUNKS).is_some() {
            Err(Reason::TooMany)
        } else {
            Ok(())
        }
    }

    /// Returns the length of the chunk at `position` in bytes, or `None` if no chunk is there.
    pub(crate) fn len_at(&self, message: &[u8], position: u32) -> Option<u64> {
        match self.order {
            Order::One(only) => (only == position).then_some(self.bytes),
            _ if self.is_empty() => None,
            _ => self.find_len(message, position),
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

    /// Returns the chunk that follows `chunk` in the order of the positions.
    pub(crate) fn next_chunk(&self, message: &[u8], chunk: &ReadChunk) -> Option<ReadChunk> {
        match self.order {
            Order::One(only) => (only > chunk.position).then_some(ReadChunk {
                position: only,
                first: 0,
                len: self.bytes,
            }),
            _ if self.is_empty() => None,
            _ => self.find_chunk(message, chunk.position, chunk.first),
        }
    }

    /// Finds the chunk that follows one at `position`, whose first element is number `first`, in a
    /// list of several chunks.
    // Out of line: few lists have several chunks.
    #[inline(never)]
    fn find_chunk(&self, message: &[u8], position: u32, first: u32) -> Option<ReadChunk> {
        let from = match self.order {
            Order::Unsorted => 0,
            // No element before has a higher position.
            _ => first,
        };
        let mut found: Option<ReadChunk> = None;
        for (index, read) in (from..self.count).zip(self.iter_from(message, from)) {
            let length = u64::from(read.segment.length);
            match &mut found {
                _ if read.position <= position => {}
                Some(next) if next.position == read.position => {
                    next.len = next.len.saturating_add(length);
                }
                Some(_) if self.order == Order::Ascending => break,
                Some(next) if next.position < read.position => {}
                _ => {
                    found = Some(ReadChunk {
                        position: read.position,
                        first: index,
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

// SPDX-License-Identifier: GPL-2.0

//! The RDMA Writes of a Reply (RFC 8166, section 3.4.6): first the payloads, then the Reply chunk.
//!
//! The transport header of the Reply names the memory of the client and the bytes that go there,
//! segment by segment, in the order in which [`WriteCursor`] writes them. So the Writes follow from
//! the plan and the header of the Reply alone, and the Call is not needed any more.

use crate::chunk::{
    Segment,
    SEGMENT_LEN, //
};
use crate::reply::{
    KeptAt,
    ReplyPlan,
    BEFORE_LISTS, //
};
use crate::wire;

/// A contiguous RDMA Write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOp {
    /// The client's rkey.
    pub handle: u32,
    /// Address of the first byte in the client's memory.
    pub remote: u64,
    /// Offset of the first byte in the reply stream.
    pub src: u32,
    /// Length in bytes; never 0.
    pub len: u32,
}

/// Lists the RDMA Writes of a Reply. The caller may stop at any byte and continue later, with the
/// same plan and the same header.
///
/// # Invariants
///
/// `all` is 0, or neither `left` nor the length of `segment` is.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteCursor {
    /// The memory that is written next: the rest of a segment.
    segment: Segment,
    /// Offset of the next byte in the reply stream.
    src: u32,
    /// Bytes from there on that are contiguous in the reply stream.
    left: u32,
    /// Bytes that are not written yet.
    all: u32,
    /// Offset of the next item of the header.
    at: u32,
    /// Segments of the chunk that follow there.
    segments: u32,
    /// Index of the next payload.
    index: u32,
    /// Progress in the rest of the stream, which goes to the Reply chunk.
    kept: KeptAt,
}

impl WriteCursor {
    /// Starts before the first RDMA Write of the Reply `plan` with the transport header `header`.
    #[inline]
    pub fn new(plan: &ReplyPlan, header: &[u8]) -> Self {
        let mut cursor = Self {
            at: BEFORE_LISTS,
            all: plan.written_len(),
            ..Self::default()
        };
        if cursor.all > 0 {
            // INVARIANT: `settle` establishes it.
            cursor.settle(plan, header);
        }
        cursor
    }

    /// Returns the next contiguous RDMA Write, or `None` after the last one.
    #[inline]
    pub fn peek(&self) -> Option<WriteOp> {
        (self.all > 0).then_some(WriteOp {
            handle: self.segment.handle,
            remote: self.segment.offset,
            src: self.src,
            len: self.left.min(self.segment.length),
        })
    }

    /// Advances by `len` bytes, at most to the end of the operation that [`peek`](Self::peek)
    /// returns.
    #[inline]
    pub fn advance(&mut self, plan: &ReplyPlan, header: &[u8], len: u32) {
        let len = len.min(self.left).min(self.segment.length);
        self.all = self.all.saturating_sub(len);
        self.left = self.left.saturating_sub(len);
        self.src = self.src.saturating_add(len);
        self.segment.length = self.segment.length.saturating_sub(len);
        // A range that wraps around cannot be registered, so the client's adapter rejects it.
        self.segment.offset = self.segment.offset.wrapping_add(u64::from(len));
        if self.all > 0 && (self.left == 0 || self.segment.length == 0) {
            // INVARIANT: `settle` restores it.
            self.settle(plan, header);
        }
    }

    /// Continues with the next range of the reply stream and the next segment, if the last ones are
    /// written.
    fn settle(&mut self, plan: &ReplyPlan, header: &[u8]) {
        if self.left == 0 {
            self.next_range(plan);
        }
        while self.segment.length == 0 {
            let Some(segment) = self.next_segment(header) else {
                // A plan never exceeds the segments of the header.
                self.all = 0;
                return;
            };
            self.segment = segment;
        }
    }

    /// Begins the next range of the reply stream that is written.
    fn next_range(&mut self, plan: &ReplyPlan) {
        while let Some(payload) = plan.payload(self.index) {
            self.index = self.index.saturating_add(1);
            if payload.len > 0 {
                self.src = payload.offset;
                self.left = payload.len;
                return;
            }
        }
        let range = self.kept.take(plan).unwrap_or_default();
        self.src = range.start;
        self.left = range.end.saturating_sub(range.start);
    }

    /// Returns the next segment of the header, in the Write list or in the Reply chunk. Returns
    /// `None` if the header ends before.
    fn next_segment(&mut self, header: &[u8]) -> Option<Segment> {
        while self.segments == 0 {
            // A chunk begins with the word 1 and the number of its segments. A word 0 ends the
            // Write list, which the Reply chunk follows.
            let has_chunk = self.next_word(header)? == 1;
            if has_chunk {
                self.segments = self.next_word(header)?;
            }
        }
        let raw = wire::bytes(header, self.at as usize)?;
        self.at = self.at.checked_add(SEGMENT_LEN as u32)?;
        self.segments = self.segments.saturating_sub(1);
        Some(Segment::decode(raw))
    }

    /// Returns the next word of the header.
    fn next_word(&mut self, header: &[u8]) -> Option<u32> {
        let word = wire::word(header, self.at)?;
        self.at = self.at.checked_add(4)?;
        Some(word)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! How the sink of a Call gets its bytes: RDMA Reads, copies of inline bytes, and zeroes.

use crate::chunk::ReadSegment;
use crate::header::{
    Header,
    Kind, //
};
use crate::layout::Layout;
use crate::parts::{
    Part,
    Source,
    Walk, //
};

/// A contiguous RDMA Read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOp {
    /// The client's rkey.
    pub handle: u32,
    /// First byte in the client's memory.
    pub remote: u64,
    /// First byte in the sink.
    pub sink: u32,
    /// Bytes; never 0.
    pub len: u32,
}

/// A place in the segments of one Read chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Element of the Read list.
    index: u32,
    /// Bytes of it that were read.
    done: u32,
}

impl Place {
    /// Returns the segment this place is in, if it is one of the chunk at `position` and has
    /// bytes left.
    fn segment(&self, header: &Header, msg: &[u8], position: u32) -> Option<ReadSegment> {
        header
            .reads
            .get(msg, self.index)
            .filter(|read| read.position == position && read.segment.length > self.done)
    }

    /// Moves on to the next byte of the chunk at `position`; `false` when there is none.
    fn settle(&mut self, header: &Header, msg: &[u8], position: u32) -> bool {
        while self.segment(header, msg, position).is_none() {
            if header.reads.get(msg, self.index).is_none() {
                return false;
            }
            self.index = self.index.saturating_add(1);
            self.done = 0;
        }
        true
    }
}

/// Lists the RDMA Reads of a Call; may stop anywhere and go on later.
///
/// # Invariants
///
/// `part` is to be read by RDMA and the place that belongs to its source is in a segment with bytes
/// left; or it is `None` and there is nothing left to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadCursor {
    walk: Walk,
    part: Option<Part>,
    /// Place in the position-zero Read chunk, whose parts come one by one.
    base: Place,
    /// Place in the chunk of `part`.
    chunk: Place,
}

impl ReadCursor {
    /// Starts before the first RDMA Read that `layout` needs.
    pub fn new(layout: &Layout, header: &Header, msg: &[u8]) -> Self {
        let mut cursor = Self {
            walk: Walk::new(layout, header, msg),
            ..Self::default()
        };
        // INVARIANT: established by `settle`.
        cursor.settle(header, msg);
        cursor
    }

    /// Returns the next contiguous RDMA Read, `None` when all was listed.
    pub fn peek(&self, header: &Header, msg: &[u8]) -> Option<ReadOp> {
        let part = self.part?;
        let (place, position) = match part.source {
            Source::Base(_) => (self.base, 0),
            Source::Chunk(position) => (self.chunk, position),
            Source::Pad => return None,
        };
        let segment = place.segment(header, msg, position)?.segment;
        Some(ReadOp {
            handle: segment.handle,
            // Memory that wraps around is refused where it is registered, not here.
            remote: segment.offset.wrapping_add(u64::from(place.done)),
            sink: part.sink,
            len: part.len.min(segment.length.saturating_sub(place.done)),
        })
    }

    /// Moves on by `len` bytes, but not past the end of what [`peek`](Self::peek) returns.
    pub fn advance(&mut self, header: &Header, msg: &[u8], len: u32) {
        let Some(op) = self.peek(header, msg) else {
            return;
        };
        let Some(part) = &mut self.part else {
            return;
        };
        let len = len.min(op.len);
        part.sink = part.sink.saturating_add(len);
        part.len = part.len.saturating_sub(len);
        let place = match part.source {
            Source::Base(_) => &mut self.base,
            _ => &mut self.chunk,
        };
        place.done = place.done.saturating_add(len);
        // INVARIANT: reestablished by `settle`.
        self.settle(header, msg);
    }

    /// Moves on to the next byte that is to be read.
    fn settle(&mut self, header: &Header, msg: &[u8]) {
        loop {
            if let Some(part) = self.part.filter(|part| part.len > 0) {
                let found = match part.source {
                    Source::Base(_) if header.kind == Kind::Nomsg => {
                        self.base.settle(header, msg, 0)
                    }
                    Source::Chunk(position) => self.chunk.settle(header, msg, position),
                    _ => false,
                };
                if found {
                    return;
                }
            }
            self.chunk = Place::default();
            // A layout comes from `plan`, which has seen the whole walk succeed.
            self.part = self.walk.step(header, msg).unwrap_or(None);
            if self.part.is_none() {
                return;
            }
        }
    }
}

/// What the processor puts into the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Copy inline bytes.
    Copy {
        /// First byte in the received message.
        from: usize,
        /// Bytes; never 0.
        len: u32,
        /// First byte in the sink.
        sink: u32,
    },
    /// Write zeroes: the XDR pad that chunks leave out (RFC 8166, section 3.4.5.2).
    Zero {
        /// First byte in the sink.
        sink: u32,
        /// Bytes: 1..=3.
        len: u32,
    },
}

/// Iterator returned by [`fills`].
#[derive(Clone, Debug)]
pub struct Fills<'a> {
    walk: Walk,
    header: Header,
    msg: &'a [u8],
}

/// Returns what the processor puts into the sink of `layout`, in the order of the sink.
pub fn fills<'a>(layout: &Layout, header: &Header, msg: &'a [u8]) -> Fills<'a> {
    Fills {
        walk: Walk::new(layout, header, msg),
        header: *header,
        msg,
    }
}

impl Iterator for Fills<'_> {
    type Item = Fill;

    fn next(&mut self) -> Option<Fill> {
        loop {
            // A layout comes from `plan`, which has seen the whole walk succeed.
            let Part { source, sink, len } = self.walk.step(&self.header, self.msg).ok()??;
            match source {
                Source::Base(at) if self.header.kind == Kind::Msg => {
                    let from = self.header.body.saturating_add(at as usize);
                    return Some(Fill::Copy { from, len, sink });
                }
                Source::Pad => return Some(Fill::Zero { sink, len }),
                _ => {}
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The operations that fill the sink of a Call: RDMA Reads, copies of inline bytes, and zeroes.

use crate::chunk::ReadSegment;
use crate::header::{
    Kind,
    View, //
};
use crate::parts::{
    Part,
    Source,
    Walk, //
};
use crate::sink::Layout;

/// A contiguous RDMA Read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOp {
    /// The client's rkey.
    pub handle: u32,
    /// Address of the first byte in the client's memory.
    pub remote: u64,
    /// Offset of the first byte in the sink.
    pub sink: u32,
    /// Length in bytes; never 0.
    pub len: u32,
}

/// A place in the segments of one Read chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Index of the element in the Read list.
    index: u32,
    /// Bytes of the element that were read.
    done: u32,
}

impl Place {
    /// Returns the element at this place, if it belongs to the chunk at `position` and has bytes
    /// left.
    fn segment(&self, view: &View<'_>, position: u32) -> Option<ReadSegment> {
        view.read(self.index)
            .filter(|read| read.position == position && read.segment.length > self.done)
    }

    /// Advances to the next unread byte of the chunk at `position`. Returns false if all bytes were
    /// read.
    fn settle(&mut self, view: &View<'_>, position: u32) -> bool {
        while self.segment(view, position).is_none() {
            if view.read(self.index).is_none() {
                return false;
            }
            self.index = self.index.saturating_add(1);
            self.done = 0;
        }
        true
    }
}

/// Lists the RDMA Reads of a Call. The caller may stop at any byte and continue later.
///
/// # Invariants
///
/// `part` has bytes that RDMA Reads fill, and the place for its source is in a segment with unread
/// bytes; or `part` is `None` and all bytes were listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadCursor {
    walk: Walk,
    part: Option<Part>,
    /// Place in the position-zero Read chunk, which several parts share.
    base: Place,
    /// Place in the chunk of `part`.
    chunk: Place,
}

impl ReadCursor {
    /// Starts before the first RDMA Read of `layout`, which [`plan`](crate::layout::plan) chose for
    /// this Call.
    pub fn new(layout: &Layout, view: &View<'_>) -> Self {
        let mut cursor = Self {
            walk: Walk::new(layout, view),
            ..Self::default()
        };
        // INVARIANT: `settle` establishes it.
        cursor.settle(view);
        cursor
    }

    /// Returns the next contiguous RDMA Read, or `None` after the last one.
    pub fn peek(&self, view: &View<'_>) -> Option<ReadOp> {
        let part = self.part?;
        let (place, position) = match part.source {
            Source::Base(_) => (self.base, 0),
            Source::Chunk(position) => (self.chunk, position),
            Source::Pad => return None,
        };
        let segment = place.segment(view, position)?.segment;
        Some(ReadOp {
            handle: segment.handle,
            // A range that wraps around cannot be registered, so the client's adapter rejects it.
            remote: segment.offset.wrapping_add(u64::from(place.done)),
            sink: part.sink,
            len: part.len.min(segment.length.saturating_sub(place.done)),
        })
    }

    /// Advances by `len` bytes, at most to the end of the operation that [`peek`](Self::peek)
    /// returns.
    pub fn advance(&mut self, view: &View<'_>, len: u32) {
        let Some(op) = self.peek(view) else {
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
        // INVARIANT: `settle` restores it.
        self.settle(view);
    }

    /// Advances to the next byte that an RDMA Read fills.
    fn settle(&mut self, view: &View<'_>) {
        while !self.settle_part(view) {
            self.chunk = Place::default();
            // `plan` has walked over all parts of the layout without an error.
            self.part = self.walk.step(view).unwrap_or(None);
            if self.part.is_none() {
                return;
            }
        }
    }

    /// Advances to the next byte of `part` that an RDMA Read fills. Returns false if there is none.
    fn settle_part(&mut self, view: &View<'_>) -> bool {
        let Some(part) = self.part.filter(|part| part.len > 0) else {
            return false;
        };
        match part.source {
            Source::Base(_) if view.header().kind == Kind::Nomsg => self.base.settle(view, 0),
            Source::Chunk(position) => self.chunk.settle(view, position),
            _ => false,
        }
    }
}

/// An operation of the processor on the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Copies inline bytes.
    Copy {
        /// Offset of the first byte in the received message.
        from: usize,
        /// Length in bytes; never 0.
        len: u32,
        /// Offset of the first byte in the sink.
        sink: u32,
    },
    /// Writes zeroes: the XDR pad that chunks leave out (RFC 8166, section 3.4.5.2).
    Zero {
        /// Offset of the first byte in the sink.
        sink: u32,
        /// Length in bytes: 1 to 3.
        len: u32,
    },
}

/// Iterator returned by [`fills`].
#[derive(Clone, Debug)]
pub struct Fills<'m> {
    walk: Walk,
    view: View<'m>,
}

/// Returns the operations of the processor on the sink of `layout`, in the order of their bytes.
pub fn fills<'m>(layout: &Layout, view: &View<'m>) -> Fills<'m> {
    Fills {
        walk: Walk::new(layout, view),
        view: *view,
    }
}

impl Iterator for Fills<'_> {
    type Item = Fill;

    fn next(&mut self) -> Option<Fill> {
        let header = self.view.header();
        loop {
            // `plan` has walked over all parts of the layout without an error.
            let Part { source, sink, len } = self.walk.step(&self.view).ok()??;
            match source {
                Source::Base(at) if header.kind == Kind::Msg => {
                    let from = header.body.saturating_add(at as usize);
                    return Some(Fill::Copy { from, len, sink });
                }
                Source::Pad => return Some(Fill::Zero { sink, len }),
                _ => {}
            }
        }
    }
}

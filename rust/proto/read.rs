// SPDX-License-Identifier: GPL-2.0

//! The RDMA Reads that fill the sink of a Call.

use crate::header::{
    Kind,
    View, //
};
use crate::read_list::ReadChunk;
use crate::sink::Layout;
use crate::wire;

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
    /// Index of the next element of the Read list.
    next: u32,
    /// The client's rkey of the current segment.
    handle: u32,
    /// Address of the next byte in the client's memory.
    remote: u64,
    /// Bytes of the segment that were not read.
    room: u32,
}

impl Place {
    /// Returns the place before the segments of `chunk`.
    fn before(chunk: &ReadChunk) -> Self {
        Self {
            next: chunk.first,
            ..Self::default()
        }
    }

    /// Continues at the next segment of the chunk at `position` that has bytes. Returns false if
    /// there is none.
    // Passes over other chunks only in an unsorted list: `plan` has checked that each part has bytes.
    fn advance(&mut self, view: &View<'_>, position: u32) -> bool {
        while let Some(read) = view.read(self.next) {
            self.next = self.next.saturating_add(1);
            if read.position == position && read.segment.length > 0 {
                self.handle = read.segment.handle;
                self.remote = read.segment.offset;
                self.room = read.segment.length;
                return true;
            }
        }
        false
    }
}

/// The chunk that a [`ReadCursor`] reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Source {
    /// The one at the position of the cursor.
    #[default]
    Chunk,
    /// The position-zero chunk, up to the next chunk.
    Base,
}

/// Lists the RDMA Reads of a Call. The caller may stop at any byte and continue later.
///
/// # Invariants
///
/// `all` is 0, or neither `left` nor the room of `place` is.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadCursor {
    /// The place of the next byte.
    place: Place,
    /// The place in the position-zero chunk behind the bytes that precede the current chunk.
    base: Place,
    /// The chunk of `place`.
    source: Source,
    /// The last chunk that was begun, the position-zero chunk aside.
    chunk: ReadChunk,
    /// Offset of the next byte in the sink.
    sink: u32,
    /// Bytes from there on that have the same source. The last part of the position-zero chunk may
    /// have fewer.
    left: u32,
    /// Bytes of all chunks that were not read.
    all: u32,
}

impl ReadCursor {
    /// Starts before the first RDMA Read of `layout`, which [`plan`](crate::layout::plan) chose for
    /// this Call.
    pub fn new(layout: &Layout, view: &View<'_>) -> Self {
        // `plan` has checked that they fit into the sink.
        let all = u32::try_from(view.header().reads.bytes()).unwrap_or(0);
        let mut cursor = Self::default();
        match *layout {
            Layout::Inline => return cursor,
            Layout::Split { position, len, .. } => {
                // It is the only chunk.
                cursor.chunk.position = position;
                cursor.left = len;
            }
            Layout::Linear { .. } => {}
        }
        cursor.all = all;
        // INVARIANT: `settle` establishes it.
        cursor.settle(view);
        cursor
    }

    /// Returns the next contiguous RDMA Read, or `None` after the last one.
    #[inline]
    pub fn peek(&self) -> Option<ReadOp> {
        (self.all > 0).then_some(ReadOp {
            handle: self.place.handle,
            remote: self.place.remote,
            sink: self.sink,
            len: self.left.min(self.place.room),
        })
    }

    /// Advances by `len` bytes, at most to the end of the operation that [`peek`](Self::peek)
    /// returns.
    #[inline]
    pub fn advance(&mut self, view: &View<'_>, len: u32) {
        let len = len.min(self.left).min(self.place.room);
        // A range that wraps around cannot be registered, so the client's adapter rejects it.
        self.place.remote = self.place.remote.wrapping_add(u64::from(len));
        self.place.room = self.place.room.saturating_sub(len);
        self.sink = self.sink.saturating_add(len);
        self.left = self.left.saturating_sub(len);
        self.all = self.all.saturating_sub(len);
        if self.all > 0 && (self.left == 0 || self.place.room == 0) {
            // INVARIANT: `settle` restores it.
            self.settle(view);
        }
    }

    /// Advances to the next byte that an RDMA Read fills.
    fn settle(&mut self, view: &View<'_>) {
        loop {
            if self.left > 0 {
                let position = match self.source {
                    Source::Chunk => self.chunk.position,
                    Source::Base => 0,
                };
                if self.place.room > 0 || self.place.advance(view, position) {
                    return;
                }
                // The last part of the position-zero chunk may be shorter.
                self.left = 0;
            }
            if self.begin(view).is_none() {
                // Only in another Call than before.
                self.all = 0;
                return;
            }
        }
    }

    /// Begins the next chunk, or the next part of the position-zero chunk. Returns `None` after the
    /// last one.
    ///
    /// A chunk lies at its position in a Linear sink, and a Split sink has only one.
    // Out of line, as most segments belong to the same chunk as the ones before.
    #[inline(never)]
    fn begin(&mut self, view: &View<'_>) -> Option<()> {
        let chunk = view.next_read_chunk(&self.chunk);
        if view.header().kind == Kind::Nomsg && self.source == Source::Chunk {
            self.source = Source::Base;
            self.place = self.base;
            // Behind the XDR pad of the chunk before.
            self.sink = wire::padded(self.sink)?;
            // The last part ends with the last segment.
            let end = chunk.map_or(u32::MAX, |chunk| chunk.position);
            self.left = end.saturating_sub(self.sink);
            return Some(());
        }
        let chunk = chunk?;
        if self.source == Source::Base {
            self.base = self.place;
            self.source = Source::Chunk;
        }
        self.place = Place::before(&chunk);
        self.chunk = chunk;
        self.sink = chunk.position;
        // `plan` has checked that the chunk fits into the sink.
        self.left = u32::try_from(chunk.len).unwrap_or(0);
        Some(())
    }
}

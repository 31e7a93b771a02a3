// SPDX-License-Identifier: GPL-2.0

//! The RDMA Writes of a Reply (RFC 8166, section 3.4.6): first the payloads, then the Reply chunk.

use crate::chunk::{
    Chunk,
    ChunkWalk,
    Segment, //
};
use crate::header::View;
use crate::reply::{
    Form,
    KeptAt,
    ReplyPlan, //
};

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

/// The kind of range that a cursor writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Payloads, each to its Write chunk.
    #[default]
    Payloads,
    /// The rest of the stream, to the Reply chunk.
    Kept,
}

/// Lists the RDMA Writes of a Reply. The caller may stop at any byte and continue later, with the
/// same plan and the same Call.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteCursor {
    stage: Stage,
    /// The Write chunks that are left; `None` before the first one.
    chunks: Option<ChunkWalk>,
    /// Index of the next payload.
    index: u32,
    /// Progress in the rest of the stream.
    kept: KeptAt,
    /// The chunk that is filled.
    chunk: Chunk,
    /// Index of its segment.
    segment: u32,
    /// Bytes of the segment that were written.
    done: u32,
    /// Offset of the next byte in the reply stream.
    src: u32,
    /// Bytes from there on that belong to `chunk`.
    left: u32,
}

impl WriteCursor {
    /// Starts before the first RDMA Write.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the next contiguous RDMA Write, or `None` after the last one.
    pub fn peek(&self, plan: &ReplyPlan, view: &View<'_>) -> Option<WriteOp> {
        let mut settled = *self;
        settled.settle(plan, view)
    }

    /// Advances by `len` bytes, at most to the end of the operation that [`peek`](Self::peek)
    /// returns.
    pub fn advance(&mut self, plan: &ReplyPlan, view: &View<'_>, len: u32) {
        let Some(op) = self.settle(plan, view) else {
            return;
        };
        let len = len.min(op.len);
        self.done = self.done.saturating_add(len);
        self.src = self.src.saturating_add(len);
        self.left = self.left.saturating_sub(len);
    }

    /// Advances to the next byte that is to be written, and returns its operation.
    fn settle(&mut self, plan: &ReplyPlan, view: &View<'_>) -> Option<WriteOp> {
        loop {
            while self.left > 0 {
                let Some(segment) = self.chunk.get(view.message(), self.segment) else {
                    // A plan never exceeds the capacity of a chunk.
                    self.left = 0;
                    break;
                };
                if segment.length > self.done {
                    return Some(self.op(&segment));
                }
                self.segment = self.segment.saturating_add(1);
                self.done = 0;
            }
            self.begin(plan, view)?;
        }
    }

    /// Returns the operation at the current byte, which is in `segment`.
    fn op(&self, segment: &Segment) -> WriteOp {
        WriteOp {
            handle: segment.handle,
            // A range that wraps around cannot be registered, so the client's adapter rejects it.
            remote: segment.offset.wrapping_add(u64::from(self.done)),
            src: self.src,
            len: self.left.min(segment.length.saturating_sub(self.done)),
        }
    }

    /// Begins the next range of the reply stream. Returns `None` after the last one.
    fn begin(&mut self, plan: &ReplyPlan, view: &View<'_>) -> Option<()> {
        if self.stage == Stage::Payloads {
            if let Some(payload) = plan.payload(self.index) {
                let all = || view.header().writes.walk();
                let chunk = self.chunks.get_or_insert_with(all).take(view.message())?;
                self.fill(chunk);
                self.index = self.index.saturating_add(1);
                self.src = payload.offset;
                self.left = payload.len;
                return Some(());
            }
            if plan.form != Form::ReplyChunk {
                return None;
            }
            self.stage = Stage::Kept;
            self.fill(view.header().reply?);
        }
        let range = self.kept.take(plan)?;
        self.src = range.start;
        self.left = range.end.saturating_sub(range.start);
        Some(())
    }

    /// Continues at the first segment of `chunk`.
    fn fill(&mut self, chunk: Chunk) {
        self.chunk = chunk;
        self.segment = 0;
        self.done = 0;
    }
}

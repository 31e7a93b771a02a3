// SPDX-License-Identifier: GPL-2.0

//! The RDMA Writes of a reply (RFC 8166, section 3.4.6): payloads, then the Reply chunk.

use crate::chunk::{
    Chunk,
    ChunkWalk,
    Segment, //
};
use crate::header::Header;
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
    /// First byte in the client's memory.
    pub remote: u64,
    /// First byte in the reply stream.
    pub src: u32,
    /// Bytes; never 0.
    pub len: u32,
}

/// What the cursor is writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Payloads, each to its Write chunk.
    #[default]
    Payloads,
    /// The kept ranges, all to the Reply chunk.
    Kept,
}

/// Lists the RDMA Writes of a reply; may stop anywhere and go on later.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteCursor {
    stage: Stage,
    /// Write chunks that were not begun; `None` before the first.
    chunks: Option<ChunkWalk>,
    /// The payload that is begun next.
    index: u32,
    /// The kept range that is begun next.
    kept: KeptAt,
    /// The chunk being filled, its segment, and the bytes of that which are filled.
    chunk: Chunk,
    segment: u32,
    done: u32,
    /// The next byte of the reply stream, and how many are to go to `chunk` from there on.
    src: u32,
    left: u32,
}

impl WriteCursor {
    /// Starts before the first RDMA Write of `plan`.
    pub fn new(plan: &ReplyPlan) -> Self {
        // The plan is asked for because a cursor serves no other one.
        let _ = plan;
        Self::default()
    }

    /// Returns the next contiguous RDMA Write, `None` when all was listed.
    pub fn peek(&self, plan: &ReplyPlan, header: &Header, msg: &[u8]) -> Option<WriteOp> {
        let mut settled = *self;
        settled.settle(plan, header, msg)
    }

    /// Moves on by `len` bytes, but not past the end of what [`peek`](Self::peek) returns.
    pub fn advance(&mut self, plan: &ReplyPlan, header: &Header, msg: &[u8], len: u32) {
        let Some(op) = self.settle(plan, header, msg) else {
            return;
        };
        let len = len.min(op.len);
        self.done = self.done.saturating_add(len);
        self.src = self.src.saturating_add(len);
        self.left = self.left.saturating_sub(len);
    }

    /// Moves on to the next byte that is to be written and returns its operation.
    fn settle(&mut self, plan: &ReplyPlan, header: &Header, msg: &[u8]) -> Option<WriteOp> {
        loop {
            while self.left > 0 {
                let Some(segment) = self.chunk.get(msg, self.segment) else {
                    // A plan gives no chunk more than it can take.
                    self.left = 0;
                    break;
                };
                if segment.length > self.done {
                    return Some(self.op(&segment));
                }
                self.segment = self.segment.saturating_add(1);
                self.done = 0;
            }
            self.begin(plan, header, msg)?;
        }
    }

    /// Returns the operation that starts here, in `segment`.
    fn op(&self, segment: &Segment) -> WriteOp {
        WriteOp {
            handle: segment.handle,
            // Memory that wraps around is refused where it is registered, not here.
            remote: segment.offset.wrapping_add(u64::from(self.done)),
            src: self.src,
            len: self.left.min(segment.length.saturating_sub(self.done)),
        }
    }

    /// Begins the next range of the reply stream; `None` when there is none.
    fn begin(&mut self, plan: &ReplyPlan, header: &Header, msg: &[u8]) -> Option<()> {
        if self.stage == Stage::Payloads {
            if let Some(payload) = plan.payload(self.index) {
                let chunks = self.chunks.get_or_insert(header.writes.walk());
                let chunk = chunks.take(msg)?;
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
            self.fill(header.reply?);
        }
        let range = self.kept.take(plan)?;
        self.src = range.start;
        self.left = range.end.saturating_sub(range.start);
        Some(())
    }

    /// Turns to the first segment of `chunk`.
    fn fill(&mut self, chunk: Chunk) {
        self.chunk = chunk;
        self.segment = 0;
        self.done = 0;
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The parts that make up a Linear sink of a Call, in the order of their bytes.
//!
//! The *base stream* is the inline RPC message or the position-zero Read chunk. A Linear sink is
//! the base stream with the other Read chunks inserted at their positions, each followed by its XDR
//! pad.

use crate::error::Reason;
use crate::header::{
    Kind,
    View, //
};
use crate::read_list::ReadChunk;
use crate::wire;

/// The source of the bytes of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The base stream, from this byte on.
    Base(u32),
    /// A Read chunk.
    Chunk,
    /// Zeroes.
    Pad,
}

/// A contiguous range of the sink with one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) source: Source,
    /// Offset of the first byte in the sink.
    pub(crate) sink: u32,
    /// Length in bytes; never 0.
    pub(crate) len: u32,
}

/// A walk over the parts of a Linear sink.
///
/// # Invariants
///
/// `sink` is a multiple of 4 if `chunk` is `None` and `pad` is 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    /// Length of the base stream, in bytes.
    base: u32,
    /// Bytes of the base stream that were returned.
    taken: u32,
    /// Offset of the next part in the sink.
    sink: u32,
    /// The last chunk that was found.
    last_chunk: ReadChunk,
    /// The chunk that comes next.
    chunk: Option<ReadChunk>,
    /// Bytes of XDR pad that come next.
    pad: u32,
    /// Bytes of XDR pad behind the base stream.
    last: u32,
}

impl Walk {
    /// Starts a walk over the sink of a Call.
    ///
    /// # Errors
    ///
    /// Returns [`Reason::TooLarge`] if the base stream is too long.
    pub(crate) fn new(view: &View<'_>) -> Result<Self, Reason> {
        let base = match view.header().kind {
            Kind::Msg => view.inline_len(),
            Kind::Nomsg => length(view.read_len(0).unwrap_or(0))?,
        };
        Ok(Self {
            base,
            // Positions are multiples of 4, so bytes that precede a chunk need no pad.
            last: wire::pad(base),
            ..Self::default()
        })
    }

    /// Returns the next part, or `None` after the last one.
    ///
    /// # Errors
    ///
    /// Returns [`Reason::Overlap`], [`Reason::Beyond`] or [`Reason::TooLarge`] if the chunks of the
    /// Read list do not fit together.
    pub(crate) fn step(&mut self, view: &View<'_>) -> Result<Option<Part>, Reason> {
        loop {
            let part = if self.pad > 0 {
                let pad = core::mem::take(&mut self.pad);
                self.part(Source::Pad, pad)?
            } else if let Some(chunk) = self.chunk.take() {
                let len = length(chunk.len)?;
                self.pad = wire::pad(len);
                self.part(Source::Chunk, len)?
            } else {
                let gap = self.gap(view)?;
                if gap == 0 && self.chunk.is_none() {
                    return Ok(None);
                }
                let from = self.taken;
                self.taken = from.saturating_add(gap);
                self.part(Source::Base(from), gap)?
            };
            if part.len > 0 {
                return Ok(Some(part));
            }
        }
    }

    /// Finds the next chunk. Returns the number of bytes of the base stream that precede it, or
    /// that are left if no chunk follows.
    fn gap(&mut self, view: &View<'_>) -> Result<u32, Reason> {
        let left = self.base.saturating_sub(self.taken);
        let Some(chunk) = view.next_read_chunk(&self.last_chunk) else {
            self.pad = core::mem::take(&mut self.last);
            return Ok(left);
        };
        self.last_chunk = chunk;
        self.chunk = Some(chunk);
        match chunk.position.checked_sub(self.sink) {
            None => Err(Reason::Overlap),
            Some(gap) if gap > left => Err(Reason::Beyond),
            Some(gap) => Ok(gap),
        }
    }

    /// Returns a part of `len` bytes and advances to the byte behind it.
    fn part(&mut self, source: Source, len: u32) -> Result<Part, Reason> {
        let sink = self.sink;
        self.sink = sink.checked_add(len).ok_or(Reason::TooLarge)?;
        Ok(Part { source, sink, len })
    }
}

/// Returns a sum of segment lengths as the length of a part.
fn length(len: u64) -> Result<u32, Reason> {
    u32::try_from(len).map_err(|_| Reason::TooLarge)
}

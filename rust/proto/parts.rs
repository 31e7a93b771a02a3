// SPDX-License-Identifier: GPL-2.0

//! The parts a Call's sink is put together from, in the order of their bytes.
//!
//! A Linear sink is the base stream (inline message or position-zero Read chunk) with the other
//! Read chunks inserted at their positions; each is followed by its XDR pad. A Split sink is one
//! Read chunk, its pad, and what is left of the base stream, as long as that is. The walk needs one
//! pass over the Read list per chunk.

use crate::chunk::ReadChunk;
use crate::error::{
    DecodeError,
    Reason, //
};
use crate::header::{
    Header,
    Kind, //
};
use crate::layout::{
    Layout,
    MAX_CHUNKS, //
};
use crate::wire;

/// Where the bytes of a part come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The inline RPC message or the position-zero Read chunk, from this byte of it on.
    Base(u32),
    /// The Read chunk of this position, from its beginning.
    Chunk(u32),
    /// Zeroes.
    Pad,
}

/// A contiguous range of the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) source: Source,
    /// First byte in the sink.
    pub(crate) sink: u32,
    /// Bytes; never 0.
    pub(crate) len: u32,
}

/// A walk over the parts.
///
/// # Invariants
///
/// `sink` is a multiple of 4 whenever neither `chunk` nor `pad` is due.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    /// Length of the base stream, in bytes.
    base: u32,
    /// Bytes of the base stream that were yielded.
    taken: u32,
    /// Where the next part begins.
    sink: u32,
    /// Position of the last chunk; chunks are looked for behind it.
    position: u32,
    /// How many chunks were met.
    chunks: u32,
    /// The chunk that comes next.
    chunk: Option<ReadChunk>,
    /// Bytes of padding that come next.
    pad: u32,
    /// Bytes of padding behind the base stream.
    last: u32,
}

impl Walk {
    /// Starts a walk over the sink of `layout`.
    pub(crate) fn new(layout: &Layout, header: &Header, msg: &[u8]) -> Self {
        match *layout {
            Layout::Inline => Self::default(),
            Layout::Split {
                position,
                len,
                tail,
            } => Self {
                base: position.saturating_add(tail),
                taken: position,
                // There is no chunk behind this one.
                position: u32::MAX,
                chunk: Some(ReadChunk {
                    position,
                    len: u64::from(len),
                }),
                ..Self::default()
            },
            Layout::Linear { .. } => Self::linear(header, msg).unwrap_or_default(),
        }
    }

    /// Starts a walk over a Linear sink that nobody has measured yet.
    pub(crate) fn linear(header: &Header, msg: &[u8]) -> Result<Self, DecodeError> {
        let base = match header.kind {
            Kind::Msg => header.inline_len(msg),
            Kind::Nomsg => length(header, header.reads.len_at(msg, 0).unwrap_or(0))?,
        };
        Ok(Self {
            base,
            // Positions are multiples of 4, so what precedes a chunk needs no pad.
            last: wire::pad(base),
            ..Self::default()
        })
    }

    /// Takes the next part, `Ok(None)` behind the last.
    ///
    /// # Errors
    ///
    /// Those of a Read list whose chunks have no place in the message.
    pub(crate) fn step(
        &mut self,
        header: &Header,
        msg: &[u8],
    ) -> Result<Option<Part>, DecodeError> {
        loop {
            let part = if self.pad > 0 {
                let pad = self.pad;
                self.pad = 0;
                self.part(header, Source::Pad, pad)?
            } else if let Some(chunk) = self.chunk.take() {
                let len = length(header, chunk.len)?;
                self.pad = wire::pad(len);
                self.part(header, Source::Chunk(chunk.position), len)?
            } else {
                let gap = self.gap(header, msg)?;
                if gap == 0 && self.chunk.is_none() {
                    return Ok(None);
                }
                let from = self.taken;
                self.taken = from.saturating_add(gap);
                self.part(header, Source::Base(from), gap)?
            };
            if part.len > 0 {
                return Ok(Some(part));
            }
        }
    }

    /// Looks for the next chunk and returns how many bytes of base stream precede it, or all that
    /// are left if there is none.
    fn gap(&mut self, header: &Header, msg: &[u8]) -> Result<u32, DecodeError> {
        let xid = header.xid;
        let left = self.base.saturating_sub(self.taken);
        let Some(chunk) = header.reads.next_chunk(msg, self.position) else {
            self.pad = core::mem::take(&mut self.last);
            return Ok(left);
        };
        self.chunks = self.chunks.saturating_add(1);
        if self.chunks > MAX_CHUNKS {
            return Err(Reason::TooMany.of(xid));
        }
        self.position = chunk.position;
        self.chunk = Some(chunk);
        match chunk.position.checked_sub(self.sink) {
            None => Err(Reason::Overlap.of(xid)),
            Some(gap) if gap > left => Err(Reason::Beyond.of(xid)),
            Some(gap) => Ok(gap),
        }
    }

    /// Makes a part of `len` bytes and moves on behind it.
    fn part(&mut self, header: &Header, source: Source, len: u32) -> Result<Part, DecodeError> {
        let sink = self.sink;
        self.sink = sink
            .checked_add(len)
            .ok_or(Reason::TooLarge.of(header.xid))?;
        Ok(Part { source, sink, len })
    }
}

/// Returns a length summed up from segments as what it must be.
fn length(header: &Header, len: u64) -> Result<u32, DecodeError> {
    u32::try_from(len).map_err(|_| Reason::TooLarge.of(header.xid))
}

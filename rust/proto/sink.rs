// SPDX-License-Identifier: GPL-2.0

//! The layout of a Call, and the size of its sink.
//!
//! A *sink* is the memory that the RDMA Reads of a Call fill: whole pages, used from the first byte
//! on.

use crate::wire;

/// Bytes of a page of the sink.
pub const PAGE: u32 = 4096;

/// The layout of the bytes of a Call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// All bytes are in the Receive buffer; there is no sink.
    #[default]
    Inline,
    /// The sink holds the only Read chunk, its XDR pad, and the inline bytes that follow the chunk.
    /// The Call consists of the inline bytes before `position` and the sink: some of nfsd's
    /// decoders read only the head and the pages of a Call.
    Split {
        /// Inline bytes that precede the chunk.
        position: u32,
        /// Bytes of the chunk, without its XDR pad.
        len: u32,
        /// Inline bytes that follow the chunk.
        tail: u32,
    },
    /// The sink holds the whole Call.
    Linear {
        /// Bytes of the Call; a multiple of 4.
        len: u32,
    },
}

impl Layout {
    /// Returns the number of bytes in use in the sink, XDR pads included.
    #[inline]
    pub fn sink_len(&self) -> u32 {
        match *self {
            Self::Inline => 0,
            // `layout::plan` has checked that pad and tail fit.
            Self::Split { len, tail, .. } => {
                let padded = len.saturating_add(wire::pad(len));
                padded.saturating_add(tail)
            }
            Self::Linear { len } => len,
        }
    }

    /// Returns the number of pages in the sink.
    #[inline]
    pub fn pages(&self) -> u32 {
        self.sink_len().div_ceil(PAGE)
    }
}

/// Returns the number of bytes in a sink that holds a chunk of `len` bytes and `tail` inline bytes.
pub(crate) fn split_len(len: u32, tail: u32) -> Option<u32> {
    wire::padded(len)?.checked_add(tail)
}

// SPDX-License-Identifier: GPL-2.0

//! Where the bytes of a Call lie (RFC 8166, sections 3.4.5 and 3.5).
//!
//! A Call without Read chunks stays in its receive buffer. Any other needs a *sink*: whole pages
//! that RDMA Reads fill. [`plan`] decides on the layout, [`ReadCursor`] lists the RDMA Reads,
//! [`fills`] what the processor has to put into the sink.

pub use crate::read::{
    fills,
    Fill,
    Fills,
    ReadCursor,
    ReadOp, //
};

use crate::error::{
    DecodeError,
    Reason, //
};
use crate::header::{
    Header,
    Kind,
    MIN_RPC, //
};
use crate::parts::Walk;
use crate::rpc;
use crate::wire;

/// Bytes of a page of the sink.
pub const PAGE: u32 = 4096;

/// Fewest bytes of a Read chunk that gets pages of its own.
///
/// The duplicate reply cache sums up the first 256 bytes of the arguments as if head and pages held
/// that many, and copying a small chunk costs less than a page.
pub const SPLIT_MIN: u32 = 1024;

/// Most Read chunks of a Call; each costs a pass over the Read list. Of WRITEs whose data was taken out
/// no more fit into a message of 4096 bytes.
pub const MAX_CHUNKS: u32 = 64;

/// Where the bytes of a Call lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// All in the receive buffer; there is no sink.
    #[default]
    Inline,
    /// The sink holds the only Read chunk, its pad, and the inline bytes behind it. The Call is the
    /// inline bytes before `position` and the sink: some of NFSD's decoders do not look any further
    /// than head and pages.
    Split {
        /// Inline bytes that precede the chunk.
        position: u32,
        /// Bytes of the chunk, without its pad.
        len: u32,
        /// Inline bytes that follow the chunk.
        tail: u32,
    },
    /// The sink holds the whole Call from its first byte on.
    Linear {
        /// Bytes of the Call; a multiple of 4.
        len: u32,
    },
}

impl Layout {
    /// Returns how many bytes of the sink are used, XDR pads included.
    pub fn sink_len(&self) -> u32 {
        match *self {
            Self::Inline => 0,
            // `plan` has checked that pad and tail fit.
            Self::Split { len, tail, .. } => split_len(len, tail).unwrap_or(len),
            Self::Linear { len } => len,
        }
    }

    /// Returns how many pages the sink has.
    pub fn pages(&self) -> u32 {
        self.sink_len().div_ceil(PAGE)
    }
}

/// Decides where the Call's bytes are to lie; at most `max_pages` pages are used. A Call that is
/// not [`Layout::Inline`] needs at least one RDMA Read.
///
/// # Errors
///
/// Chunks that overlap, lie beyond the message or exceed the pages; a message that is no Call.
pub fn plan(header: &Header, msg: &[u8], max_pages: u32) -> Result<Layout, DecodeError> {
    let xid = header.xid;
    if header.kind == Kind::Nomsg && header.reads.is_empty() {
        return Err(Reason::NoBody.of(xid));
    }
    if header.kind == Kind::Msg && header.reads.iter(msg).all(|read| read.segment.length == 0) {
        return inline(header, msg);
    }
    let layout = match split(header, msg)? {
        Some(layout) => layout,
        None => Layout::Linear {
            len: measure(header, msg, max_pages)?,
        },
    };
    if layout.pages() > max_pages {
        return Err(Reason::TooLarge.of(xid));
    }
    Ok(layout)
}

/// Returns the layout of a Call whose Read chunks, if any, are empty: a sink would make it wait for
/// an RDMA Read that never is.
fn inline(header: &Header, msg: &[u8]) -> Result<Layout, DecodeError> {
    let len = header.inline_len(msg);
    let xid = header.xid;
    if header.reads.iter(msg).any(|read| read.position > len) {
        return Err(Reason::Beyond.of(xid));
    }
    match len < MIN_RPC {
        true => Err(Reason::Empty.of(xid)),
        false => Ok(Layout::Inline),
    }
}

/// Returns the Split layout if the Call is one for it.
fn split(header: &Header, msg: &[u8]) -> Result<Option<Layout>, DecodeError> {
    let xid = header.xid;
    let chunk = match (header.kind, header.reads.next_chunk(msg, 0)) {
        (Kind::Msg, Some(chunk)) => chunk,
        _ => return Ok(None),
    };
    let position = chunk.position;
    if chunk.len < u64::from(SPLIT_MIN) || header.reads.next_chunk(msg, position).is_some() {
        return Ok(None);
    }
    let Some(tail) = header.inline_len(msg).checked_sub(position) else {
        return Err(Reason::Beyond.of(xid));
    };
    // A chunk that holds part of the RPC header would leave fewer bytes of arguments in the pages
    // than SPLIT_MIN promises. What GSS has to unwrap, and the tokens of a context, should lie in a
    // row.
    let call = msg.get(header.body..).unwrap_or(&[]);
    match rpc::arguments(|at| wire::word(call, at)) {
        Some(arguments) if position >= arguments => {}
        _ => return Ok(None),
    }
    match u32::try_from(chunk.len) {
        Ok(len) if split_len(len, tail).is_some() => Ok(Some(Layout::Split {
            position,
            len,
            tail,
        })),
        _ => Err(Reason::TooLarge.of(xid)),
    }
}

/// Returns how many bytes a sink has that holds a chunk of `len` bytes and `tail` inline bytes.
fn split_len(len: u32, tail: u32) -> Option<u32> {
    wire::padded(len)?.checked_add(tail)
}

/// Returns the length of the whole Call, in bytes.
fn measure(header: &Header, msg: &[u8], max_pages: u32) -> Result<u32, DecodeError> {
    let xid = header.xid;
    let mut walk = Walk::linear(header, msg)?;
    let mut len = 0u32;
    while let Some(part) = walk.step(header, msg)? {
        len = part
            .sink
            .checked_add(part.len)
            .ok_or(Reason::TooLarge.of(xid))?;
        // Says so now rather than after the last of many chunks.
        if len.div_ceil(PAGE) > max_pages {
            return Err(Reason::TooLarge.of(xid));
        }
    }
    if len < MIN_RPC {
        return Err(Reason::Empty.of(xid));
    }
    Ok(len)
}

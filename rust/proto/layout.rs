// SPDX-License-Identifier: GPL-2.0

//! Layout of the bytes of a Call (RFC 8166, sections 3.4.5 and 3.5).
//!
//! A Call without Read chunks stays in its Receive buffer. Any other Call needs a sink. [`plan`]
//! chooses the layout, [`ReadCursor`] lists the RDMA Reads, and [`fill`] the bytes of the sink that
//! the processor writes.

pub use crate::fill::{
    fill,
    Fill, //
};
pub use crate::read::{
    ReadCursor,
    ReadOp, //
};
pub use crate::sink::{
    Layout,
    PAGE, //
};

use crate::error::{
    DecodeError,
    Reason, //
};
use crate::header::{
    Kind,
    View,
    MIN_RPC, //
};
use crate::parts::Walk;
use crate::read_list::ReadChunk;
use crate::sink::split_len;

/// Bytes of the smallest Read chunk that gets a Split layout.
///
/// nfsd's duplicate reply cache computes a checksum of the first 256 bytes of the arguments and
/// assumes that head and pages hold as many. And copying a small chunk costs less than a page.
pub const SPLIT_MIN: u32 = 1024;

/// Chooses the layout of a Call that may use at most `max_pages` pages. A Call that is not
/// [`Layout::Inline`] needs at least one RDMA Read and one page, so no page means no RDMA Read.
///
/// # Errors
///
/// - [`Reason::NoBody`], [`Reason::Empty`]: the message has no RPC message, or it is too short.
/// - [`Reason::Overlap`], [`Reason::Beyond`]: the Read chunks do not fit together.
/// - [`Reason::TooLarge`]: the Call needs more than `max_pages` pages.
#[inline]
pub fn plan(view: &View<'_>, max_pages: u32) -> Result<Layout, DecodeError> {
    if view.is_whole() && view.inline_len() >= MIN_RPC {
        Ok(Layout::Inline)
    } else {
        plan_any(view, max_pages)
    }
}

/// Chooses the layout of a Call of any kind.
fn plan_any(view: &View<'_>, max_pages: u32) -> Result<Layout, DecodeError> {
    choose(view, max_pages).map_err(|reason| view.refuse(reason))
}

/// Returns the layout, or the reason to refuse the Call.
fn choose(view: &View<'_>, max_pages: u32) -> Result<Layout, Reason> {
    let kind = view.header().kind;
    if kind == Kind::Nomsg && view.header().reads.is_empty() {
        return Err(Reason::NoBody);
    }
    if kind == Kind::Msg && view.header().reads.bytes() == 0 {
        return inline(view);
    }
    let layout = match split(view)? {
        Some(layout) => layout,
        None => Layout::Linear {
            len: measure(view, max_pages)?,
        },
    };
    if layout.pages() > max_pages {
        Err(Reason::TooLarge)
    } else {
        Ok(layout)
    }
}

/// Returns the layout of a Call whose Read chunks, if any, are empty. Such a Call must not get a
/// sink: it would wait for an RDMA Read that is never posted.
fn inline(view: &View<'_>) -> Result<Layout, Reason> {
    let len = view.inline_len();
    if view.reads().any(|read| read.position > len) {
        return Err(Reason::Beyond);
    }
    if len < MIN_RPC {
        Err(Reason::Empty)
    } else {
        Ok(Layout::Inline)
    }
}

/// Returns a Split layout if the Call is suitable: it is inline with one large chunk among its
/// arguments.
fn split(view: &View<'_>) -> Result<Option<Layout>, Reason> {
    let first = view.next_read_chunk(&ReadChunk::default());
    let chunk = match (view.header().kind, first) {
        (Kind::Msg, Some(chunk)) => chunk,
        _ => return Ok(None),
    };
    let position = chunk.position;
    if chunk.len < u64::from(SPLIT_MIN) || view.next_read_chunk(&chunk).is_some() {
        return Ok(None);
    }
    let Some(tail) = view.inline_len().checked_sub(position) else {
        return Err(Reason::Beyond);
    };
    // A chunk that holds a part of the RPC header would leave fewer bytes of arguments in the pages
    // than SPLIT_MIN promises. Arguments that GSS has to unwrap, and context tokens, have to be
    // contiguous.
    match view.header().arguments {
        Some(arguments) if position >= arguments => {}
        _ => return Ok(None),
    }
    let len = u32::try_from(chunk.len).map_err(|_| Reason::TooLarge)?;
    split_len(len, tail).ok_or(Reason::TooLarge)?;
    Ok(Some(Layout::Split {
        position,
        len,
        tail,
    }))
}

/// Returns the length of the whole Call in bytes.
// Out of line: few Calls have a Linear sink.
#[inline(never)]
fn measure(view: &View<'_>, max_pages: u32) -> Result<u32, Reason> {
    let mut walk = Walk::new(view)?;
    let mut len = 0u32;
    while let Some(part) = walk.step(view)? {
        len = part.sink.checked_add(part.len).ok_or(Reason::TooLarge)?;
        // Checked for each part, to end the walk early.
        if len.div_ceil(PAGE) > max_pages {
            return Err(Reason::TooLarge);
        }
    }
    if len < MIN_RPC {
        Err(Reason::Empty)
    } else {
        Ok(len)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Fills: the bytes that the processor writes to the sink of a Call, copied or zero.

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
use crate::wire;

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

/// Calls `fill` for the operations of the processor on the sink of `layout`, which
/// [`plan`](crate::layout::plan) chose for this Call, in the order of their bytes.
#[inline]
pub fn fill(layout: &Layout, view: &View<'_>, mut fill: impl FnMut(Fill)) {
    match *layout {
        Layout::Inline => {}
        Layout::Split {
            position,
            len,
            tail,
        } => {
            let pad = wire::pad(len);
            if pad > 0 {
                fill(Fill::Zero {
                    sink: len,
                    len: pad,
                });
            }
            if tail > 0 {
                fill(copy(view, position, tail, len.saturating_add(pad)));
            }
        }
        Layout::Linear { .. } => linear(view, &mut fill),
    }
}

/// Calls `fill` for the operations on a Linear sink.
// Out of line: few Calls have such a sink, and the walk needs stack.
#[inline(never)]
fn linear(view: &View<'_>, fill: &mut dyn FnMut(Fill)) {
    let Ok(mut walk) = Walk::new(view) else {
        return;
    };
    // `plan` has walked over all parts without an error.
    while let Ok(Some(Part { source, sink, len })) = walk.step(view) {
        match source {
            Source::Base(at) if view.header().kind == Kind::Msg => fill(copy(view, at, len, sink)),
            Source::Pad => fill(Fill::Zero { sink, len }),
            _ => {}
        }
    }
}

/// Returns the copy of `len` bytes of the inline RPC message from byte `at` on.
fn copy(view: &View<'_>, at: u32, len: u32, sink: u32) -> Fill {
    let from = view.header().body.saturating_add(at as usize);
    Fill::Copy { from, len, sink }
}

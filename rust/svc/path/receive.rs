// SPDX-License-Identifier: GPL-2.0

//! Receiving: decodes a message, counts its credit, and passes a Call on.
//!
//! A Call without Read chunks is queued for nfsd at once. Any other Call is queued when its Read
//! chunks are complete.
//!
//! # Context
//!
//! Workers of completion queues; nothing here sleeps.

use super::{
    callback,
    deliver::{
        ready,
        refuse, //
    },
    read, //
};
use crate::svc::{
    close_reason::CloseReason,
    conn::{
        call::Call,
        endpoint::Endpoint, //
    },
};
use kernel::{
    prelude::*,
    sync::ArcBorrow, //
};
use support::trace;
use svcrdma_proto::{
    decode::{
        decode,
        Received, //
    },
    error::{
        Answer,
        DecodeError, //
    },
    header::View,
    layout::{
        self,
        Layout, //
    },
    reply,
    ulb, //
};

/// Handles a message that has arrived.
#[inline]
pub(crate) fn received(endpoint: ArcBorrow<'_, Endpoint>, mut call: Call) {
    let (message, state) = call.parts_mut();
    match decode(message, &mut state.header) {
        Ok(Received::Call(view)) => {
            let tally = &endpoint.published.tally;
            tally.calls.add(1);
            // CAST: At most a page.
            tally.inline_received_bytes.add(message.len() as u64);
            state.has_credit = take_credit(&endpoint, Some(view.header().credits));
            if !state.has_credit {
                endpoint.connection.counters.calls_dropped.inc();
                return;
            }
            state.received = endpoint.published.stamp();
            match plan(&endpoint, &view) {
                Ok(layout) => {
                    trace_call(&endpoint, &view, &layout, message.len());
                    state.needs_answer = ulb::needs_answer_inline(&view);
                    state.set_layout(layout);
                    begin(endpoint, call);
                }
                Err(e) => refuse(&endpoint, call, e),
            }
        }
        Ok(other) => not_a_call(&endpoint, other),
        Err(e) => malformed(&endpoint, call, e),
    }
}

/// Handles a message that is no Call.
#[inline(never)]
fn not_a_call(endpoint: &Endpoint, message: Received<'_>) {
    match message {
        Received::Reverse(reverse) => callback::received(endpoint, &reverse),
        Received::Error { xid } => callback::refused(endpoint, xid),
        Received::Ignored | Received::Call(_) => endpoint.ignore(),
    }
}

/// Refuses a message that cannot be decoded. The message uses a credit if it gets an answer,
/// because its sender may have sent it as a Call.
#[inline(never)]
fn malformed(endpoint: &Endpoint, mut call: Call, error: DecodeError) {
    if error.answer() == Answer::Drop {
        endpoint.count_unasked();
    } else {
        call.has_credit = take_credit(endpoint, None);
        if !call.has_credit {
            return;
        }
    }
    refuse(endpoint, call, error);
}

/// Takes a credit for a Call that requests `requested` credits. Returns false, and closes the
/// connection, if the client has overrun its grants. A client that overruns has more messages on the
/// way than Receive buffers are posted, and would repeat them without end.
#[inline]
fn take_credit(endpoint: &Endpoint, requested: Option<u32>) -> bool {
    let counted = endpoint.published.on_call(requested);
    if counted.is_err() {
        endpoint.connection.close(CloseReason::CreditOverrun);
    }
    counted.is_ok()
}

#[inline]
fn trace_call(endpoint: &Endpoint, view: &View<'_>, layout: &Layout, len: usize) {
    trace::call(
        endpoint.connection.number(),
        view.header().xid,
        u32::try_from(len).unwrap_or(u32::MAX),
        layout.sink_len(),
        view.write_chunks(),
        u32::from(view.reply().is_some()),
    );
}

/// Chooses the layout of the bytes of a Call.
///
/// # Errors
///
/// The reason to refuse the Call: the server does not accept it, or cannot send a Reply to it.
#[inline]
fn plan(endpoint: &Endpoint, view: &View<'_>) -> Result<Layout, DecodeError> {
    // This check comes first because it ends at the first chunk that is not allowed. The time of
    // the other checks grows with the number of chunks.
    ulb::check_inline(view)?;
    let layout = layout::plan(view, endpoint.max_pages)?;
    reply::check_header(view, endpoint.thresholds.send)?;
    Ok(layout)
}

/// Queues a Call without Read chunks for nfsd, or begins to read the chunks of any other Call.
#[inline]
fn begin(endpoint: ArcBorrow<'_, Endpoint>, call: Call) {
    match call.layout {
        Layout::Inline => ready(&endpoint.connection, call),
        _ => read::begin(endpoint, call),
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Calls: a received message, its decoded header, and what it owns until its Reply is posted.
//!
//! A Call stays in its Receive buffer, which is posted again when the Call is dropped: once its Reply
//! is made, or when the Call gets no Reply.

use crate::svc::{
    latency::Stamp,
    pages::read_buffer::ReadBuffer, //
};
use core::cell::Cell;
use kernel::time::Instant;
use rdma::{
    recv::{
        buffer::State,
        receive::Receive, //
    },
    send::{
        chain::{
            Chain,
            Rdma,
            Remote, //
        },
        work::Built, //
    },
};
use support::page::PAGE_SIZE;
use svcrdma_proto::{
    error::Answer,
    header::{
        Header,
        View, //
    },
    layout::{
        self,
        Layout,
        ReadCursor, //
    },
    reply::{
        Payload,
        MAX_PAYLOADS, //
    },
};

// Proto's layout and the kernel have the same page size.
const _: () = assert!(layout::PAGE as usize == PAGE_SIZE);

/// A received Call.
pub(crate) type Call = Receive<CallState>;

/// The state of a Call besides its message.
#[derive(Default)]
pub(crate) struct CallState {
    /// The decoded transport header.
    pub(crate) header: Header,
    /// The place of the Call's bytes: in the message, in the sink, or in both.
    pub(crate) layout: Layout,
    /// The number of pages that `layout` needs.
    pages: u32,
    /// The progress of building the RDMA Reads.
    pub(crate) cursor: Cell<ReadCursor>,
    /// The pages that the RDMA Reads fill.
    pub(crate) sink: Option<ReadBuffer>,
    /// True if nfsd must not drop the Call without a Reply.
    pub(crate) needs_answer: bool,
    /// The answer to a message that nfsd does not get.
    pub(crate) answer: Option<Answer>,
    /// True if the Call uses a credit.
    pub(crate) has_credit: bool,
    /// The time at which the Call was received, if it is timed.
    pub(crate) received: Stamp,
    /// The time at which its first RDMA Read was posted, if it is timed.
    pub(crate) reading: Cell<Stamp>,
    /// The results that nfsd has marked; the first `payload_count` are valid.
    payloads: [Payload; MAX_PAYLOADS],
    payload_count: usize,
}

impl CallState {
    /// Sets the layout.
    pub(crate) fn set_layout(&mut self, layout: Layout) {
        self.layout = layout;
        self.pages = layout.pages();
    }

    /// Returns the number of pages that the sink needs.
    pub(crate) fn sink_pages(&self) -> usize {
        self.pages as usize
    }

    /// Notes the time at which the first RDMA Read is posted.
    fn note_reading(&self) {
        if self.received.is_some() && self.reading.get().is_none() {
            self.reading.set(Some(Instant::now()));
        }
    }

    /// Returns the results that may be sent by RDMA Write, as nfsd has marked them.
    pub(crate) fn payloads(&self) -> &[Payload] {
        self.payloads.get(..self.payload_count).unwrap_or(&[])
    }

    /// Marks a result that may be sent by RDMA Write. Results beyond [`MAX_PAYLOADS`] stay inline.
    pub(crate) fn mark(&mut self, offset: u32, len: u32) {
        if let Some(slot) = self.payloads.get_mut(self.payload_count) {
            *slot = Payload { offset, len };
            self.payload_count = self.payload_count.saturating_add(1);
        }
    }
}

impl State for CallState {
    fn reset(&mut self) {
        self.sink = None;
        self.needs_answer = false;
        self.answer = None;
        self.has_credit = false;
        self.received = None;
        self.reading.set(None);
        self.set_layout(Layout::Inline);
        self.payload_count = 0;
    }
}

/// Returns the header of a decoded Call with its message.
pub(crate) fn view(call: &Call) -> View<'_> {
    call.header.view(call.message())
}

/// Adds the RDMA Reads of a Call to the chain, and the work requests that register and invalidate
/// its memory region. The chain has at most `room` work requests afterwards.
// Out of line, to keep the frame out of the path of small Replies.
#[inline(never)]
pub(crate) fn build_reads<'m>(call: &'m Call, chain: &mut Chain<'_, 'm>, room: usize) -> Built {
    let Some(sink) = &call.sink else {
        return Built::All;
    };
    if !chain.register(sink, room) {
        return Built::More;
    }
    let view = view(call);
    let mut cursor = call.cursor.get();
    while let Some(op) = cursor.peek() {
        if chain.len() >= room {
            break;
        }
        let remote = Remote {
            key: op.handle,
            addr: op.remote,
        };
        let taken = chain.rdma(Rdma::Read, remote, sink, op.sink as usize, op.len as usize);
        if taken == 0 {
            break;
        }
        // One work request takes at most the operation.
        cursor.advance(&view, u32::try_from(taken).unwrap_or(op.len));
    }
    call.cursor.set(cursor);
    if !chain.is_empty() {
        call.note_reading();
    }
    Built::from(cursor.peek().is_none() && chain.invalidate(sink, room))
}

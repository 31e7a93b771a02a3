// SPDX-License-Identifier: GPL-2.0

//! Calls: from the completion of a Receive to nfsd.
//!
//! A Call is a [`Receive`] with a decoded header. It is complete when it has come in whole, its
//! Read chunks included; only then does nfsd hear of it. It stays in the Receive buffer, so that
//! buffer goes with the request until there is a reply, or until the Call is dropped.

use super::{
    backchannel,
    read,
    reply, //
};
use crate::svc::{
    close_reason::{
        CloseReason,
        Queue, //
    },
    conn::{
        connection::Connection,
        credits::CallCredit,
        endpoint::Endpoint, //
    },
    lane::line::Loan, //
};
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    receive::Receive,
    receive_buffer::State, //
};
use sunrpc::{
    backchannel::Channel,
    results::Results,
    rqst::{
        Arg,
        Delivered,
        Rqst, //
    },
    xprt::Connect, //
};
use support::{
    page::PAGE_SIZE,
    trace, //
};
use svcrdma_proto::{
    decode::{
        decode,
        Received, //
    },
    error::{
        Answer,
        DecodeError, //
    },
    header::{
        Header,
        View, //
    },
    layout::{
        self,
        Layout,
        ReadCursor, //
    },
    reply as wire_reply,
    reply::{
        Payload,
        MAX_PAYLOADS, //
    },
    shares::Standing,
    ulb, //
};

/// A received Call.
pub(crate) type Call = Receive<CallState>;

/// What belongs to a Call beside the message.
#[derive(Default)]
pub(crate) struct CallState {
    /// The decoded header.
    pub(crate) header: Header,
    /// Where the bytes lie.
    pub(crate) layout: Layout,
    /// How far the RDMA Reads are posted.
    pub(crate) cursor: Cell<ReadCursor>,
    /// The pages that RDMA Reads fill.
    pub(crate) sink: Option<Loan>,
    /// Where the Call came from, while its Reads are waited for.
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    /// Whether nfsd must not drop it.
    pub(crate) needs_answer: bool,
    /// Counts it, until its reply goes out.
    credit: Option<CallCredit>,
    payloads: [Payload; MAX_PAYLOADS],
    payload_count: usize,
}

// The layout counts pages of the sink as the kernel has them.
const _: () = assert!(layout::PAGE as usize == PAGE_SIZE);

impl CallState {
    /// The pages that the sink needs.
    pub(crate) fn sink_pages(&self) -> usize {
        self.layout.pages() as usize
    }

    /// The standing of the peer of the connection that waits for this Call's Reads.
    pub(crate) fn standing(&self) -> Standing {
        let endpoint = self.endpoint.as_ref();
        endpoint.map_or(Standing::Unvalidated, |endpoint| {
            endpoint.connection.standing()
        })
    }

    /// Whether the connection that waits for this Call's Reads still lives.
    pub(crate) fn is_worthwhile(&self) -> bool {
        self.endpoint
            .as_ref()
            .is_some_and(|endpoint| !endpoint.connection.is_closing())
    }

    /// The results that may go by RDMA Write, as nfsd has marked them.
    pub(crate) fn payloads(&self) -> &[Payload] {
        self.payloads.get(..self.payload_count).unwrap_or(&[])
    }

    /// Notes a result; one too many just stays inline.
    fn mark(&mut self, offset: u32, len: u32) {
        if let Some(slot) = self.payloads.get_mut(self.payload_count) {
            *slot = Payload { offset, len };
            self.payload_count = self.payload_count.saturating_add(1);
        }
    }
}

impl State for CallState {
    fn reset(&mut self) {
        self.sink = None;
        self.endpoint = None;
        self.needs_answer = false;
        self.credit = None;
        self.layout = Layout::Inline;
        self.payload_count = 0;
    }
}

/// Returns the received Call: its header and its message.
pub(crate) fn view(call: &Call) -> View<'_> {
    call.header.view(call.message())
}

/// A message has come in. In a completion.
pub(crate) fn received(endpoint: &Arc<Endpoint>, mut call: Call) {
    let (message, state) = call.parts_mut();
    match decode(message, &mut state.header) {
        Ok(Received::Call(view)) => {
            endpoint.connection.counters.calls.inc();
            let header = view.header();
            state.credit = endpoint.connection.count_call(Some(header.credits));
            if state.credit.is_none() {
                endpoint.connection.counters.calls_dropped.inc();
                endpoint.connection.close(CloseReason::CreditOverrun);
                return;
            }
            match plan(endpoint, &view) {
                Ok(layout) => {
                    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
                    trace::call(
                        endpoint.connection.number(),
                        header.xid,
                        len,
                        layout.sink_len(),
                        view.write_chunks(),
                        u32::from(view.reply().is_some()),
                    );
                    state.needs_answer = ulb::needs_answer_inline(&view);
                    state.layout = layout;
                    begin(endpoint, call);
                }
                Err(e) => refuse(endpoint, call, e),
            }
        }
        Ok(Received::Reverse(reverse)) => backchannel::received(endpoint, &reverse),
        Ok(Received::Error { xid }) => backchannel::refused(endpoint, xid),
        Ok(Received::Ignored) => endpoint.ignore(),
        Err(e) => {
            if e.answer() == Answer::Drop {
                endpoint.connection.count_unasked();
            } else {
                call.credit = endpoint.connection.count_call(None);
                if call.credit.is_none() {
                    endpoint.connection.close(CloseReason::CreditOverrun);
                    return;
                }
            }
            refuse(endpoint, call, e);
        }
    }
}

/// Where the bytes of a Call that the server takes, and can answer, are to lie.
fn plan(endpoint: &Endpoint, view: &View<'_>) -> Result<Layout, DecodeError> {
    // First, as it ends with the first chunk that may not be: others take longer the more there are.
    ulb::check_inline(view)?;
    let layout = layout::plan(view, endpoint.max_pages)?;
    wire_reply::check_header(view, endpoint.thresholds.send)?;
    Ok(layout)
}

/// Answers what is no Call as it should be, or drops it. In a completion.
pub(crate) fn refuse(endpoint: &Endpoint, mut call: Call, error: DecodeError) {
    endpoint.connection.counters.malformed.inc();
    let xid = error.xid.unwrap_or(0);
    let len = u32::try_from(call.message().len()).unwrap_or(u32::MAX);
    trace::malformed(endpoint.connection.number(), xid, error.reason.code(), len);
    // What its Read chunks have brought is for the next one.
    put_sink(&endpoint.connection, &mut call);
    reply::answer(endpoint, error.answer(), call);
}

/// Hands a Call without Read chunks to nfsd, or starts to read.
fn begin(endpoint: &Arc<Endpoint>, call: Call) {
    match call.layout {
        Layout::Inline => ready(&endpoint.connection, call),
        _ => read::begin(endpoint, call),
    }
}

/// The Call is complete: wakes an nfsd thread for it.
pub(crate) fn ready(connection: &Arc<Connection>, call: Call) {
    if let Err(refused) = connection.inbox.push(call) {
        discard(connection, connection.take_back(refused, Queue::Inbox));
    }
}

/// The Call comes to nothing.
pub(crate) fn discard(connection: &Arc<Connection>, mut call: Call) {
    connection.counters.calls_dropped.inc();
    put_sink(connection, &mut call);
}

/// Gives the pages of a Call back that nfsd will not have.
fn put_sink(connection: &Connection, call: &mut Call) {
    if let Some(sink) = call.sink.take() {
        connection.device.pool.put_sink(sink);
    }
}

/// nfsd's side of a connection.
pub(crate) struct Xprt {
    pub(crate) endpoint: Arc<Endpoint>,
}

impl Connect for Xprt {
    type Call = Call;
    type Back = Endpoint;

    fn recvfrom<'a>(&self, mut call: Call, rqst: Rqst<'a>) -> Option<Delivered<'a, Call>> {
        call.endpoint = None;
        let (layout, body, end) = (call.layout, call.header.body, call.message().len());
        let pages = call.sink_pages();
        let Some(mut sink) = call.sink.take() else {
            return Some(rqst.deliver(call, Arg::Message(body..end)));
        };
        let arg = match layout {
            Layout::Inline => Arg::Message(body..end),
            Layout::Split { position, .. } => {
                // `layout::plan` has checked that the position is in the message.
                let split = body.saturating_add(position as usize);
                Arg::Split {
                    head: body..split,
                    pages: sink.stream_mut(),
                    len: layout.sink_len() as usize,
                }
            }
            Layout::Linear { len } => Arg::Pages(sink.stream_mut(), len as usize),
        };
        let delivered = rqst.deliver(call, arg);
        // Now it has the thread's pages, which a file system may still be writing out.
        let pool = &self.endpoint.connection.device.pool;
        pool.lost_pages(sink.stream_mut().renew());
        pool.put_sink(sink);
        self.endpoint.end_read(pages);
        Some(delivered)
    }

    fn result_payload(state: &mut CallState, offset: u32, len: u32) {
        state.mark(offset, len);
    }

    fn sendto(&self, call: Call, results: Results<'_>) {
        self.endpoint.connection.note_peer(&results);
        reply::send(&self.endpoint, call, results);
    }

    fn release(&self, call: Call) {
        if call.needs_answer {
            self.endpoint.note_dropped();
        }
        discard(&self.endpoint.connection, call);
    }

    fn has_space(&self, running: impl Fn() -> i32) -> bool {
        self.endpoint.has_space(running)
    }

    fn back(&self) -> Arc<Endpoint> {
        self.endpoint.clone()
    }

    fn bind(&self, channel: Channel) {
        self.endpoint.connection.bind(channel);
        self.endpoint.receives.bind();
    }

    fn detach(&self) {
        self.endpoint.connection.close(CloseReason::Server);
    }
}

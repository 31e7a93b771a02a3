// SPDX-License-Identifier: GPL-2.0

//! Transports: the operations that nfsd calls for a connection.
//!
//! # Context
//!
//! Process context, and may sleep, but for `has_space`, which runs in any context.

use super::{
    deliver::discard,
    read,
    reply, //
};
use crate::svc::{
    close_reason::CloseReason,
    conn::{
        call::{
            Call,
            CallState, //
        },
        endpoint::Endpoint, //
    },
    pages::read_buffer::ReadBuffer, //
};
use kernel::sync::Arc;
use sunrpc::{
    callback::Channel,
    results::Results,
    rqst::{
        Arg,
        Delivered,
        Rqst, //
    },
    xprt::Connect, //
};
use svcrdma_proto::layout::Layout;

/// nfsd's handle of a connection. The `svc_xprt` owns it, and both live equally long.
pub(crate) struct Xprt {
    pub(crate) endpoint: Arc<Endpoint>,
}

impl Connect for Xprt {
    type Call = Call;
    type Back = Endpoint;

    #[inline]
    fn recvfrom<'a>(&self, mut call: Call, rqst: Rqst<'a>) -> Option<Delivered<'a, Call>> {
        match call.sink.take() {
            None => {
                let arg = Arg::Message(call.header.body..call.message().len());
                Some(rqst.deliver(call, arg))
            }
            Some(sink) => Some(deliver(&self.endpoint, call, sink, rqst)),
        }
    }

    fn result_payload(state: &mut CallState, offset: u32, len: u32) {
        state.mark(offset, len);
    }

    #[inline]
    fn sendto(&self, call: Call, results: Results<'_>) {
        if self.endpoint.connection.note_peer(&results) {
            read::promote(&self.endpoint);
        }
        reply::send(&self.endpoint, call, results);
    }

    fn release(&self, mut call: Call) {
        self.endpoint.end_call(&mut call);
        if call.needs_answer {
            self.endpoint.note_dropped();
        }
        discard(&self.endpoint.connection, call);
    }

    #[inline]
    fn has_space(&self, running: impl Fn() -> i32) -> bool {
        self.endpoint.has_space(running)
    }

    fn back(&self) -> Arc<Endpoint> {
        self.endpoint.clone()
    }

    fn bind(&self, channel: Channel) {
        if self.endpoint.connection.bind(channel) {
            self.endpoint.bind();
        }
    }

    fn detach(&self) {
        self.endpoint.connection.close(CloseReason::Server);
    }
}

/// Lays the bytes of a Call with Read chunks out for nfsd, and returns the pages that nfsd has given
/// for those of `sink`.
// Out of line, to keep the frame out of the path of a Call without Read chunks.
#[inline(never)]
fn deliver<'a>(
    endpoint: &Arc<Endpoint>,
    call: Call,
    mut sink: ReadBuffer,
    rqst: Rqst<'a>,
) -> Delivered<'a, Call> {
    let (body, pages) = (call.header.body, call.sink_pages());
    let arg = match call.layout {
        Layout::Inline => Arg::Message(body..call.message().len()),
        Layout::Split { position, .. } => {
            // `layout::plan()` has checked that the position is inside the message.
            let split = body.saturating_add(position as usize);
            Arg::Split {
                head: body..split,
                pages: sink.stream_mut(),
                len: call.layout.sink_len() as usize,
            }
        }
        Layout::Linear { len } => Arg::Pages(sink.stream_mut(), len as usize),
    };
    let delivered = rqst.deliver(call, arg);
    // `deliver()` has exchanged the pages: the sink now holds pages of the thread. A file system may
    // still write out some of these, so `renew()` replaces the pages that have other users.
    let device = &endpoint.connection.device;
    device.pool.lost_pages(sink.stream_mut().renew());
    device.put_sink(&endpoint.lane, sink);
    read::end(endpoint.as_arc_borrow(), pages);
    delivered
}

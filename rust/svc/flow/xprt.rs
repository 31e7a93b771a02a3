// SPDX-License-Identifier: GPL-2.0

//! Transports: the operations that nfsd calls for a connection.
//!
//! # Context
//!
//! Process context, and may sleep, but for `has_space`, which runs in any context.

use super::{
    handoff::discard,
    read,
    send, //
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

    fn recvfrom<'a>(&self, mut call: Call, rqst: Rqst<'a>) -> Option<Delivered<'a, Call>> {
        let (layout, body, end) = (call.layout, call.header.body, call.message().len());
        let pages = call.sink_pages();
        let Some(mut sink) = call.sink.take() else {
            return Some(rqst.deliver(call, Arg::Message(body..end)));
        };
        let arg = match layout {
            Layout::Inline => Arg::Message(body..end),
            Layout::Split { position, .. } => {
                // `layout::plan()` has checked that the position is inside the message.
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
        // `deliver()` has exchanged the pages: the sink now holds pages of the thread. A file
        // system may still write out some of these, so `renew()` replaces the pages that have other
        // users.
        let domain = &self.endpoint.connection.domain;
        domain.pool.lost_pages(sink.stream_mut().renew());
        domain.put_sink(&self.endpoint.lane, sink);
        read::end(&self.endpoint, pages);
        Some(delivered)
    }

    fn result_payload(state: &mut CallState, offset: u32, len: u32) {
        state.mark(offset, len);
    }

    fn sendto(&self, call: Call, results: Results<'_>) {
        self.endpoint.connection.note_peer(&results);
        send::send(&self.endpoint, call, results);
    }

    fn release(&self, mut call: Call) {
        self.endpoint.end_call(&mut call);
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
        if self.endpoint.connection.bind(channel) {
            self.endpoint.bind();
        }
    }

    fn detach(&self) {
        self.endpoint.connection.close(CloseReason::Server);
    }
}

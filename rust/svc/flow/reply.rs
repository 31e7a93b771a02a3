// SPDX-License-Identifier: GPL-2.0

//! Replies: from nfsd's results to the Send that completes.
//!
//! [`send`] runs in an nfsd thread. It chooses the form of the reply, builds the transport header,
//! copies what is small, takes the pages of what is not, and queues the work; it never waits for
//! the peer. A reply that has to wait for room keeps its Call, as the peer's chunks are named in
//! the received header.

use super::{
    backchannel as callbacks,
    receive::{
        self,
        Call, //
    },
};
use crate::svc::{
    close_reason::CloseReason,
    conn::{
        endpoint::Endpoint,
        work::Work, //
    },
};
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    chain::{
        Chain,
        Message,
        Rdma,
        Remote, //
    },
    dma::Direction,
    page_region::PageRegion,
    send_buffer::SendBuffer, //
};
use sunrpc::{
    backchannel,
    results::Results, //
};
use support::{
    compat,
    page::PAGE_SIZE,
    trace, //
};
use svcrdma_proto::{
    encode,
    error::Answer,
    header::View,
    reply::{
        self,
        Form,
        Payload,
        ReplyPlan,
        WriteCursor,
        MAX_PAYLOADS, //
    },
    ulb, //
};

/// Results of up to so many bytes are copied behind the transport header: cheaper than mapping
/// their pages, and the thread keeps them.
const COPY_MAX: usize = 1024;

/// A reply in flight, or one that can be used for the next. A Call to the client is sent by one,
/// too.
pub(crate) struct Reply {
    buffer: SendBuffer,
    /// Bytes of the buffer that are sent: the header, and what was copied behind it.
    len: usize,
    /// Whether the Send takes the inline part from the pages.
    from_pages: bool,
    /// Whether this is a Call to the client.
    is_call: bool,
    plan: ReplyPlan,
    cursor: Cell<WriteCursor>,
    /// The pages of the results, if any are needed.
    pages: Option<KBox<PageRegion>>,
    /// The handle that the Send invalidates.
    invalidate: Option<u32>,
}

impl Reply {
    /// Makes one. May sleep.
    pub(crate) fn new(buffer: SendBuffer) -> Result<KBox<Self>> {
        let plan = ReplyPlan::default();
        let reply = Self {
            buffer,
            len: 0,
            from_pages: false,
            is_call: false,
            cursor: Cell::new(WriteCursor::new()),
            plan,
            pages: None,
            invalidate: None,
        };
        Ok(KBox::new(reply, GFP_KERNEL)?)
    }

    /// Makes it ready for the next reply; returns the pages that it had.
    pub(crate) fn clear(&mut self) -> Option<KBox<PageRegion>> {
        self.len = 0;
        self.from_pages = false;
        self.is_call = false;
        self.invalidate = None;
        self.pages.take()
    }

    /// Whether pages are waiting for the completion.
    pub(crate) fn holds_pages(&self) -> bool {
        self.pages.is_some()
    }

    /// Returns the pages that it holds, with that of its send buffer. A Call to the client counts as
    /// none: [`Callbacks`](super::backchannel::Callbacks) bounds those.
    pub(crate) fn pages(&self) -> usize {
        match self.is_call {
            true => 0,
            false => self
                .pages
                .as_ref()
                .map_or(1, |pages| pages.pages().saturating_add(1)),
        }
    }

    /// How many bytes the peer takes with it.
    pub(crate) fn bytes(&self) -> u32 {
        let len = u32::try_from(self.len).unwrap_or(u32::MAX);
        let inline = if self.from_pages {
            self.plan.inline_len()
        } else {
            0
        };
        match self.holds_pages() {
            true => len
                .saturating_add(inline)
                .saturating_add(self.plan.written_len()),
            false => len,
        }
    }

    /// Adds RDMA Writes and then the Send to the chain, `room` at most; whether that was all. Calls
    /// to the client have no `call`.
    pub(crate) fn build<'m>(
        &'m self,
        call: Option<&Call>,
        chain: &mut Chain<'_, 'm>,
        room: usize,
    ) -> bool {
        self.build_writes(call, chain, room) && chain.len() < room && self.build_send(chain)
    }

    fn build_writes<'m>(
        &'m self,
        call: Option<&Call>,
        chain: &mut Chain<'_, 'm>,
        room: usize,
    ) -> bool {
        let (Some(call), Some(pages)) = (call, &self.pages) else {
            return true;
        };
        let view = receive::view(call);
        let mut cursor = self.cursor.get();
        while let Some(op) = cursor.peek(&self.plan, &view) {
            if chain.len() >= room {
                break;
            }
            let remote = Remote {
                key: op.handle,
                addr: op.remote,
            };
            let taken = chain.rdma(Rdma::Write, remote, pages, op.src as usize, op.len as usize);
            if taken == 0 {
                break;
            }
            // A piece of an operation is not longer than it.
            let taken = u32::try_from(taken).unwrap_or(op.len);
            cursor.advance(&self.plan, &view, taken);
        }
        self.cursor.set(cursor);
        cursor.peek(&self.plan, &view).is_none()
    }

    fn build_send<'m>(&'m self, chain: &mut Chain<'_, 'm>) -> bool {
        let kept = self
            .plan
            .kept()
            .map(|range| range.start as usize..range.end as usize);
        let rest = self.pages.as_deref().filter(|_| self.from_pages);
        chain.send(Message {
            buffer: &self.buffer,
            len: self.len,
            rest: rest.map(|pages| (pages, kept)),
            invalidate: self.invalidate,
        })
    }

    /// Makes it an error reply.
    fn set_error(&mut self, endpoint: &Endpoint, answer: Answer, credits: u32) {
        endpoint.connection.counters.error_replies.inc();
        self.len = encode::error(answer, credits, self.buffer.bytes_mut()).unwrap_or(0);
    }

    /// Makes it a Call to the client, which takes `credits` replies.
    pub(crate) fn set_call(&mut self, call: &backchannel::Call<'_>, credits: u32) -> Result {
        let out = self.buffer.bytes_mut();
        let len = encode::reverse(call.xid(), credits, out).ok_or(EMSGSIZE)?;
        let body = out
            .get_mut(len..)
            .and_then(|rest| rest.get_mut(..call.len()));
        call.copy(body.ok_or(EMSGSIZE)?)?;
        self.len = len.saturating_add(call.len());
        self.is_call = true;
        Ok(())
    }

    /// Whether it is a Call to the client.
    pub(crate) fn is_call(&self) -> bool {
        self.is_call
    }

    /// Makes it a reply as planned, with the results in `results`.
    fn set_results(
        &mut self,
        endpoint: &Endpoint,
        view: &View<'_>,
        credits: u32,
        results: Results<'_>,
    ) -> Result {
        let out = self.buffer.bytes_mut();
        self.len = encode::reply(&self.plan, view, credits, out).ok_or(ENOSPC)?;
        self.cursor.set(WriteCursor::new());
        let inline = self.plan.inline_len() as usize;
        // More ranges than a Send is sure to have pieces for are copied too; whatever goes inline
        // is within the threshold, which is what the buffer has room for.
        let is_small = inline <= COPY_MAX || endpoint.copies || self.plan.kept().nth(2).is_some();
        let is_copied = is_small && self.len.saturating_add(inline) <= PAGE_SIZE;
        let is_inline = self.plan.form == Form::Inline;
        if is_inline && is_copied {
            self.copy_inline(&results)?;
        }
        self.from_pages = is_inline && !is_copied;
        let written = self.plan.written_len();
        if written > 0 || self.from_pages {
            self.take_pages(endpoint, results)?;
            endpoint.connection.counters.write_bytes.add(written);
        } else {
            results.keep_result_pages();
        }
        Ok(())
    }

    /// Copies what goes inline behind the header.
    fn copy_inline(&mut self, results: &Results<'_>) -> Result {
        for range in self.plan.kept() {
            let len = range.end.saturating_sub(range.start) as usize;
            let rest = self.buffer.bytes_mut().get_mut(self.len..);
            let out = rest.and_then(|rest| rest.get_mut(..len)).ok_or(ENOSPC)?;
            if results.copy_result(range.start as usize, out) != len {
                return Err(EIO);
            }
            self.len = self.len.saturating_add(len);
        }
        Ok(())
    }

    /// Takes the pages of the results and maps them for the device.
    fn take_pages(&mut self, endpoint: &Endpoint, results: Results<'_>) -> Result {
        let device = &endpoint.connection.device;
        let mut pages = device.pool.page_region(results.result_pages())?;
        let taken = results
            .take_result(pages.stream_mut())
            .and_then(|()| device.with_pd(|pd| pages.map(pd, Direction::ToDevice)));
        self.pages = Some(pages);
        taken
    }
}

/// Sends the results of `call`. In an nfsd thread.
pub(crate) fn send(endpoint: &Arc<Endpoint>, call: Call, results: Results<'_>) {
    let connection = &endpoint.connection;
    let credits = endpoint.count_reply();
    let sent = match connection.device.pool.reply() {
        Ok(mut reply) => match prepare(endpoint, &mut reply, &call, credits, results) {
            Ok(()) => {
                submit(endpoint, reply, call);
                Ok(())
            }
            Err(e) => {
                connection.device.pool.put_reply(reply);
                Err(e)
            }
        },
        Err(e) => Err(e),
    };
    // Closing makes the peer send the Call again, over a new connection.
    match sent {
        Ok(()) => {}
        Err(e) if e == ENOMEM => connection.close(CloseReason::NoMemory),
        Err(e) => connection.close(CloseReason::Results(e.to_errno())),
    }
}

/// Fills `reply` with the results, or with an error if they fit nowhere.
fn prepare(
    endpoint: &Endpoint,
    reply: &mut Reply,
    call: &Call,
    credits: u32,
    results: Results<'_>,
) -> Result {
    let view = receive::view(call);
    let xid = view.header().xid;
    let len = u32::try_from(results.result_len()).map_err(|_| EIO)?;
    let mut payloads = [Payload::default(); MAX_PAYLOADS];
    let payloads = find_payloads(call, &results, &mut payloads);
    reply.plan = reply::plan(&view, len, payloads, endpoint.thresholds.send);
    if reply.plan.form == Form::Refused {
        trace::refused(endpoint.connection.number(), xid, len);
        reply.set_error(endpoint, Answer::Chunk { xid }, credits);
        return Ok(());
    }
    if endpoint.thresholds.invalidate {
        reply.invalidate = view.invalidatable();
    }
    let inline = reply.plan.inline_len();
    trace::reply(endpoint.connection.number(), xid, len, inline, credits);
    reply.set_results(endpoint, &view, credits, results)
}

/// The marked results that may go by RDMA Write, each where its bytes really are.
fn find_payloads<'a>(
    call: &Call,
    results: &Results<'_>,
    out: &'a mut [Payload; MAX_PAYLOADS],
) -> &'a [Payload] {
    let word = |at: u32| results.result_word(at as usize);
    let found = call
        .payloads()
        .iter()
        .filter_map(|mark| reply::payload_at(word, mark.offset, mark.len))
        .filter(|payload| ulb::is_result(results.version(), word, payload));
    let mut count: usize = 0;
    for (slot, payload) in out.iter_mut().zip(found) {
        *slot = payload;
        count = count.saturating_add(1);
    }
    out.get(..count).unwrap_or(&[])
}

/// Answers what is not a Call that nfsd could handle. In a completion.
pub(crate) fn answer(endpoint: &Endpoint, answer: Answer, call: Call) {
    if answer == Answer::Drop {
        return;
    }
    let connection = &endpoint.connection;
    let Some(mut reply) = connection.device.pool.answer() else {
        connection.close(CloseReason::NoMemory);
        return;
    };
    reply.set_error(endpoint, answer, endpoint.count_reply());
    submit(endpoint, reply, call);
}

/// Queues the reply, or takes it back if the connection closes.
fn submit(endpoint: &Endpoint, reply: KBox<Reply>, call: Call) {
    endpoint.connection.counters.replies.inc();
    endpoint.hold(&reply);
    if let Err(Work::Reply(reply)) = endpoint.submit(Work::Reply(reply), Some(call)) {
        endpoint.put_reply(reply);
    }
    callbacks::replied(endpoint);
}

/// Queues a Call to the client, unless too many wait: nfsd gives up on old ones, which wait on.
pub(crate) fn submit_call(endpoint: &Endpoint, call: KBox<Reply>) -> Result {
    let call = match endpoint.callbacks.begin() {
        true => match endpoint.submit(Work::Reply(call), None) {
            Err(Work::Reply(call)) => {
                endpoint.callbacks.end();
                call
            }
            _ => return Ok(()),
        },
        false => call,
    };
    endpoint.connection.device.pool.put_reply(call);
    match endpoint.connection.is_closing() {
        true => Err(compat::enotconn()),
        false => Err(compat::enobufs()),
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Sending: turns nfsd's results into a Reply in the send queue.
//!
//! [`send`] chooses the form of the Reply, builds the transport header, copies small results, takes
//! the pages of large results, and queues the Reply. [`answer`] queues an RDMA_ERROR, and
//! [`submit_call`] a Call to the client. Nothing here waits for the peer. The transport header of
//! the Reply repeats the chunks of the Call, so the Call is dropped before the Reply is queued.

use crate::svc::{
    close_reason::CloseReason,
    conn::{
        call::{
            self,
            Call, //
        },
        endpoint::Endpoint,
        work::Work, //
    },
    lane::reply::{
        Reply,
        Taken, //
    },
};
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    dma::Direction,
    page_region::PageRegion, //
};
use sunrpc::results::Results;
use support::{
    compat,
    trace, //
};
use svcrdma_proto::{
    error::Answer,
    reply::{
        self,
        Form,
        Payload, //
    },
    ulb, //
};

/// Sends the results of `call`, or closes the connection if that is impossible.
///
/// # Context
///
/// An nfsd thread; may sleep for memory.
pub(crate) fn send(endpoint: &Arc<Endpoint>, call: Call, results: Results<'_>) {
    match build(endpoint, &call, results) {
        Ok(reply) => submit(endpoint, reply, call),
        // The client sends the Call again, over a new connection. The Call is dropped after the close,
        // so its Receive buffer takes no further message on this connection.
        Err(ENOMEM) => endpoint.connection.close(CloseReason::NoMemory),
        Err(e) => endpoint
            .connection
            .close(CloseReason::Results(e.to_errno())),
    }
}

/// Builds the Reply to `call`.
///
/// # Errors
///
/// - `ENOMEM`: no memory for the Reply.
/// - `ENODEV`: the device is gone.
/// - Those of [`Results::take_result`] and of the mapping.
fn build(endpoint: &Arc<Endpoint>, call: &Call, results: Results<'_>) -> Result<KBox<Reply>> {
    let start = endpoint.start_reply();
    let pool = &endpoint.connection.domain.pool;
    let mut reply = match start.context {
        Some(reply) => reply,
        None => pool.reply()?,
    };
    match prepare(endpoint, &mut reply, call, start.credits, results) {
        Ok(()) => Ok(reply),
        Err(e) => {
            pool.put_reply(reply);
            Err(e)
        }
    }
}

/// Fills `reply` with the results, or with ERR_CHUNK if the results fit neither inline nor in the
/// chunks that the client has provided.
fn prepare(
    endpoint: &Endpoint,
    reply: &mut Reply,
    call: &Call,
    credits: u32,
    results: Results<'_>,
) -> Result {
    let view = call::view(call);
    let xid = view.header().xid;
    let len = u32::try_from(results.result_len()).map_err(|_| EIO)?;
    let plan = reply.plan_mut();
    let limit = endpoint.thresholds.send;
    plan.make(&view, len, eligible(call, &results), limit);
    if plan.form == Form::Refused {
        trace::refused(endpoint.connection.number(), xid, len);
        endpoint.connection.counters.error_replies.inc();
        reply.set_error(Answer::Chunk { xid }, credits);
        return Ok(());
    }
    let (inline, written) = (plan.inline_len(), plan.written_len());
    trace::reply(endpoint.connection.number(), xid, len, inline, credits);
    if endpoint.thresholds.invalidate {
        reply.set_invalidate(view.invalidatable());
    }
    reply.set_results(
        &view,
        credits,
        endpoint.copies,
        results,
        |results, taken| take_pages(endpoint, results, taken),
    )?;
    if written > 0 {
        endpoint.connection.counters.write_bytes.add(written);
    }
    Ok(())
}

/// Moves the pages with the results that `taken` names to its page region or to one of the pool, and
/// maps them for the device.
fn take_pages(endpoint: &Endpoint, results: Results<'_>, taken: Taken) -> Result<KBox<PageRegion>> {
    let (domain, lane) = (&endpoint.connection.domain, &endpoint.lane);
    let mut pages = match taken.spare {
        Some(pages) => pages,
        None => domain.page_region(lane, results.result_pages())?,
    };
    let range = taken.range.start as usize..taken.range.end as usize;
    let is_mapped = results
        .take_result(range, pages.stream_mut())
        .and_then(|()| lane.with_pd(|pd| pages.map(pd, Direction::ToDevice)));
    match is_mapped {
        Ok(()) => Ok(pages),
        Err(e) => {
            domain.pool.put_page_region(pages);
            Err(e)
        }
    }
}

/// Returns the results that may be sent by RDMA Write: of the data items that nfsd has marked,
/// those that are eligible for direct data placement (RFC 8267). Each has the position at which its
/// bytes really begin.
fn eligible<'a>(call: &'a Call, results: &'a Results<'a>) -> impl Iterator<Item = Payload> + 'a {
    let word = |at: u32| results.result_word(at as usize);
    call.payloads()
        .iter()
        .filter_map(move |mark| reply::payload_at(word, mark.offset, mark.len))
        .filter(move |payload| ulb::is_result(results.version(), word, payload))
}

/// Queues the RDMA_ERROR `answer` for a message that nfsd does not get. [`Answer::Drop`] queues
/// nothing. Closes the connection if the pool has no send buffer.
///
/// # Context
///
/// Process context; does not sleep.
pub(crate) fn answer(endpoint: &Endpoint, answer: Answer, call: Call) {
    if answer == Answer::Drop {
        return;
    }
    let connection = &endpoint.connection;
    let Some(mut reply) = connection.domain.pool.answer() else {
        connection.close(CloseReason::NoMemory);
        return;
    };
    connection.counters.error_replies.inc();
    reply.set_error(answer, endpoint.grant());
    submit(endpoint, reply, call);
}

/// Drops `call` and queues `reply`, or returns `reply` to the pool if the connection is closing.
///
/// Dropping the Call posts its Receive buffer again. This precedes the Reply, which lets the peer
/// send another message. A Reply that has to wait keeps its Call until then.
fn submit(endpoint: &Endpoint, reply: KBox<Reply>, mut call: Call) {
    endpoint.connection.counters.replies.inc();
    let has_credit = core::mem::replace(&mut call.has_credit, false);
    let call = Cell::new(Some(call).filter(|_| endpoint.is_full()));
    let work = Work::Reply {
        reply,
        has_credit,
        call,
    };
    if let Err(Work::Reply { reply, .. }) = endpoint.submit(work) {
        endpoint.connection.domain.pool.put_reply(reply);
    }
    endpoint.on_replied();
}

/// Queues a Call to the client, unless [`SLOTS`](sunrpc::callback::SLOTS) Calls are queued already.
/// A Call stays queued when nfsd gives up on it, so nfsd alone would not limit their number.
///
/// # Errors
///
/// `ENOTCONN` if the connection is closing, otherwise `ENOBUFS`.
pub(crate) fn submit_call(endpoint: &Endpoint, call: KBox<Reply>) -> Result {
    let call = match endpoint.callbacks.begin() {
        true => match endpoint.submit(Work::Reply {
            reply: call,
            has_credit: false,
            call: Cell::new(None),
        }) {
            Err(Work::Reply { reply: call, .. }) => {
                endpoint.callbacks.end();
                call
            }
            _ => return Ok(()),
        },
        false => call,
    };
    endpoint.connection.domain.pool.put_reply(call);
    match endpoint.connection.is_closing() {
        true => Err(compat::enotconn()),
        false => Err(compat::enobufs()),
    }
}

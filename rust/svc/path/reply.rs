// SPDX-License-Identifier: GPL-2.0

//! Sending: turns nfsd's results into a Reply in the send queue.
//!
//! [`send`] chooses the form of the Reply, builds the transport header, copies small results, takes
//! the pages of large results, and queues the Reply. [`answer`] queues an RDMA_ERROR, and
//! [`submit_call`] a Call to the client. Nothing here waits for the peer. The transport header of
//! the Reply repeats the chunks of the Call, so the Call is dropped before the Reply is queued.

use crate::svc::{
    close_reason::{
        CloseReason,
        Queue, //
    },
    conn::{
        answers::Next,
        call::{
            self,
            Call, //
        },
        endpoint::Endpoint,
        sender::Granted,
        work::Work, //
    },
    pages::{
        reply::{
            Kind,
            Reply, //
        },
        results::Taken, //
    },
};
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::mem::{
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

/// The lengths of a Reply, for its trace event.
#[derive(Clone, Copy)]
struct Lens {
    /// Bytes of the results.
    results: u32,
    /// Bytes of them that are sent inline.
    inline: u32,
}

/// Sends the results of `call`, or closes the connection if that is impossible.
///
/// # Context
///
/// An nfsd thread; may sleep for memory.
#[inline]
pub(crate) fn send(endpoint: &Arc<Endpoint>, call: Call, results: Results<'_>) {
    let xid = call.header.xid;
    match build(endpoint, &call, results) {
        Ok((reply, lens)) => {
            let granted = submit(endpoint, reply, call);
            if let Some(Lens { results, inline }) = lens {
                let number = endpoint.connection.number();
                trace::reply(number, xid, results, inline, granted.credits);
            }
            if granted.needs_buffers {
                endpoint.grow_later();
            }
        }
        Err(e) => fail(endpoint, e),
    }
}

/// Closes the connection because a Reply cannot be sent. The client sends the Call again, over a new
/// connection. The Call is dropped after the close, so its Receive buffer takes no further message
/// on this connection.
#[cold]
#[inline(never)]
fn fail(endpoint: &Endpoint, error: Error) {
    endpoint.connection.counters.calls_dropped.inc();
    endpoint.connection.close(match error {
        ENOMEM => CloseReason::NoMemory,
        e => CloseReason::Results(e.to_errno()),
    });
}

/// Builds the Reply to `call`. Returns no lengths if it is an error Reply.
///
/// # Errors
///
/// - `ENOMEM`: no memory for the Reply.
/// - `ENODEV`: the device is gone.
/// - Those of [`Results::take_result`] and of the mapping.
#[inline]
fn build(
    endpoint: &Endpoint,
    call: &Call,
    results: Results<'_>,
) -> Result<(KBox<Reply>, Option<Lens>)> {
    let mut reply = endpoint.take_reply()?;
    match prepare(endpoint, &mut reply, call, results) {
        Ok(lens) => Ok((reply, lens)),
        Err(e) => {
            endpoint.connection.device.pool.put_reply(reply);
            Err(e)
        }
    }
}

/// Fills `reply` with the results, or with ERR_CHUNK if the results fit neither inline nor in the
/// chunks that the client has provided. Returns no lengths in the second case.
#[inline]
fn prepare(
    endpoint: &Endpoint,
    reply: &mut Reply,
    call: &Call,
    results: Results<'_>,
) -> Result<Option<Lens>> {
    let view = call::view(call);
    let len = u32::try_from(results.result_len()).map_err(|_| EIO)?;
    let plan = reply.plan_mut();
    let limit = endpoint.thresholds.send;
    plan.make(&view, len, eligible(call, &results), limit);
    if plan.form == Form::Refused {
        refuse(endpoint, reply, view.header().xid, len);
        return Ok(None);
    }
    let inline = plan.inline_len();
    let invalidate = if endpoint.thresholds.invalidate {
        view.invalidatable()
    } else {
        None
    };
    let take = |results: Results<'_>, taken| take_pages(endpoint, results, taken);
    reply.set_results(&view, invalidate, endpoint.copies, results, take)?;
    Ok(Some(Lens {
        results: len,
        inline,
    }))
}

/// Turns `reply` into an ERR_CHUNK, because `len` bytes of results cannot be sent.
#[cold]
#[inline(never)]
fn refuse(endpoint: &Endpoint, reply: &mut Reply, xid: u32, len: u32) {
    trace::refused(endpoint.connection.number(), xid, len);
    endpoint.connection.counters.error_replies.inc();
    reply.set_error(Kind::Reply, Answer::Chunk { xid });
}

/// Moves the pages with the results that `taken` names to its page region or to one of the pool, and
/// maps them for the device, now or when the Reply is posted.
fn take_pages(endpoint: &Endpoint, results: Results<'_>, taken: Taken) -> Result<KBox<PageRegion>> {
    let (device, lane) = (&endpoint.connection.device, &endpoint.lane);
    let mut pages = match taken.spare {
        Some(pages) => pages,
        None => device.page_region(lane, results.result_pages())?,
    };
    let range = taken.range.start as usize..taken.range.end as usize;
    let is_mapped = results
        .take_result(range, pages.stream_mut())
        .and_then(|()| lane.map(&mut pages, Direction::ToDevice));
    match is_mapped {
        Ok(()) => Ok(pages),
        Err(e) => {
            device.pool.put_page_region(pages);
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

/// Queues the RDMA_ERROR `answer` for a message that nfsd does not get, or makes the Call wait until
/// the one before it was sent. [`Answer::Drop`] queues nothing.
///
/// # Context
///
/// Process context; does not sleep.
pub(crate) fn answer(endpoint: &Endpoint, answer: Answer, mut call: Call) {
    if answer == Answer::Drop {
        return;
    }
    call.answer = Some(answer);
    match endpoint.answers.begin(call) {
        Ok(Some(next)) => send_answer(endpoint, next),
        Ok(None) => {}
        Err(refused) => drop(endpoint.connection.take_back(refused, Queue::Work)),
    }
}

/// Takes `reply` back, which was sent, and queues the RDMA_ERROR for the next Call that waits for
/// one.
///
/// # Context
///
/// Process context; does not sleep.
pub(crate) fn next_answer(endpoint: &Endpoint, reply: KBox<Reply>) {
    match endpoint.answers.next(reply) {
        Ok(Some(next)) => send_answer(endpoint, next),
        Ok(None) => {}
        Err(reply) => endpoint.put_reply(reply),
    }
}

/// Queues the RDMA_ERROR with which a Call is answered.
fn send_answer(endpoint: &Endpoint, (mut reply, call): Next) {
    endpoint.connection.counters.error_replies.inc();
    reply.set_error(Kind::Answer, call.answer.unwrap_or(Answer::Drop));
    submit(endpoint, reply, call);
}

/// Drops `call` and queues `reply`, or returns `reply` to the pool if the connection is closing.
/// Returns what the Reply grants.
///
/// Dropping the Call posts its Receive buffer again. This precedes the Reply, which lets the peer
/// send another message. A Reply that has to wait keeps its Call until then.
fn submit(endpoint: &Endpoint, mut reply: KBox<Reply>, mut call: Call) -> Granted {
    reply.has_credit = core::mem::replace(&mut call.has_credit, false);
    reply.most_credits = endpoint.most_credits();
    reply.received = call.received;
    let call = Some(call).filter(|_| endpoint.send_queue.has_waiting());
    let mut sq = endpoint.send_queue.lock();
    let granted = sq.state().grant(&mut reply);
    let posted = sq.post(Work::Reply(reply, Cell::new(call)));
    drop(sq);
    let posted = endpoint.follow_posted(posted);
    endpoint.on_replied();
    match posted {
        Ok(()) => granted,
        Err(work) => put_back(endpoint, work),
    }
}

/// Returns the context of a refused Reply to the pool, and the pages that the connection has drawn
/// for it to the device: teardown may have returned those of the connection before.
#[cold]
#[inline(never)]
fn put_back(endpoint: &Endpoint, work: Work) -> Granted {
    if let Work::Reply(reply, _) = work {
        endpoint.release(&reply);
        endpoint.drop_replies();
        // The context for error Replies ends with the connection.
        if reply.kind() != Kind::Answer {
            endpoint.connection.device.pool.put_reply(reply);
        }
    }
    Granted::default()
}

/// Queues a Call to the client, unless [`SLOTS`](sunrpc::callback::SLOTS) Calls are queued already.
/// A Call stays queued when nfsd gives up on it, so nfsd alone would not limit their number.
///
/// # Errors
///
/// `ENOTCONN` if the connection is closing, otherwise `ENOBUFS`.
pub(crate) fn submit_call(endpoint: &Endpoint, mut call: KBox<Reply>) -> Result {
    call.has_credit = false;
    let call = if endpoint.callbacks.begin() {
        match endpoint.post(Work::from(call)) {
            Err(Work::Reply(call, _)) => {
                endpoint.callbacks.end();
                call
            }
            _ => return Ok(()),
        }
    } else {
        call
    };
    endpoint.connection.device.pool.put_reply(call);
    if endpoint.connection.is_closing() {
        Err(compat::enotconn())
    } else {
        Err(compat::enobufs())
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Replies: the contexts that Replies, and Calls to clients, are sent with.
//!
//! A context has a send buffer, for the transport header and what is copied behind it, and may have a
//! page region with results. The pool keeps contexts that nobody uses. A context that was posted belongs
//! to the send queue until the device has completed it.

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
    device::Pd,
    page_region::PageRegion,
    send_buffer::SendBuffer,
    work::Built, //
};
use sunrpc::{
    callback,
    results::Results, //
};
use support::page::{
    Effort,
    PAGE_SIZE, //
};
use svcrdma_proto::{
    encode,
    error::Answer,
    header::View,
    reply::{
        Form,
        ReplyPlan,
        WriteCursor, //
    },
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

    /// Makes `count` contexts without results. May sleep.
    pub(crate) fn several(pd: &Arc<Pd>, count: usize) -> Result<KVec<KBox<Self>>> {
        let mut replies = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let reply = Self::new(SendBuffer::new(pd, Effort::Little)?)?;
            replies.push(reply, GFP_KERNEL)?;
        }
        Ok(replies)
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
    /// none: a connection has a fixed number of those.
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

    /// Adds RDMA Writes and then the Send to the chain, which may then have at most `room` work requests.
    /// `call` is the Call that this is the Reply to; a Call to the client has none.
    pub(crate) fn build<'m>(
        &'m self,
        call: Option<View<'_>>,
        chain: &mut Chain<'_, 'm>,
        room: usize,
    ) -> Built {
        let is_written = match (call, &self.pages) {
            (Some(view), Some(pages)) => self.build_writes(&view, pages, chain, room),
            _ => true,
        };
        Built::from(is_written && chain.len() < room && self.build_send(chain))
    }

    /// Adds RDMA Writes of `pages`. Returns true if those were the last ones.
    fn build_writes<'m>(
        &'m self,
        view: &View<'_>,
        pages: &'m PageRegion,
        chain: &mut Chain<'_, 'm>,
        room: usize,
    ) -> bool {
        let mut cursor = self.cursor.get();
        while let Some(op) = cursor.peek(&self.plan, view) {
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
            cursor.advance(&self.plan, view, taken);
        }
        self.cursor.set(cursor);
        cursor.peek(&self.plan, view).is_none()
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

    /// Makes it an error Reply.
    pub(crate) fn set_error(&mut self, answer: Answer, credits: u32) {
        self.len = encode::error(answer, credits, self.buffer.bytes_mut()).unwrap_or(0);
    }

    /// Makes it a Reply of this form.
    pub(crate) fn set_plan(&mut self, plan: ReplyPlan, invalidate: Option<u32>) {
        self.plan = plan;
        self.invalidate = invalidate;
    }

    /// Makes it a Call to the client, which takes `credits` replies.
    pub(crate) fn set_call(&mut self, call: &callback::Call<'_>, credits: u32) -> Result {
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

    /// Encodes the header of a planned Reply to the Call `view`, and takes the results. Results that are
    /// small are copied, and all that go inline if `copies`. For the others `take` moves the pages of the
    /// results to a page region and maps them.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the Reply is longer than the buffer, `EIO` if results are missing, or that of `take`.
    pub(crate) fn set_results(
        &mut self,
        view: &View<'_>,
        credits: u32,
        copies: bool,
        results: Results<'_>,
        take: impl FnOnce(Results<'_>) -> Result<KBox<PageRegion>>,
    ) -> Result {
        let out = self.buffer.bytes_mut();
        self.len = encode::reply(&self.plan, view, credits, out).ok_or(ENOSPC)?;
        self.cursor.set(WriteCursor::new());
        let is_inline = self.plan.form == Form::Inline;
        let is_copied = self.is_copied(copies);
        if is_inline && is_copied {
            self.copy_inline(&results)?;
        }
        self.from_pages = is_inline && !is_copied;
        if self.plan.written_len() > 0 || self.from_pages {
            self.pages = Some(take(results)?);
        } else {
            results.keep_result_pages();
        }
        Ok(())
    }

    /// Returns true if results that go inline are copied. More ranges than a Send is sure to have pieces for
    /// are always copied: results that go inline are within the threshold, and the buffer has room for that.
    fn is_copied(&self, copies: bool) -> bool {
        let inline = self.plan.inline_len() as usize;
        let is_small = inline <= COPY_MAX || copies || self.plan.kept().nth(2).is_some();
        is_small && self.len.saturating_add(inline) <= PAGE_SIZE
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
}

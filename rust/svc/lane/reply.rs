// SPDX-License-Identifier: GPL-2.0

//! Reply contexts: the objects that Replies and callbacks are sent with.
//!
//! A context has a send buffer for the transport header and for copied results, and may have a page
//! region with other results. The pool keeps the free contexts. A posted context belongs to the
//! send queue until the device has completed it.

use super::sizes::SMALL;
use core::{
    cell::Cell,
    ops::Range, //
};
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

/// The most bytes of inline results that are copied behind the transport header. Copying them is
/// cheaper than mapping their pages, and the nfsd thread keeps the pages.
const COPY_MAX: usize = 1024;

/// The use of a context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A Reply with the results of nfsd.
    Reply,
    /// An RDMA_ERROR.
    Answer,
    /// A Call to the client.
    Callback,
}

/// The part of the results that a Reply takes.
pub(crate) struct Taken {
    /// The range of the results that has all bytes whose pages are taken.
    pub(crate) range: Range<u32>,
    /// A page region for the pages, if the Reply has one.
    pub(crate) spare: Option<KBox<PageRegion>>,
}

/// A context for a Reply or a callback: free, being built, or in flight.
pub(crate) struct Reply {
    buffer: SendBuffer,
    /// Bytes of the buffer that are sent: the transport header and the copied results.
    len: usize,
    /// True if the Send takes the inline results from `pages`.
    from_pages: bool,
    kind: Kind,
    /// The form of the Reply, and the ranges of the results that each chunk takes.
    plan: ReplyPlan,
    /// The progress of the RDMA Writes.
    cursor: Cell<WriteCursor>,
    /// The pages of results that are not copied.
    pages: Option<KBox<PageRegion>>,
    /// An empty small page region, which stays with the context.
    spare: Option<KBox<PageRegion>>,
    /// The handle of the client's memory that the Send invalidates.
    invalidate: Option<u32>,
}

impl Reply {
    /// Creates a free context. May sleep.
    pub(crate) fn new(buffer: SendBuffer) -> Result<KBox<Self>> {
        let plan = ReplyPlan::default();
        let reply = Self {
            buffer,
            len: 0,
            from_pages: false,
            kind: Kind::Reply,
            cursor: Cell::default(),
            plan,
            pages: None,
            spare: None,
            invalidate: None,
        };
        Ok(KBox::new(reply, GFP_KERNEL)?)
    }

    /// Creates `count` free contexts. May sleep.
    pub(crate) fn several(pd: &Arc<Pd>, count: usize) -> Result<KVec<KBox<Self>>> {
        let mut replies = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let reply = Self::new(SendBuffer::new(pd, Effort::Little)?)?;
            replies.push(reply, GFP_KERNEL)?;
        }
        Ok(replies)
    }

    /// Makes the context free and releases the pages in it. Returns a large page region that it
    /// had; the pages in that one are released as well. Does not sleep.
    pub(crate) fn clear(&mut self) -> Option<KBox<PageRegion>> {
        self.reset();
        let mut pages = self.pages.take()?;
        pages.stream_mut().clear();
        if self.spare.is_some() || pages.capacity() > SMALL {
            return Some(pages);
        }
        self.spare = Some(pages);
        None
    }

    /// Makes a context free that has no pages.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.len = 0;
        self.from_pages = false;
        self.kind = Kind::Reply;
        self.invalidate = None;
    }

    /// Takes the small page region that stays with the context, if it has room for `pages` pages.
    pub(crate) fn take_spare(&mut self, pages: usize) -> Option<KBox<PageRegion>> {
        self.spare.take_if(|spare| spare.capacity() >= pages)
    }

    /// Returns true if pages wait for the completion.
    pub(crate) fn holds_pages(&self) -> bool {
        self.pages.is_some()
    }

    /// Returns the number of pages that the Reply holds, its send buffer included. A callback
    /// counts as none, because a connection has a fixed number of them.
    pub(crate) fn pages(&self) -> usize {
        match self.kind {
            Kind::Callback => 0,
            Kind::Reply | Kind::Answer => self
                .pages
                .as_ref()
                .map_or(1, |pages| pages.pages().saturating_add(1)),
        }
    }

    /// Returns the number of bytes that the peer takes.
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

    /// Adds the RDMA Writes and then the Send to the chain, which may have at most `room` work
    /// requests afterwards.
    pub(crate) fn build<'m>(&'m self, chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        let writes = match &self.pages {
            Some(pages) => self.build_writes(pages, chain, room),
            None => Built::All,
        };
        Built::from(writes == Built::All && chain.len() < room && self.build_send(chain))
    }

    /// Adds RDMA Writes of `pages`.
    fn build_writes<'m>(
        &'m self,
        pages: &'m PageRegion,
        chain: &mut Chain<'_, 'm>,
        room: usize,
    ) -> Built {
        let mut cursor = self.cursor.get();
        while let Some(op) = cursor.peek() {
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
            // One work request takes at most the operation.
            let taken = u32::try_from(taken).unwrap_or(op.len);
            cursor.advance(&self.plan, self.buffer.bytes(), taken);
        }
        self.cursor.set(cursor);
        Built::from(cursor.peek().is_none())
    }

    /// Adds the Send. Returns false if the chain has no room for it.
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

    /// Turns the context into an error Reply, which grants `credits`.
    pub(crate) fn set_error(&mut self, answer: Answer, credits: u32) {
        self.kind = Kind::Answer;
        self.len = encode::error(answer, credits, self.buffer.bytes_mut()).unwrap_or(0);
    }

    /// Returns the plan, which the caller makes before [`Self::set_results`].
    pub(crate) fn plan_mut(&mut self) -> &mut ReplyPlan {
        &mut self.plan
    }

    /// Sets the handle of the client's memory that the Reply invalidates.
    pub(crate) fn set_invalidate(&mut self, handle: Option<u32>) {
        self.invalidate = handle;
    }

    /// Turns the context into the callback `call`. The server can receive `credits` replies to
    /// callbacks.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the callback exceeds the buffer, or an error of [`callback::Call::copy`].
    pub(crate) fn set_call(&mut self, call: &callback::Call<'_>, credits: u32) -> Result {
        let out = self.buffer.bytes_mut();
        let len = encode::reverse(call.xid(), credits, out).ok_or(EMSGSIZE)?;
        let body = out
            .get_mut(len..)
            .and_then(|rest| rest.get_mut(..call.len()));
        call.copy(body.ok_or(EMSGSIZE)?)?;
        self.len = len.saturating_add(call.len());
        self.kind = Kind::Callback;
        Ok(())
    }

    /// Returns what the context is used for.
    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Encodes the header of the planned Reply to the Call `view`, and takes the results. Small
    /// inline results are copied, and all inline results if `copies`. `take` moves the pages with
    /// other results to a page region and maps them. May sleep.
    ///
    /// # Errors
    ///
    /// - `ENOSPC` if the Reply exceeds the buffer.
    /// - `EIO` if results are missing.
    /// - Any error of `take`.
    pub(crate) fn set_results(
        &mut self,
        view: &View<'_>,
        credits: u32,
        copies: bool,
        results: Results<'_>,
        take: impl FnOnce(Results<'_>, Taken) -> Result<KBox<PageRegion>>,
    ) -> Result {
        let out = self.buffer.bytes_mut();
        self.len = encode::reply(&self.plan, view, credits, out).ok_or(ENOSPC)?;
        self.cursor.set(WriteCursor::new(&self.plan, out));
        let is_inline = self.plan.form == Form::Inline;
        let is_copied = self.is_copied(copies);
        if is_inline && is_copied {
            self.copy_inline(&results)?;
        }
        self.from_pages = is_inline && !is_copied;
        if self.plan.written_len() > 0 || self.from_pages {
            let taken = Taken {
                range: match self.from_pages {
                    true => 0..u32::MAX,
                    false => self.plan.written_range(),
                },
                spare: self.take_spare(results.result_pages()),
            };
            self.pages = Some(take(results, taken)?);
        } else {
            results.keep_result_pages();
        }
        Ok(())
    }

    /// Returns true if the inline results are copied. Results in more than two ranges always are,
    /// because a Send may have too few entries for them. The buffer has room for them, as inline
    /// results do not exceed the inline threshold.
    fn is_copied(&self, copies: bool) -> bool {
        let inline = self.plan.inline_len() as usize;
        let is_small = inline <= COPY_MAX || copies || self.plan.kept().nth(2).is_some();
        is_small && self.len.saturating_add(inline) <= PAGE_SIZE
    }

    /// Copies the inline results behind the header.
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

// SPDX-License-Identifier: GPL-2.0

//! Reply contexts: the objects that Replies and callbacks are sent with.
//!
//! A context has a send buffer for the transport header and for copied results, and may have a page
//! region with other results. The pool keeps the free contexts. A posted context belongs to the
//! send queue until the device has completed it.

use super::sizes::SMALL;
use crate::svc::latency::Stamp;
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::Arc,
    time::Instant, //
};
use rdma::{
    device::Pd,
    mem::{
        dma::Direction,
        page_region::PageRegion, //
    },
    send::{
        buffer::SendBuffer,
        chain::{
            Chain,
            Message,
            Rdma,
            Remote, //
        },
        work::Built, //
    },
};
use sunrpc::callback;
use support::page::{
    Effort,
    PAGE_SIZE, //
};
use svcrdma_proto::{
    encode,
    error::Answer,
    reply::{
        ReplyPlan,
        WriteCursor, //
    },
};

/// The use of a context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A Reply to a Call that nfsd has executed: its results, or an RDMA_ERROR in their place.
    Reply,
    /// An RDMA_ERROR for a message that nfsd does not get, in the connection's own context.
    Answer,
    /// A Call to the client.
    Callback,
}

/// A context for a Reply or a callback: free, being built, or in flight.
pub(crate) struct Reply {
    pub(super) buffer: SendBuffer,
    /// Bytes of the buffer that are sent: the transport header and the copied results.
    pub(super) len: usize,
    /// True if the Send takes the inline results from `pages`.
    pub(super) from_pages: bool,
    kind: Kind,
    /// The form of the Reply, and the ranges of the results that each chunk takes.
    pub(super) plan: ReplyPlan,
    /// The progress of the RDMA Writes.
    pub(super) cursor: Cell<WriteCursor>,
    /// The pages of results that are not copied.
    pub(super) pages: Option<KBox<PageRegion>>,
    /// An empty small page region, which stays with the context.
    spare: Option<KBox<PageRegion>>,
    /// The handle of the client's memory that the Send invalidates.
    pub(super) invalidate: Option<u32>,
    /// Pages that the Reply holds.
    pub(super) held: i32,
    /// Bytes that the peer takes, and those of them that are written by RDMA Write.
    pub(super) bytes: u32,
    pub(super) written: u32,
    /// The most credits that a Reply grants.
    pub(crate) most_credits: u32,
    /// The credits that it grants, once it is queued.
    pub(crate) granted: u32,
    /// True if the Call uses a credit, until the last work request of the Reply is built.
    pub(crate) has_credit: bool,
    /// The time at which the Call was received, if it is timed.
    pub(crate) received: Stamp,
    /// The time at which the Reply was posted, if its Call is timed; otherwise that of an earlier one.
    posted: Cell<Stamp>,
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
            held: 0,
            bytes: 0,
            written: 0,
            most_credits: 0,
            granted: 0,
            has_credit: false,
            received: None,
            posted: Cell::new(None),
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
        let mut pages = self.pages.take()?;
        pages.stream_mut().clear();
        if self.spare.is_some() || pages.capacity() > SMALL {
            return Some(pages);
        }
        self.spare = Some(pages);
        None
    }

    /// Takes the small page region that stays with the context, if it has room for `pages` pages.
    pub(crate) fn take_spare(&mut self, pages: usize) -> Option<KBox<PageRegion>> {
        self.spare.take_if(|spare| spare.capacity() >= pages)
    }

    /// Returns true if pages wait for the completion.
    #[inline]
    pub(crate) fn holds_pages(&self) -> bool {
        self.pages.is_some()
    }

    /// Notes the time at which the Reply is posted, if its Call is timed.
    #[inline]
    pub(crate) fn note_posted(&self) {
        if self.received.is_some() {
            self.posted.set(Some(Instant::now()));
        }
    }

    /// Returns the time at which the Reply was posted, if its Call is timed.
    #[inline]
    pub(crate) fn posted(&self) -> Stamp {
        self.received.and(self.posted.get())
    }

    /// Returns true if the time of the completion matters: for the pages, for the latency of the
    /// Call, or because the context of an RDMA_ERROR is one of few. Also if the message is so long
    /// that siw passes the send buffer itself to TCP, unless it is signalled
    /// (drivers/infiniband/sw/siw/siw_qp_tx.c): TCP may send it after the completion.
    #[inline]
    pub(crate) fn awaits_completion(&self) -> bool {
        self.holds_pages()
            || self.received.is_some()
            || self.kind == Kind::Answer
            || self.len >= PAGE_SIZE
    }

    /// Returns the number of pages that the Reply holds, its send buffer included. A callback
    /// counts as none, because a connection has a fixed number of them.
    #[inline]
    pub(crate) fn pages(&self) -> i32 {
        self.held
    }

    /// Returns the number of bytes that the peer takes.
    #[inline]
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns the number of bytes that are written by RDMA Write.
    #[inline]
    pub(crate) fn written(&self) -> u32 {
        self.written
    }

    /// Makes the context one of `kind` that sends `len` bytes of the buffer and nothing else.
    #[inline]
    pub(super) fn set(&mut self, kind: Kind, len: usize) {
        self.kind = kind;
        self.len = len;
        self.from_pages = false;
        self.invalidate = None;
        self.held = if kind == Kind::Callback { 0 } else { 1 };
        // CAST: At most a page.
        self.bytes = len as u32;
        self.written = 0;
        self.received = None;
    }

    /// Maps the pages for the device of `pd`. Returns false if they are mapped already. Errors are
    /// those of [`PageRegion::map`].
    pub(crate) fn map(&mut self, pd: &Arc<Pd>) -> Result<bool> {
        match &mut self.pages {
            Some(pages) => pages.map_if_needed(pd, Direction::ToDevice),
            None => Ok(false),
        }
    }

    /// Unmaps the pages. No work request that names them is posted.
    pub(crate) fn unmap(&mut self) {
        if let Some(pages) = &mut self.pages {
            pages.unmap();
        }
    }

    /// Adds the RDMA Writes and then the Send to the chain, which may have at most `room` work
    /// requests afterwards.
    #[inline]
    pub(crate) fn build<'m>(&'m self, chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        match &self.pages {
            Some(pages) => self.build_with(pages, chain, room),
            None => Built::from(chain.len() < room && self.build_send(chain, None)),
        }
    }

    /// Adds the RDMA Writes and the Send of a Reply with `pages`.
    // Out of line, to keep the frame out of the path of small Replies.
    #[inline(never)]
    fn build_with<'m>(
        &'m self,
        pages: &'m PageRegion,
        chain: &mut Chain<'_, 'm>,
        room: usize,
    ) -> Built {
        let rest = self.from_pages.then_some(pages);
        let writes = self.build_writes(pages, chain, room);
        Built::from(writes == Built::All && chain.len() < room && self.build_send(chain, rest))
    }

    /// Adds RDMA Writes of `pages`.
    #[inline]
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

    /// Adds the Send, with the inline results in `rest`. Returns false if the chain has no room for
    /// it.
    #[inline]
    fn build_send<'m>(&'m self, chain: &mut Chain<'_, 'm>, rest: Option<&'m PageRegion>) -> bool {
        let kept = |pages| {
            let kept = self.plan.kept();
            let kept = kept.map(|range| range.start as usize..range.end as usize);
            (pages, kept)
        };
        chain.send(Message {
            buffer: &self.buffer,
            len: self.len,
            rest: rest.map(kept),
            invalidate: self.invalidate,
        })
    }

    /// Turns the context into an error Reply of `kind`.
    pub(crate) fn set_error(&mut self, kind: Kind, answer: Answer) {
        let len = encode::error(answer, 0, self.buffer.bytes_mut());
        self.set(kind, len.unwrap_or(0));
    }

    /// Returns the plan, which the caller makes before [`Self::set_results`].
    #[inline]
    pub(crate) fn plan_mut(&mut self) -> &mut ReplyPlan {
        &mut self.plan
    }

    /// Sets the credits that the Reply grants, once its header is encoded.
    #[inline]
    pub(crate) fn set_credits(&mut self, credits: u32) {
        self.granted = credits;
        encode::set_credits(self.buffer.bytes_mut(), credits);
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
        self.set(Kind::Callback, len.saturating_add(call.len()));
        Ok(())
    }

    /// Returns what the context is used for.
    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }
}

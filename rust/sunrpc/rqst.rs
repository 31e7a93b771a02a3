// SPDX-License-Identifier: GPL-2.0

//! The request of an nfsd thread, to which a class delivers a Call.
//!
//! A [`Rqst`] is a `struct svc_rqst` while `xpo_recvfrom` runs for it. [`Rqst::deliver`] fills in
//! `rq_arg`, the bytes of the Call. The pages in `rq_pages` belong to the thread. They are
//! exchanged one for one with pages of the Call, so sunrpc has no page to refill.
//! [`results`](super::results) has the way of the results to the class.
//!
//! C headers: [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h),
//! [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h)

use core::{
    marker::PhantomData,
    ops::Range,
    ptr::NonNull, //
};
use kernel::prelude::*;
use support::{
    context::Context,
    page::PAGE_SIZE,
    stream::Stream, //
};

/// The places of the bytes of a Call. Ranges count from the start of the received message.
pub enum Arg<'a> {
    /// All bytes are in the received message, in this range.
    Message(Range<usize>),
    /// The head is in the received message, and `len` more bytes are in the stream's pages.
    ///
    /// There is no tail, because some decoders of nfsd read only the head and the pages.
    Split {
        /// The bytes before the Read chunk.
        head: Range<usize>,
        /// The pages with the Read chunk, its XDR pad, and the bytes that follow it.
        pages: &'a mut Stream,
        /// The number of bytes in the pages.
        len: usize,
    },
    /// All bytes, of the given number, are in the stream's pages.
    Pages(&'a mut Stream, usize),
}

/// A Call whose bytes are in the `rq_arg` of a request.
///
/// [`Connect::recvfrom`](super::xprt::Connect::recvfrom) returns it to pass the Call to nfsd.
///
/// # Invariants
///
/// The request that this value was made for is live for `'a`. The head in its `rq_arg` points to
/// memory of `call` or to a page of the request's thread.
pub struct Delivered<'a, C: Context> {
    call: C,
    len: usize,
    _rqst: PhantomData<&'a mut ()>,
}

/// The request of the calling nfsd thread, without a Call.
///
/// The thread owns the request and lends it for one operation. No other thread uses it.
///
/// # Invariants
///
/// - The pointer is to the `svc_rqst` of the current thread, prepared by `svc_alloc_arg`: each of
///   its `rq_maxpages` entries of `rq_pages` has a page.
/// - `rq_xprt` is the transport that the thread serves, and the thread has a reference to it.
pub struct Rqst<'a>(NonNull<bindings::svc_rqst>, PhantomData<&'a mut ()>);

impl<'a> Rqst<'a> {
    /// Wraps the request that an operation was called with.
    ///
    /// # Safety
    ///
    /// - `rqst` is the argument of an operation of `svc_xprt_ops`.
    /// - The result is not used after that operation has returned.
    #[inline]
    pub(super) unsafe fn from_raw(rqst: *mut bindings::svc_rqst) -> Self {
        // INVARIANT: By the safety requirements of this function.
        // SAFETY: The argument of an operation is not null.
        Self(unsafe { NonNull::new_unchecked(rqst) }, PhantomData)
    }

    /// Returns the C structure.
    #[inline]
    pub(super) fn raw(&self) -> *mut bindings::svc_rqst {
        self.0.as_ptr()
    }

    /// Returns the transport that the thread serves.
    #[inline]
    pub(super) fn xprt(&self) -> *mut bindings::svc_xprt {
        // SAFETY: By the type invariant.
        unsafe { (*self.raw()).rq_xprt }
    }

    /// Prepares the request for a Call: addresses, protocol and flags, no Call context.
    #[inline]
    pub(super) fn begin(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rqst_begin(self.raw()) };
    }

    /// Takes the Call out of the request, so that sunrpc does not release it.
    ///
    /// # Safety
    ///
    /// - Calls of the request's transport are of type `C`.
    #[inline]
    pub(super) unsafe fn take_call<C: Context>(&mut self) -> Option<C> {
        // SAFETY: By the type invariant.
        let ctxt = unsafe { &raw mut (*self.raw()).rq_xprt_ctxt };
        // SAFETY: The field is part of a live request, which only the current thread uses.
        let call = unsafe { ctxt.replace(core::ptr::null_mut()) };
        // SAFETY: Contexts come from `put_call`, and are of type `C` by the safety requirements of
        // this function; sunrpc passes them on only when it defers a Call of the same transport.
        // The field was cleared, so the context is taken back once.
        (!call.is_null()).then(|| unsafe { C::from_raw(call) })
    }

    /// Stores `call` in the request.
    #[inline]
    pub(super) fn put_call<C: Context>(&mut self, call: C) {
        // SAFETY: By the type invariant the request is live, and only the current thread uses it.
        unsafe { (*self.raw()).rq_xprt_ctxt = call.into_raw() };
    }

    /// Stores the Call in the request, so that the Call's memory stays valid until nfsd has
    /// processed it. Returns the length of the Call in bytes.
    #[inline]
    pub(super) fn hand_over<C: Context>(&mut self, delivered: Delivered<'_, C>) -> c_int {
        self.put_call(delivered.call);
        // CAST: A Call is at most 4 MiB and a few pages.
        delivered.len as c_int
    }

    /// Fills in `rq_arg` so that nfsd finds the bytes of `call` at the places that `arg` names.
    ///
    /// The pages of a stream are exchanged with pages of the thread, which the stream has
    /// afterwards. The stream must be fresh, see [`Stream::is_fresh`]: nfsd writes to the pages of
    /// a Call, for example when it decrypts. A stream that is not fresh keeps its pages, and the
    /// Call gets no bytes from it.
    ///
    /// Ranges are cut to the message, and lengths to the pages of the stream. So the lengths in
    /// `rq_arg` are always consistent.
    #[inline]
    pub fn deliver<C: Context>(mut self, call: C, arg: Arg<'_>) -> Delivered<'a, C> {
        let (message, len) = call.message_raw();
        let part = |range: Range<usize>| {
            let end = range.end.min(len);
            let start = range.start.min(end);
            bindings::kvec {
                // In bounds, as `start` is at most `len`.
                iov_base: message.wrapping_add(start).cast(),
                iov_len: end.saturating_sub(start),
            }
        };
        let (head, pages, page_len) = match arg {
            Arg::Message(range) => (part(range), self.pages(1), 0),
            Arg::Split { head, pages, len } => {
                let swapped = self.swap(pages);
                let page_len = len.min(swapped.saturating_mul(PAGE_SIZE));
                (part(head), self.pages(0), page_len)
            }
            Arg::Pages(stream, len) => {
                let swapped = self.swap(stream);
                let len = len.min(swapped.saturating_mul(PAGE_SIZE));
                let head_len = len.min(PAGE_SIZE);
                let head = self.first_page(head_len);
                (head, self.pages(1), len.saturating_sub(head_len))
            }
        };
        let len = head.iov_len.saturating_add(page_len);
        // SAFETY: By the type invariant the request is live.
        let arg = unsafe { &raw mut (*self.raw()).rq_arg };
        // CAST: A Call is at most 4 MiB and a few pages.
        // SAFETY: `arg` is part of a live request, which only the current thread uses. A head in
        // the message stays valid until the Call is dropped, by the contract of `Context`;
        // `Delivered` owns the Call, and the request does after that. All pages belong to the
        // thread.
        unsafe {
            (*arg).head[0] = head;
            (*arg).tail[0].iov_len = 0;
            (*arg).pages = pages;
            (*arg).page_base = 0;
            (*arg).page_len = page_len as u32;
            (*arg).buflen = len as u32;
            (*arg).len = len as u32;
        }
        // INVARIANT: `rq_arg` was filled in above. `self` is consumed, so no other Call replaces
        // it.
        Delivered {
            call,
            len,
            _rqst: PhantomData,
        }
    }

    /// Returns the thread's page array from entry `first` on, which is 0 or 1.
    #[inline]
    fn pages(&self, first: usize) -> *mut *mut bindings::page {
        // SAFETY: By the type invariant the array is live; it has more than two entries.
        unsafe { (*self.raw()).rq_pages.add(first) }
    }

    /// Returns the first `len` bytes of the thread's first page.
    fn first_page(&self, len: usize) -> bindings::kvec {
        // SAFETY: By the type invariant the entry has a page; `swap` keeps that.
        let page = unsafe { *self.pages(0) };
        bindings::kvec {
            // SAFETY: `page` is a page of the thread, in the linear map.
            iov_base: unsafe { bindings::page_address(page) },
            iov_len: len,
        }
    }

    /// Exchanges the stream's pages with the thread's first pages. Returns the number of exchanged
    /// pages, which is 0 if the stream is not fresh.
    fn swap(&mut self, stream: &mut Stream) -> usize {
        if !stream.is_fresh() {
            return 0;
        }
        // SAFETY: By the type invariant.
        let max = unsafe { (*self.raw()).rq_maxpages };
        // SAFETY: By the type invariant each of the `rq_maxpages` entries has a page and a reference
        // to it, and only the current thread uses them.
        unsafe { stream.exchange(self.pages(0), max) }
    }
}

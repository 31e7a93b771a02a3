// SPDX-License-Identifier: GPL-2.0

//! The request of an nfsd thread: a `struct svc_rqst` while one of our operations runs for it.
//!
//! Here is how a Call gets to nfsd; [`results`](super::results) has how its results leave. Entries
//! of `rq_pages` belong to the thread and are exchanged one for one, so nothing has to be refilled.
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
    page::{
        Stream,
        PAGE_SIZE, //
    },
};

/// Where the bytes of a Call lie; ranges are of the received message.
pub enum Arg<'a> {
    /// All in the received message.
    Message(Range<usize>),
    /// The head in the received message, `len` bytes behind it in the stream's pages. There is no
    /// tail: parts of nfsd look at head and pages only.
    Split {
        /// What precedes the chunk.
        head: Range<usize>,
        /// The chunk with its XDR pad, and what follows it.
        pages: &'a mut Stream,
        /// Their length.
        len: usize,
    },
    /// All `len` bytes in the stream's pages.
    Pages(&'a mut Stream, usize),
}

/// A Call that nfsd is to have: its bytes are in `rq_arg`.
///
/// # Invariants
///
/// `rq_arg` of the request that this was made for, which lives for `'a`, names memory of `call`.
pub struct Delivered<'a, C: Context> {
    call: C,
    len: usize,
    _rqst: PhantomData<&'a mut ()>,
}

/// The request of the calling nfsd thread, without a Call.
///
/// # Invariants
///
/// The pointer is to the `svc_rqst` of the current thread, prepared by `svc_alloc_arg`, and
/// `rq_xprt` is the transport it was dispatched for.
pub struct Rqst<'a>(NonNull<bindings::svc_rqst>, PhantomData<&'a mut ()>);

impl<'a> Rqst<'a> {
    /// # Safety
    ///
    /// - `rqst` is the argument of an operation of `svc_xprt_ops`.
    /// - The result is not used after that operation has returned.
    pub(super) unsafe fn from_raw(rqst: *mut bindings::svc_rqst) -> Self {
        // INVARIANT: By the safety requirements of this function.
        // SAFETY: The argument of an operation is not null.
        Self(unsafe { NonNull::new_unchecked(rqst) }, PhantomData)
    }

    pub(super) fn raw(&self) -> *mut bindings::svc_rqst {
        self.0.as_ptr()
    }

    /// The transport.
    pub(super) fn xprt(&self) -> *mut bindings::svc_xprt {
        // SAFETY: By the type invariant.
        unsafe { (*self.raw()).rq_xprt }
    }

    /// Fills in what is the same for every Call; there is no Call yet.
    pub(super) fn begin(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rqst_begin(self.raw()) };
    }

    /// Takes the Call out, so that nobody else will release it.
    ///
    /// # Safety
    ///
    /// Calls of the request's transport are of type `C`.
    pub(super) unsafe fn take_call<C: Context>(&mut self) -> Option<C> {
        // SAFETY: By the type invariant.
        let ctxt = unsafe { &raw mut (*self.raw()).rq_xprt_ctxt };
        // SAFETY: As above; the thread alone uses the field.
        let call = unsafe { ctxt.replace(core::ptr::null_mut()) };
        // SAFETY: By the safety requirements of this function; the field gave it up just now.
        (!call.is_null()).then(|| unsafe { C::from_raw(call) })
    }

    /// Gives the Call to the request.
    pub(super) fn put_call<C: Context>(&mut self, call: C) {
        // SAFETY: By the type invariant; the thread alone uses the field.
        unsafe { (*self.raw()).rq_xprt_ctxt = call.into_raw() };
    }

    /// Gives the Call that was delivered to the request, so that it stays until nfsd is done with
    /// it; returns the number of its bytes.
    pub(super) fn hand_over<C: Context>(&mut self, delivered: Delivered<'_, C>) -> c_int {
        self.put_call(delivered.call);
        // CAST: A Call is at most 4 MiB and a few pages.
        delivered.len as c_int
    }

    /// Puts the bytes of `call` where `arg` says.
    ///
    /// Pages of a stream are exchanged with pages of the thread, which are in the stream then; a
    /// stream with pages that others may have stays as it is, and the Call gets none.
    /// Ranges beyond the message are cut to it: the lengths in `rq_arg` always add up.
    pub fn deliver<C: Context>(mut self, call: C, arg: Arg<'_>) -> Delivered<'a, C> {
        let (message, len) = call.message_raw();
        let part = |range: Range<usize>| {
            let end = range.end.min(len);
            let start = range.start.min(end);
            bindings::kvec {
                // `start` is at most `len`.
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
        // SAFETY: By the type invariant; the thread alone uses `rq_arg`.
        let arg = unsafe { &raw mut (*self.raw()).rq_arg };
        // CAST: As in `hand_over`.
        // SAFETY: As above. The head stays valid until the Call is dropped, by the contract of
        // `Context`; `Delivered` has it, and then the request. The pages are the thread's.
        unsafe {
            (*arg).head[0] = head;
            (*arg).tail[0].iov_len = 0;
            (*arg).pages = pages;
            (*arg).page_base = 0;
            (*arg).page_len = page_len as u32;
            (*arg).buflen = len as u32;
            (*arg).len = len as u32;
        }
        // INVARIANT: As just filled in; no other Call is, as that takes the request.
        Delivered {
            call,
            len,
            _rqst: PhantomData,
        }
    }

    /// The thread's page array from entry `first` on, which is 0 or 1.
    fn pages(&self, first: usize) -> *mut *mut bindings::page {
        // SAFETY: By the type invariant; there are more than two entries.
        unsafe { (*self.raw()).rq_pages.add(first) }
    }

    /// The first `len` bytes of the thread's first page.
    fn first_page(&self, len: usize) -> bindings::kvec {
        // SAFETY: `svc_alloc_arg` and `swap` leave no entry without a page.
        let page = unsafe { *self.pages(0) };
        bindings::kvec {
            // SAFETY: As above.
            iov_base: unsafe { bindings::page_address(page) },
            iov_len: len,
        }
    }

    /// Exchanges the stream's pages with the thread's first ones; returns how many. None if others
    /// may have them: nfsd writes to its own, as when it decrypts.
    fn swap(&mut self, stream: &mut Stream) -> usize {
        if !stream.is_fresh() {
            return 0;
        }
        // SAFETY: By the type invariant.
        let max = unsafe { (*self.raw()).rq_maxpages };
        let mut swapped: usize = 0;
        for page in stream.pages_mut().iter_mut().take(max) {
            // SAFETY: `swapped` is less than `rq_maxpages`, the number of entries.
            let slot = unsafe { (*self.raw()).rq_pages.add(swapped) };
            // CAST: `OwnedPage` is transparent over a pointer that is not null.
            // SAFETY: `svc_alloc_arg` has filled every entry with a page of the thread's own, with
            // one reference, and so has the stream, as it was fresh; both sides stay filled.
            unsafe { core::ptr::swap(slot, core::ptr::from_mut(page).cast()) };
            swapped = swapped.saturating_add(1);
        }
        swapped
    }
}

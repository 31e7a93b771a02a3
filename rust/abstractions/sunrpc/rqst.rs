// SPDX-License-Identifier: GPL-2.0

//! The request of an nfsd thread: a `struct svc_rqst` while one of our operations runs for it.
//!
//! Who owns which page: entries of `rq_pages` belong to the thread and are exchanged one for one,
//! so nothing has to be refilled. Entries of `rq_respages` below `rq_next_page` are released by
//! `sunrpc` after the reply unless they are NULL; what a reply takes is moved out and leaves NULL.
//!
//! C headers: [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h),
//! [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h)

use crate::abstractions::{
    bindings,
    context::Context,
    page::{
        OwnedPage,
        Part,
        Stream,
        PAGE_SIZE, //
    },
};
use core::{
    marker::PhantomData,
    ops::Range,
    ptr::NonNull, //
};
use kernel::prelude::*;

/// Where the bytes of a Call lie; ranges are of the received message.
pub(crate) enum Arg<'a> {
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

/// The lengths of the results' parts.
#[derive(Clone, Copy)]
struct ResultParts {
    head: usize,
    pages: usize,
    tail: usize,
}

/// The request of the calling nfsd thread.
///
/// # Invariants
///
/// The pointer is to the `svc_rqst` of the current thread, prepared by `svc_alloc_arg`, and
/// `rq_xprt` is the transport it was dispatched for.
pub(crate) struct Rqst<'a>(NonNull<bindings::svc_rqst>, PhantomData<&'a mut ()>);

impl Rqst<'_> {
    /// # Safety
    ///
    /// - `rqst` is the argument of an operation of `svc_xprt_ops`.
    /// - The result is not used after that operation has returned.
    pub(super) unsafe fn from_raw(rqst: *mut bindings::svc_rqst) -> Self {
        // INVARIANT: By the safety requirements of this function.
        // SAFETY: The argument of an operation is not null.
        Self(unsafe { NonNull::new_unchecked(rqst) }, PhantomData)
    }

    fn raw(&self) -> *mut bindings::svc_rqst {
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

    /// Hands `call` to nfsd, with its bytes where `arg` says; returns their number.
    ///
    /// Pages of a stream are exchanged with pages of the thread, which are in the stream then.
    /// Ranges beyond the message are cut to it: the lengths in `rq_arg` always add up.
    pub(crate) fn deliver<C: Context>(&mut self, call: C, arg: Arg<'_>) -> c_int {
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
        // CAST: A Call is at most 4 MiB and a few pages.
        // SAFETY: As above. The head stays valid until the Call is dropped, which is after
        // nfsd is done with it, by the contract of `Context`; the pages are the thread's.
        unsafe {
            (*arg).head[0] = head;
            (*arg).tail[0].iov_len = 0;
            (*arg).pages = pages;
            (*arg).page_base = 0;
            (*arg).page_len = page_len as u32;
            (*arg).buflen = len as u32;
            (*arg).len = len as u32;
        }
        self.put_call(call);
        len as c_int
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

    /// Exchanges the stream's pages with the thread's first ones; returns how many.
    fn swap(&mut self, stream: &mut Stream) -> usize {
        // SAFETY: By the type invariant.
        let max = unsafe { (*self.raw()).rq_maxpages };
        let mut swapped: usize = 0;
        for page in stream.pages_mut().iter_mut().take(max) {
            // SAFETY: `swapped` is less than `rq_maxpages`, the number of entries.
            let slot = unsafe { (*self.raw()).rq_pages.add(swapped) };
            // CAST: `OwnedPage` is transparent over a pointer that is not null.
            // SAFETY: `svc_alloc_arg` has filled every entry with a page of the thread's own, with
            // one reference; both sides stay filled.
            unsafe { core::ptr::swap(slot, core::ptr::from_mut(page).cast()) };
            swapped = swapped.saturating_add(1);
        }
        swapped
    }

    /// The number of bytes of the encoded results.
    pub(crate) fn result_len(&self) -> usize {
        let parts = self.result_parts();
        parts
            .head
            .saturating_add(parts.pages)
            .saturating_add(parts.tail)
    }

    fn result(&self) -> *mut bindings::xdr_buf {
        // SAFETY: By the type invariant.
        unsafe { &raw mut (*self.raw()).rq_res }
    }

    fn result_parts(&self) -> ResultParts {
        let res = self.result();
        // SAFETY: The thread alone uses `rq_res`.
        unsafe {
            ResultParts {
                head: (*res).head[0].iov_len,
                pages: (*res).page_len as usize,
                tail: (*res).tail[0].iov_len,
            }
        }
    }

    /// Whether the results go out as nfsd encodes them, without GSS integrity or privacy. Only
    /// while it encodes: the request has lost its credentials when it is sent.
    pub(crate) fn is_plain(&self) -> bool {
        // SAFETY: By the type invariant; `result_payload` is called while `rq_authop` is set.
        unsafe { bindings::rqst_is_plain(self.raw()) }
    }

    /// The big-endian word at byte `at` of the results.
    pub(crate) fn result_word(&self, at: usize) -> Option<u32> {
        let mut word = [0; 4];
        (self.copy_result(at, &mut word) == word.len()).then(|| u32::from_be_bytes(word))
    }

    /// Copies the results from byte `at` on to `out`; returns how many bytes there were.
    pub(crate) fn copy_result(&self, at: usize, out: &mut [u8]) -> usize {
        let mut done: usize = 0;
        while let Some(rest) = out.get_mut(done..).filter(|r| !r.is_empty()) {
            let Some((from, len)) = self.result_run(at.saturating_add(done)) else {
                break;
            };
            let len = len.min(rest.len());
            // SAFETY: `result_run` returned an address that is valid for reads of `len` bytes, and
            // `rest`, Rust's own memory, is not part of the results.
            unsafe { core::ptr::copy_nonoverlapping(from, rest.as_mut_ptr(), len) };
            done = done.saturating_add(len);
        }
        done
    }

    /// The address of byte `at` of the results, and how many bytes follow it there.
    fn result_run(&self, at: usize) -> Option<(*const u8, usize)> {
        let parts = self.result_parts();
        let res = self.result();
        let in_head = parts.head.saturating_sub(at);
        if in_head > 0 {
            // SAFETY: The thread alone uses `rq_res`.
            let base = unsafe { (*res).head[0].iov_base }.cast::<u8>();
            return Some((base.wrapping_add(at), in_head));
        }
        let at = at.saturating_sub(parts.head);
        let in_pages = parts.pages.saturating_sub(at);
        if in_pages > 0 {
            // SAFETY: As above.
            let start = (unsafe { (*res).page_base } as usize).saturating_add(at);
            // SAFETY: As above: `page_base` and `page_len` name entries of `pages`.
            let page = unsafe { *(*res).pages.add(start / PAGE_SIZE) };
            // SAFETY: nfsd has encoded into this page.
            let base = unsafe { bindings::page_address(page) }.cast::<u8>();
            let offset = start % PAGE_SIZE;
            let len = in_pages.min(PAGE_SIZE - offset);
            return Some((base.wrapping_add(offset), len));
        }
        let at = at.saturating_sub(parts.pages);
        let in_tail = parts.tail.saturating_sub(at);
        if in_tail > 0 {
            // SAFETY: The thread alone uses `rq_res`.
            let base = unsafe { (*res).tail[0].iov_base }.cast::<u8>();
            return Some((base.wrapping_add(at), in_tail));
        }
        None
    }

    /// The number of pages that [`Self::take_result`] takes.
    pub(crate) fn result_pages(&self) -> usize {
        self.data_pages().saturating_add(1)
    }

    /// The number of pages that the results' page part touches.
    fn data_pages(&self) -> usize {
        // SAFETY: The thread alone uses `rq_res`.
        let base = unsafe { (*self.result()).page_base } as usize;
        match self.result_parts().pages {
            0 => 0,
            len => (base % PAGE_SIZE).saturating_add(len).div_ceil(PAGE_SIZE),
        }
    }

    /// Moves the pages of the results to `stream`, which is empty, and lays it as the results are.
    ///
    /// # Errors
    ///
    /// `EIO` when the results do not lie as `nfsd` lays them, `ENOSPC` when the stream has no room.
    /// The stream may have some pages then.
    pub(crate) fn take_result(&mut self, stream: &mut Stream) -> Result {
        if stream.capacity() < self.result_pages() {
            return Err(ENOSPC);
        }
        let parts = self.result_parts();
        let res = self.result();
        // SAFETY: The thread alone uses these.
        let (head, tail, base) = unsafe {
            (
                (*res).head[0].iov_base,
                (*res).tail[0].iov_base,
                (*res).page_base as usize,
            )
        };
        let head = self.in_head_page(head.cast(), parts.head)?;
        let tail = match parts.tail {
            0 => Part::default(),
            len => self.in_head_page(tail.cast(), len)?,
        };
        let first = self.first_data_slot(base / PAGE_SIZE)?;
        let data = Part {
            page: 1,
            offset: base % PAGE_SIZE,
            len: parts.pages,
        };
        let end = first.saturating_add(self.data_pages());
        self.refill_before(end);
        self.move_page(0, stream)?;
        for slot in first..end {
            self.move_page(slot, stream)?;
        }
        stream.lay([head, data, tail]);
        Ok(())
    }

    /// Has `sunrpc` refill all slots before `end`, which is at most `rq_maxpages`: some encoders
    /// use pages that they do not count in `rq_next_page` (`nfs_stream_encode_acl`, and
    /// `svcauth_gss_wrap_integ` when its checksum goes to the next page).
    fn refill_before(&mut self, end: usize) {
        // SAFETY: By the type invariant, and `end` is within the array.
        let end = unsafe { (*self.raw()).rq_respages.add(end) };
        // SAFETY: By the type invariant; the thread alone uses the field.
        unsafe {
            if (*self.raw()).rq_next_page < end {
                (*self.raw()).rq_next_page = end;
            }
        }
    }

    /// Where in the first page of the results the `len` bytes at `at` are.
    fn in_head_page(&self, at: *const u8, len: usize) -> Result<Part> {
        // SAFETY: By the type invariant; slot 0 has a page until `move_page` takes it.
        let page = unsafe { *(*self.raw()).rq_respages };
        // SAFETY: As above.
        let start = unsafe { bindings::page_address(page) } as usize;
        let offset = (at as usize).checked_sub(start).ok_or(EIO)?;
        if offset.checked_add(len).ok_or(EIO)? > PAGE_SIZE {
            return Err(EIO);
        }
        Ok(Part {
            page: 0,
            offset,
            len,
        })
    }

    /// The slot of `rq_respages` that has the first page of the results' page part, of which the
    /// first `skip` are not used.
    fn first_data_slot(&self, skip: usize) -> Result<usize> {
        let count = self.data_pages();
        if count == 0 {
            return Ok(1);
        }
        // SAFETY: The thread alone uses these.
        let (pages, slots, max) = unsafe {
            (
                (*self.result()).pages as usize,
                (*self.raw()).rq_respages as usize,
                (*self.raw()).rq_maxpages,
            )
        };
        let bytes = pages.checked_sub(slots).ok_or(EIO)?;
        let first = (bytes / size_of::<*mut bindings::page>()).saturating_add(skip);
        if first == 0 || first.saturating_add(count) > max {
            return Err(EIO);
        }
        Ok(first)
    }

    /// Moves the page in `slot`, which is less than `rq_maxpages`, to the end of `stream`.
    fn move_page(&mut self, slot: usize, stream: &mut Stream) -> Result {
        // SAFETY: By the type invariant and by what the caller has checked.
        let entry = unsafe { (*self.raw()).rq_respages.add(slot) };
        // SAFETY: As above; the thread alone uses its entries.
        let page = unsafe { entry.replace(core::ptr::null_mut()) };
        let page = NonNull::new(page).ok_or(EIO)?;
        // SAFETY: An entry owns a reference to its page, which the entry has given up.
        let page = unsafe { OwnedPage::from_raw(page) };
        stream.push(page).map_err(|_| ENOSPC)
    }

    /// Says that the reply was copied and no page of it is needed: if they are all the thread's
    /// own, it keeps them for its next reply, and nothing is released or allocated.
    pub(crate) fn keep_result_pages(&mut self) {
        // SAFETY: By the type invariant.
        let (slots, next) = unsafe { ((*self.raw()).rq_respages, (*self.raw()).rq_next_page) };
        let mut slot = slots;
        while slot < next {
            // SAFETY: `slot` is between `rq_respages` and `rq_next_page`.
            let page = unsafe { *slot };
            // A page of a file that a READ has put here must go, or the next reply would
            // overwrite the file.
            // SAFETY: An entry that is not null has a page.
            if page.is_null() || !unsafe { bindings::page_is_private(page) } {
                return;
            }
            slot = slot.wrapping_add(1);
        }
        // SAFETY: By the type invariant; all entries from `rq_respages` on are filled, with pages
        // that nobody else has.
        unsafe { (*self.raw()).rq_next_page = slots };
    }
}

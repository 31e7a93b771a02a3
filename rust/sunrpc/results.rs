// SPDX-License-Identifier: GPL-2.0

//! The results of a Call, which nfsd has encoded in `rq_res`.
//!
//! After `xpo_sendto` sunrpc releases the pages in the entries of `rq_respages` below
//! `rq_next_page`, skips entries that are NULL, and refills all of these entries. A Reply that
//! needs pages moves them out of their entries and leaves NULL.
//!
//! C headers: [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h),
//! [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h)

use crate::rqst::Rqst;
use core::ops::Range;
use kernel::prelude::*;
use support::{
    page::PAGE_SIZE,
    stream::{
        Part,
        Stream, //
    },
};

/// The encoded results of a Call, in the request of the calling nfsd thread.
///
/// The thread owns the results and lends them for one
/// [`Connect::sendto`](super::xprt::Connect::sendto). A class either copies the results and then
/// calls [`Self::keep_result_pages`], or takes their pages with [`Self::take_result`]. Both
/// functions consume this value, so nothing reads `rq_res` after its pages have another owner.
///
/// # Invariants
///
/// `rq_res` is as `svc_process` has left it, and the thread owns the pages that it names.
pub struct Results<'a>(Rqst<'a>);

/// The lengths of the three parts of the results, in bytes.
#[derive(Clone, Copy)]
struct ResultParts {
    head: usize,
    pages: usize,
    tail: usize,
}

impl<'a> Results<'a> {
    /// Wraps the results in `rqst`.
    ///
    /// # Safety
    ///
    /// - `rqst` is the argument of `xpo_sendto`.
    #[inline]
    pub(super) unsafe fn new(rqst: Rqst<'a>) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self(rqst)
    }

    /// Returns the C structure of the request.
    #[inline]
    fn raw(&self) -> *mut bindings::svc_rqst {
        self.0.raw()
    }

    /// Returns the version of the RPC program that the Call names.
    #[inline]
    pub fn version(&self) -> u32 {
        // SAFETY: The request is live. `svc_process` has set the field.
        unsafe { (*self.raw()).rq_vers }
    }

    /// Returns true if nfsd has validated the peer: a Call of the peer, maybe this one, had a file
    /// handle that the peer may access (`svc_xprt_set_valid`). Takes no lock.
    #[inline]
    pub fn is_peer_valid(&self) -> bool {
        // SAFETY: `rq_xprt` is live by the invariant of `Rqst`.
        unsafe { bindings::xprt_test_flag(self.0.xprt(), bindings::XPT_PEER_VALID) }
    }

    /// Returns the length of the results in bytes.
    #[inline]
    pub fn result_len(&self) -> usize {
        let parts = self.result_parts();
        parts
            .head
            .saturating_add(parts.pages)
            .saturating_add(parts.tail)
    }

    /// Returns `rq_res`.
    #[inline]
    fn result(&self) -> *mut bindings::xdr_buf {
        // SAFETY: The request is live by the invariant of `Rqst`.
        unsafe { &raw mut (*self.raw()).rq_res }
    }

    /// Returns the lengths of the parts.
    #[inline]
    fn result_parts(&self) -> ResultParts {
        let res = self.result();
        // SAFETY: The request is live, and only the current thread uses it.
        unsafe {
            ResultParts {
                head: (*res).head[0].iov_len,
                pages: (*res).page_len as usize,
                tail: (*res).tail[0].iov_len,
            }
        }
    }

    /// Returns the big-endian word at byte `at` of the results, or `None` beyond their end.
    #[inline]
    pub fn result_word(&self, at: usize) -> Option<u32> {
        // SAFETY: The request is live, and only the current thread uses it.
        let bindings::kvec { iov_base, iov_len } = unsafe { (*self.result()).head[0] };
        let mut word = [0; 4];
        if at.saturating_add(word.len()) <= iov_len {
            let from = iov_base.cast::<u8>().wrapping_add(at).cast();
            // SAFETY: The head has four bytes from `at` on.
            word = unsafe { core::ptr::read_unaligned(from) };
        } else if self.copy_parts(at, &mut word) != word.len() {
            return None;
        }
        Some(u32::from_be_bytes(word))
    }

    /// Copies the results from byte `at` on to `out`. Returns the number of copied bytes, which is
    /// less than the length of `out` if the results end before.
    #[inline]
    pub fn copy_result(&self, at: usize, out: &mut [u8]) -> usize {
        // SAFETY: The request is live, and only the current thread uses it.
        let bindings::kvec { iov_base, iov_len } = unsafe { (*self.result()).head[0] };
        let len = out.len();
        if at.saturating_add(len) > iov_len {
            return self.copy_parts(at, out);
        }
        let from = iov_base.cast::<u8>().wrapping_add(at);
        // SAFETY: The head has `len` bytes from `at` on. `out` is exclusively borrowed, so it does
        // not overlap with the results.
        unsafe { core::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), len) };
        len
    }

    /// As [`Self::copy_result`], of bytes that are not all in the head.
    fn copy_parts(&self, at: usize, out: &mut [u8]) -> usize {
        let mut done: usize = 0;
        while let Some(rest) = out.get_mut(done..).filter(|r| !r.is_empty()) {
            let Some((from, len)) = self.result_run(at.saturating_add(done)) else {
                break;
            };
            let len = len.min(rest.len());
            // SAFETY: `result_run` returned an address that is valid for reads of `len` bytes.
            // `rest` has `len` bytes; it is exclusively borrowed, so it does not overlap with the
            // results.
            unsafe { core::ptr::copy_nonoverlapping(from, rest.as_mut_ptr(), len) };
            done = done.saturating_add(len);
        }
        done
    }

    /// Returns the address of byte `at` of the results, and the number of bytes that are contiguous
    /// from there on. Returns `None` beyond the end of the results.
    fn result_run(&self, at: usize) -> Option<(*const u8, usize)> {
        let parts = self.result_parts();
        let res = self.result();
        let in_head = parts.head.saturating_sub(at);
        if in_head > 0 {
            // SAFETY: The request is live, and only the current thread uses it.
            let base = unsafe { (*res).head[0].iov_base }.cast::<u8>();
            return Some((base.wrapping_add(at), in_head));
        }
        let at = at.saturating_sub(parts.head);
        let in_pages = parts.pages.saturating_sub(at);
        if in_pages > 0 {
            // SAFETY: The request is live, and only the current thread uses it.
            let start = (unsafe { (*res).page_base } as usize).saturating_add(at);
            // SAFETY: Bytes `page_base` to `page_base + page_len` are in the entries of `pages`, by
            // the type invariant, and `start` is in that range.
            let page = unsafe { *(*res).pages.add(start / PAGE_SIZE) };
            if page.is_null() {
                return None;
            }
            // SAFETY: The page is part of the results, so the thread owns it by the type invariant.
            let base = unsafe { bindings::page_address(page) }.cast::<u8>();
            let offset = start % PAGE_SIZE;
            let len = in_pages.min(PAGE_SIZE - offset);
            return Some((base.wrapping_add(offset), len));
        }
        let at = at.saturating_sub(parts.pages);
        let in_tail = parts.tail.saturating_sub(at);
        if in_tail > 0 {
            // SAFETY: The request is live, and only the current thread uses it.
            let base = unsafe { (*res).tail[0].iov_base }.cast::<u8>();
            return Some((base.wrapping_add(at), in_tail));
        }
        None
    }

    /// Returns the number of pages that [`Self::take_result`] moves at most: the page of head and
    /// tail, and those of the page part.
    #[inline]
    pub fn result_pages(&self) -> usize {
        self.data_pages().saturating_add(1)
    }

    /// Returns the number of pages that hold bytes of the page part.
    fn data_pages(&self) -> usize {
        // SAFETY: The request is live, and only the current thread uses it.
        let base = unsafe { (*self.result()).page_base } as usize;
        match self.result_parts().pages {
            0 => 0,
            len => (base % PAGE_SIZE).saturating_add(len).div_ceil(PAGE_SIZE),
        }
    }

    /// Moves the pages with the bytes of `range` to `stream`, and lays the stream out as the results
    /// are. The stream has no other bytes of them: the page of head and tail moves only if the range
    /// has bytes of these.
    ///
    /// # Errors
    ///
    /// The stream may have some of the pages after an error.
    ///
    /// - `ENOSPC` if the stream has room for fewer than [`Self::result_pages`] pages.
    /// - `EINVAL` if the stream is not empty.
    /// - `EIO` if head and tail are not in the first page of `rq_respages`, or the pages of the
    ///   page part are not in entries behind it. nfsd lays all results out like that.
    pub fn take_result(self, range: Range<usize>, stream: &mut Stream) -> Result {
        if stream.capacity() < self.result_pages() {
            return Err(ENOSPC);
        }
        if !stream.is_empty() {
            return Err(EINVAL);
        }
        let parts = self.result_parts();
        // SAFETY: The request is live, and only the current thread uses it.
        let base = unsafe { (*self.result()).page_base } as usize;
        let first = self.first_data_slot(base / PAGE_SIZE)?;
        let end = first.saturating_add(self.data_pages());
        self.refill_before(end);
        let data = range.start >= parts.head && range.end <= parts.head.saturating_add(parts.pages);
        let [head, tail] = if data {
            [parts.head, parts.tail].map(Part::nowhere)
        } else {
            self.take_head(&parts, stream)?
        };
        let start = stream.len().saturating_mul(PAGE_SIZE);
        self.move_pages(first..end, stream)?;
        let data = Part {
            at: start.saturating_add(base % PAGE_SIZE),
            len: parts.pages,
        };
        stream.lay([head, data, tail]);
        Ok(())
    }

    /// Moves the page of head and tail to `stream`, as its first page. Returns their places in it.
    fn take_head(&self, parts: &ResultParts, stream: &mut Stream) -> Result<[Part; 2]> {
        let res = self.result();
        // SAFETY: The request is live, and only the current thread uses it.
        let (head, tail) = unsafe { ((*res).head[0].iov_base, (*res).tail[0].iov_base) };
        let head = self.in_head_page(head.cast(), parts.head)?;
        let tail = match parts.tail {
            0 => Part::default(),
            len => self.in_head_page(tail.cast(), len)?,
        };
        self.move_pages(0..1, stream)?;
        Ok([head, tail])
    }

    /// Makes sunrpc refill all slots before `end`, which is at most `rq_maxpages`.
    ///
    /// Some encoders use pages that they do not count in `rq_next_page`: `nfs_stream_encode_acl`,
    /// and `svcauth_gss_wrap_integ` if its checksum is in the next page.
    fn refill_before(&self, end: usize) {
        // SAFETY: The request is live, and `end` is within the array.
        let end = unsafe { (*self.raw()).rq_respages.add(end) };
        // SAFETY: The request is live, and only the current thread uses it.
        unsafe {
            if (*self.raw()).rq_next_page < end {
                (*self.raw()).rq_next_page = end;
            }
        }
    }

    /// Returns the place of the `len` bytes at address `at` in the first page of the results.
    ///
    /// # Errors
    ///
    /// `EIO` if the bytes are not in that page.
    fn in_head_page(&self, at: *const u8, len: usize) -> Result<Part> {
        // SAFETY: The request is live, and only the current thread uses it.
        let page = unsafe { *(*self.raw()).rq_respages };
        if page.is_null() {
            return Err(EIO);
        }
        // SAFETY: An entry that is not null has a page, which the thread owns.
        let start = unsafe { bindings::page_address(page) } as usize;
        let offset = (at as usize).checked_sub(start).ok_or(EIO)?;
        if offset.checked_add(len).ok_or(EIO)? > PAGE_SIZE {
            return Err(EIO);
        }
        Ok(Part { at: offset, len })
    }

    /// Returns the slot of `rq_respages` with the first used page of the page part, which is behind
    /// `skip` unused pages. Returns 1 if the page part is empty.
    ///
    /// # Errors
    ///
    /// `EIO` if the pages of the page part are not in `rq_respages` behind the first slot.
    fn first_data_slot(&self, skip: usize) -> Result<usize> {
        let count = self.data_pages();
        if count == 0 {
            return Ok(1);
        }
        // SAFETY: The request is live, and only the current thread uses it.
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

    /// Moves the pages in `slots`, which end at most at `rq_maxpages`, to the end of `stream`.
    fn move_pages(&self, slots: Range<usize>, stream: &mut Stream) -> Result {
        // SAFETY: The request is live, and the slots are within the array.
        let first = unsafe { (*self.raw()).rq_respages.add(slots.start) };
        // SAFETY: The entries are valid, and only the current thread uses the array. Those that
        // `rq_res` names have pages by the type invariant, and own a reference to them.
        unsafe { stream.take(first, slots.end.saturating_sub(slots.start)) }
    }

    /// Lets the thread keep the pages of the results for its next Reply.
    ///
    /// A class calls this after it has copied the results. sunrpc then neither releases nor
    /// allocates pages. Does nothing if a page of the results is also used elsewhere, such as in
    /// the page cache.
    #[inline]
    pub fn keep_result_pages(self) {
        // SAFETY: The request is live, and only the current thread uses it.
        let (slots, next) = unsafe { ((*self.raw()).rq_respages, (*self.raw()).rq_next_page) };
        let bytes = (next as usize).saturating_sub(slots as usize);
        // SAFETY: The entries from `rq_respages` to `rq_next_page` are part of an array that only
        // the current thread uses.
        let pages =
            unsafe { core::slice::from_raw_parts(slots, bytes / size_of::<*mut bindings::page>()) };
        if pages.iter().any(|page| page.is_null()) {
            return;
        }
        // The thread must give up a page that a READ has spliced from a file: the next Reply would
        // overwrite the file.
        // CAST: A request has fewer than 2^32 pages.
        // SAFETY: No entry is NULL, and the thread owns the pages.
        let private = unsafe { bindings::private_pages(pages.as_ptr(), pages.len() as u32) };
        if (private as usize) < pages.len() {
            return;
        }
        // With this sunrpc has no page to release. All entries from `rq_respages` on still have a
        // page, and each page is private.
        // SAFETY: The request is live, and only the current thread uses it.
        unsafe { (*self.raw()).rq_next_page = slots };
    }
}

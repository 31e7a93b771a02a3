// SPDX-License-Identifier: GPL-2.0

//! The results of a Call, as nfsd has encoded them in `rq_res`.
//!
//! Entries of `rq_respages` below `rq_next_page` are released by `sunrpc` after the reply unless
//! they are NULL, and refilled; what a reply takes is moved out and leaves NULL.
//!
//! C headers: [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h),
//! [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h)

use crate::rqst::Rqst;
use core::ptr::NonNull;
use kernel::prelude::*;
use support::page::{
    OwnedPage,
    Part,
    Stream,
    PAGE_SIZE, //
};

/// The request of the calling nfsd thread, when it has results.
///
/// The results can be read as long as this value exists. [`Self::take_result`] and
/// [`Self::keep_result_pages`] consume it, so nothing reads `rq_res` after its pages have another
/// owner: the compiler rejects a `copy_result` behind them.
///
/// # Invariants
///
/// `rq_res` is as `svc_process` has left it, and the thread owns the pages it names.
pub struct Results<'a>(Rqst<'a>);

/// The lengths of the results' parts.
#[derive(Clone, Copy)]
struct ResultParts {
    head: usize,
    pages: usize,
    tail: usize,
}

impl<'a> Results<'a> {
    /// # Safety
    ///
    /// `rqst` is the argument of `xpo_sendto`.
    pub(super) unsafe fn new(rqst: Rqst<'a>) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self(rqst)
    }

    fn raw(&self) -> *mut bindings::svc_rqst {
        self.0.raw()
    }

    /// The version of the program that was called.
    pub fn version(&self) -> u32 {
        // SAFETY: By the type invariant; `svc_process` has set it from the Call.
        unsafe { (*self.raw()).rq_vers }
    }

    /// Returns true if nfsd has validated the peer: one of its Calls, maybe this one, had a good
    /// file handle (`svc_xprt_set_valid`). Takes no lock.
    pub fn is_peer_valid(&self) -> bool {
        // SAFETY: `rq_xprt` is live by the invariant of `Rqst`, as the thread has a reference to
        // it.
        unsafe { bindings::xprt_test_flag(self.0.xprt(), bindings::XPT_PEER_VALID) }
    }

    /// The number of bytes of the encoded results.
    pub fn result_len(&self) -> usize {
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

    /// The big-endian word at byte `at` of the results.
    pub fn result_word(&self, at: usize) -> Option<u32> {
        let mut word = [0; 4];
        (self.copy_result(at, &mut word) == word.len()).then(|| u32::from_be_bytes(word))
    }

    /// Copies the results from byte `at` on to `out`; returns how many bytes there were.
    pub fn copy_result(&self, at: usize, out: &mut [u8]) -> usize {
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
            if page.is_null() {
                return None;
            }
            // SAFETY: nfsd has encoded into this page, which the thread owns by the type invariant.
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
    pub fn result_pages(&self) -> usize {
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
    /// `EIO` when the results do not lie as `nfsd` lays them, `ENOSPC` when the stream has no room,
    /// `EINVAL` when it is not empty. The stream may have some pages then.
    pub fn take_result(self, stream: &mut Stream) -> Result {
        if stream.capacity() < self.result_pages() {
            return Err(ENOSPC);
        }
        if !stream.pages().is_empty() {
            return Err(EINVAL);
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
    fn refill_before(&self, end: usize) {
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
        // SAFETY: By the type invariant.
        let page = unsafe { *(*self.raw()).rq_respages };
        if page.is_null() {
            return Err(EIO);
        }
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
    fn move_page(&self, slot: usize, stream: &mut Stream) -> Result {
        // SAFETY: By the type invariant and by what the caller has checked.
        let entry = unsafe { (*self.raw()).rq_respages.add(slot) };
        // SAFETY: As above; the thread alone uses its entries.
        let page = unsafe { entry.replace(core::ptr::null_mut()) };
        let page = NonNull::new(page).ok_or(EIO)?;
        // SAFETY: An entry owns a reference to its page, which the entry has given up.
        let page = unsafe { OwnedPage::from_raw(page) };
        stream.push_shared(page).map_err(|_| ENOSPC)
    }

    /// Says that the reply was copied and no page of it is needed: if they are all the thread's
    /// own, it keeps them for its next reply, and nothing is released or allocated.
    pub fn keep_result_pages(self) {
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

// SPDX-License-Identifier: GPL-2.0

//! Byte streams over pages.
//!
//! `sunrpc` moves the pages of Calls and Replies in and out of nfsd's requests as [`Stream`]s, and
//! `rdma` maps the same streams for DMA.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)

use crate::page::{
    Effort,
    FreshPage,
    PAGE_SIZE, //
};
use core::ops::Range;
use kernel::prelude::*;

/// A contiguous run of bytes of all pages of a [`Stream`].
#[derive(Clone, Copy, Default)]
pub struct Part {
    /// The offset of the first byte: [`PAGE_SIZE`] is the first one of the second page.
    pub at: usize,
    /// The number of bytes.
    pub len: usize,
}

impl Part {
    /// Returns a part of `len` bytes that no page has.
    #[inline]
    pub fn nowhere(len: usize) -> Self {
        let at = usize::MAX / 2;
        Self { at, len }
    }
}

/// The number of parts: the head, the pages and the tail of an `xdr_buf`.
const PARTS: usize = 3;

/// Pages, and a byte stream that is laid out over them.
///
/// The stream owns one reference to each page. It is the concatenation of up to three parts, each
/// of which is a run of bytes in consecutive pages. The room for pages is allocated once and never
/// grows, so nothing is allocated while a Call is processed.
///
/// A stream is *fresh* if no page has another owner. Only then may the pages be written. The pages
/// of Replies may have other owners, such as the page cache.
///
/// # Invariants
///
/// - The first `len` slots are pointers to valid pages in the kernel's linear map, of order 0 or of
///   large folios. This value owns one reference to each of them.
/// - While `fresh` is true, each page meets the invariants of [`FreshPage`].
pub struct Stream {
    slots: KVVec<*mut bindings::page>,
    len: usize,
    fresh: bool,
    parts: [Part; PARTS],
}

// SAFETY: References to pages belong to no thread.
unsafe impl Send for Stream {}
// SAFETY: A shared stream reads nothing but its own fields.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates an empty stream with room for `pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn with_capacity(pages: usize) -> Result<Self> {
        // INVARIANT: There is no page.
        Ok(Self {
            slots: KVVec::from_elem(core::ptr::null_mut(), pages, GFP_KERNEL)?,
            ..Self::empty()
        })
    }

    /// Creates a stream that has no room for pages.
    #[inline]
    pub fn empty() -> Self {
        // INVARIANT: There is no page.
        Self {
            slots: KVVec::new(),
            len: 0,
            fresh: true,
            parts: [Part::default(); PARTS],
        }
    }

    /// Returns the number of pages that the stream has room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of pages.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no page.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the pages, which are valid as long as the stream keeps them.
    #[inline]
    pub fn pages(&self) -> &[*mut bindings::page] {
        self.slots.get(..self.len).unwrap_or(&[])
    }

    /// Returns true if the stream is fresh: no page has another owner.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Returns the first `count` free slots, or `None` if there are fewer.
    #[inline]
    fn room(&mut self, count: usize) -> Option<&mut [*mut bindings::page]> {
        self.slots.get_mut(self.len..)?.get_mut(..count)
    }

    /// Appends a page. The stream stays fresh if it is.
    ///
    /// # Errors
    ///
    /// Returns the page if the stream has no room.
    #[inline]
    pub fn push(&mut self, page: FreshPage) -> Result<(), FreshPage> {
        let Some([slot]) = self.room(1) else {
            return Err(page);
        };
        // INVARIANT: `page` meets the invariants of `FreshPage`, so `fresh` may stay true.
        *slot = page.into_raw();
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Removes and returns the last page. Returns `None` if the stream is empty or not fresh.
    #[inline]
    pub fn pop(&mut self) -> Option<FreshPage> {
        let (&page, rest) = self.pages().split_last().filter(|_| self.fresh)?;
        self.len = rest.len();
        // SAFETY: The stream was fresh, so by its invariant the page meets that of `FreshPage`. The
        // stream has given up its reference.
        Some(unsafe { FreshPage::from_raw(page) })
    }

    /// Moves up to `count` pages from the end of the stream to the end of `to`, in their order.
    /// Returns the number of moved pages, which is smaller if there are fewer pages or less room.
    /// `to` stays fresh if both streams are.
    #[inline]
    pub fn move_to(&mut self, to: &mut Stream, count: usize) -> usize {
        let room = to.capacity().saturating_sub(to.len);
        let count = count.min(self.len).min(room);
        let rest = self.len.saturating_sub(count);
        if let (Some(from), Some(room)) = (self.pages().get(rest..), to.room(count)) {
            // SAFETY: Both have `count` slots, and two streams do not overlap.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), room.as_mut_ptr(), count) };
        }
        // INVARIANT: The references have moved to the other stream with the pages.
        to.fresh &= self.fresh;
        self.len = rest;
        to.len = to.len.wrapping_add(count);
        count
    }

    /// Moves all pages to `wider` if that is an empty stream with more room, and then exchanges the
    /// two streams. Returns the stream that is not used. Two callers that have allocated streams at
    /// the same time may call this in any order: no page is lost, and the room never shrinks.
    pub fn widen(&mut self, mut wider: Stream) -> Stream {
        if wider.is_empty() && wider.capacity() > self.capacity() {
            self.move_to(&mut wider, self.len);
            core::mem::swap(self, &mut wider);
        }
        wider
    }

    /// Appends the pages of `count` slots, which are NULL afterwards. The stream is not fresh
    /// afterwards.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the stream lacks room. No page moves then.
    ///
    /// # Safety
    ///
    /// - `slots` points to `count` entries, which nobody else uses during the call.
    /// - Each entry owns a reference to a valid page in the linear map.
    pub unsafe fn take(&mut self, slots: *mut *mut bindings::page, count: usize) -> Result {
        let room = self.room(count).ok_or(ENOSPC)?.as_mut_ptr();
        // SAFETY: Both have `count` entries and do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(slots, room, count) };
        // SAFETY: `slots` has `count` entries.
        unsafe { core::ptr::write_bytes(slots, 0, count) };
        // INVARIANT: The references have moved from the slots to the stream.
        self.len = self.len.wrapping_add(count);
        self.fresh = false;
        Ok(())
    }

    /// Exchanges the first pages with those of `count` slots. Returns the number of exchanged
    /// pages. The stream stays fresh if it is and if the pages have no other owner.
    ///
    /// # Safety
    ///
    /// - `slots` points to `count` entries, which nobody else uses during the call.
    /// - Each entry owns a reference to a valid page in the linear map.
    pub unsafe fn exchange(&mut self, slots: *mut *mut bindings::page, count: usize) -> usize {
        let count = count.min(self.len);
        let pages = self.slots.as_mut_ptr();
        // CAST: A stream has fewer than 2^32 pages.
        // SAFETY: Both have `count` entries, and each has a page. `slots` is not in the stream.
        let are_private = unsafe { bindings::exchange_pages(pages, slots, count as u32) };
        // INVARIANT: The references were exchanged with the pages. A page that had one reference
        // has no other owner than this stream.
        self.fresh &= are_private;
        count
    }

    /// Drops all pages. The stream is fresh afterwards.
    #[inline]
    pub fn clear(&mut self) {
        if !self.is_empty() {
            // CAST: A stream has fewer than 2^31 pages.
            // SAFETY: By the type invariant the stream owns a reference to each page, and it
            // forgets the pages below.
            unsafe { bindings::put_pages(self.slots.as_mut_ptr(), self.len as c_int) };
            self.len = 0;
        }
        // INVARIANT: There is no page.
        self.fresh = true;
    }

    /// Makes the stream fresh: replaces each page that has another owner with a new page.
    ///
    /// If the allocation of a new page fails, the stream loses the old page without a replacement.
    /// Returns the number of pages that were lost. May sleep.
    #[inline]
    pub fn renew(&mut self) -> usize {
        if self.fresh {
            0
        } else {
            self.replace_shared()
        }
    }

    /// As [`Self::renew`], of a stream that is not fresh.
    // Out of line: rarely needed.
    #[inline(never)]
    fn replace_shared(&mut self) -> usize {
        let before = self.len;
        let mut shared = self.find_shared(0);
        while shared < self.len {
            match FreshPage::new(Effort::Little) {
                Ok(new) => self.replace(shared, new.into_raw()),
                Err(_) => self.remove(shared),
            }
            shared = self.find_shared(shared);
        }
        // INVARIANT: Each page that is left was private or is new.
        self.fresh = true;
        before.saturating_sub(self.len)
    }

    /// Returns the index of the first page from index `from` on that has another owner, or the
    /// number of pages if there is none.
    fn find_shared(&self, from: usize) -> usize {
        let rest = self.pages().get(from..).unwrap_or(&[]);
        // CAST: A stream has fewer than 2^32 pages.
        // SAFETY: By the type invariant the pages are valid, and the stream has a reference to each.
        let private = unsafe { bindings::private_pages(rest.as_ptr(), rest.len() as u32) };
        from.saturating_add(private as usize)
    }

    /// Replaces the page with the index `at` with `new`, whose reference the stream takes over.
    fn replace(&mut self, at: usize, new: *mut bindings::page) {
        if let Some(slot) = self.slots.get_mut(at) {
            let old = core::mem::replace(slot, new);
            // SAFETY: The stream owned a reference by its invariant, and has forgotten the page.
            unsafe { bindings::put_page(old) };
        }
    }

    /// Removes the page with the index `at`, and moves the last page to its place.
    fn remove(&mut self, at: usize) {
        if let Some((&last, rest)) = self.pages().split_last() {
            self.len = rest.len();
            self.replace(at, last);
        }
    }

    /// Lays the stream out as the concatenation of `parts`.
    #[inline]
    pub fn lay(&mut self, parts: [Part; PARTS]) {
        self.parts = parts;
    }

    /// Lays the stream out as the first `len` bytes of the pages.
    #[inline]
    pub fn lay_flat(&mut self, len: usize) {
        self.lay([Part { at: 0, len }, Part::default(), Part::default()]);
    }

    /// Returns where up to `len` bytes from byte `at` of the stream on lie: they end with their
    /// part. There are none beyond the end of the stream. The place may be beyond all pages, see
    /// [`Part::nowhere`].
    #[inline]
    pub fn locate(&self, at: usize, len: usize) -> Part {
        let mut at = at;
        for part in &self.parts {
            if at < part.len {
                return Part {
                    at: part.at.wrapping_add(at),
                    len: len.min(part.len.wrapping_sub(at)),
                };
            }
            at = at.wrapping_sub(part.len);
        }
        Part::default()
    }

    /// Copies `bytes` to the stream from byte `at` on. Bytes beyond the end of the stream are
    /// ignored, and all bytes if the stream is not fresh.
    #[inline]
    pub fn fill(&mut self, at: usize, bytes: &[u8]) {
        self.for_each_piece(at..at.saturating_add(bytes.len()), |to, done, len| {
            if let Some(from) = bytes.get(done..).and_then(|rest| rest.get(..len)) {
                // SAFETY: `for_each_piece` promises that `to` is valid for writes of `len` bytes.
                // The page is fresh and belongs to this stream, so it does not overlap with
                // `bytes`.
                unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, len) };
            }
        });
    }

    /// Copies the stream from byte `at` on to `bytes`. Returns the number of copied bytes, which is
    /// smaller at the end of the stream, and 0 if the stream is not fresh.
    #[inline]
    pub fn read(&mut self, at: usize, bytes: &mut [u8]) -> usize {
        let mut copied = 0;
        self.for_each_piece(at..at.saturating_add(bytes.len()), |from, done, len| {
            if let Some(to) = bytes.get_mut(done..).and_then(|rest| rest.get_mut(..len)) {
                // SAFETY: `for_each_piece` promises that `from` is valid for reads of `len` bytes;
                // the page comes from C, so Rust treats them as initialised. The page belongs to this
                // stream, so it does not overlap with `bytes`.
                unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), len) };
                copied = done.saturating_add(len);
            }
        });
        copied
    }

    /// Returns the big-endian word at byte `at` of the stream. Returns `None` beyond the end of the
    /// stream, or if the stream is not fresh.
    #[inline]
    pub fn word(&mut self, at: usize) -> Option<u32> {
        let mut bytes = [0; 4];
        let copied = self.read(at, &mut bytes);
        (copied == bytes.len()).then(|| u32::from_be_bytes(bytes))
    }

    /// Sets `len` bytes from byte `at` of the stream on to zero. Bytes beyond the end of the stream
    /// are ignored, and all bytes if the stream is not fresh.
    #[inline]
    pub fn zero(&mut self, at: usize, len: usize) {
        self.for_each_piece(at..at.saturating_add(len), |to, _, len| {
            // SAFETY: `for_each_piece` promises that `to` is valid for writes of `len` bytes.
            unsafe { core::ptr::write_bytes(to, 0, len) };
        });
    }

    /// Calls `f` for each piece of `range` that lies in one page, if the stream is fresh.
    ///
    /// The arguments of `f` are the address of the piece, the number of bytes of `range` before it,
    /// and its length. While `f` runs, the address is valid for reads and writes of that length.
    fn for_each_piece(&mut self, range: Range<usize>, mut f: impl FnMut(*mut u8, usize, usize)) {
        let mut at = range.start;
        while self.fresh && at < range.end {
            let part = self.locate(at, range.end.saturating_sub(at));
            let offset = part.at % PAGE_SIZE;
            let len = part.len.min(PAGE_SIZE.saturating_sub(offset));
            let page = self.pages().get(part.at / PAGE_SIZE);
            let Some(&page) = page.filter(|_| len > 0) else {
                return;
            };
            // SAFETY: By the type invariant the page is valid and in the linear map.
            let page = unsafe { bindings::page_address(page) }.cast::<u8>();
            // In bounds: `offset + len` is at most `PAGE_SIZE`.
            f(
                page.wrapping_add(offset),
                at.saturating_sub(range.start),
                len,
            );
            at = at.saturating_add(len);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.clear();
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Owned pages, and byte streams over pages.
//!
//! `sunrpc` moves the pages of Calls and Replies in and out of nfsd's requests as [`Stream`]s, and
//! `rdma` maps the same streams for DMA. `kernel::page::Page` does not fit: it frees its page when
//! it is dropped, but pages of a Reply may have other owners, such as the page cache.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)

use core::{
    ops::{
        Deref,
        Range, //
    },
    ptr::NonNull, //
};
use kernel::prelude::*;

pub use kernel::page::PAGE_SIZE;

/// One reference to a page of order 0, or to one page of a large folio. Other references may exist.
///
///
/// # Invariants
///
/// The pointer is to a valid `struct page` in the kernel's linear map, and this value owns one
/// reference to it.
#[repr(transparent)]
pub struct OwnedPage(NonNull<bindings::page>);

// SAFETY: A reference to a page may be put on any thread.
unsafe impl Send for OwnedPage {}
// SAFETY: A shared `OwnedPage` only reads the address and the state of the page.
unsafe impl Sync for OwnedPage {}

impl OwnedPage {
    /// Takes over one reference to `page`.
    ///
    /// # Safety
    ///
    /// - `page` is a valid page in the kernel's linear map.
    /// - The caller owns a reference to `page` and gives it up.
    #[inline]
    pub unsafe fn from_raw(page: NonNull<bindings::page>) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self(page)
    }

    /// Returns the C structure. `self` keeps its reference.
    #[inline]
    pub fn as_ptr(&self) -> *mut bindings::page {
        self.0.as_ptr()
    }

    /// Returns the address of the first byte. It is valid as long as `self` lives.
    #[inline]
    pub fn address(&self) -> *mut u8 {
        // SAFETY: By the type invariant the page is valid and in the linear map.
        unsafe { bindings::page_address(self.as_ptr()) }.cast()
    }

    /// Returns true if the page meets the invariants of a [`FreshPage`].
    fn is_private(&self) -> bool {
        // SAFETY: By the type invariant the page is valid.
        unsafe { bindings::page_is_private(self.as_ptr()) }
    }
}

impl Drop for OwnedPage {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant `self` owns a reference.
        unsafe { bindings::put_page(self.as_ptr()) };
    }
}

/// A page with a single owner, which the CPU and devices may write to.
///
/// # Invariants
///
/// There is no other reference to the page, and the page is neither in a page cache nor on an LRU
/// list.
#[repr(transparent)]
pub struct FreshPage(OwnedPage);

/// The effort of a page allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Fails rather than retries reclaim (`__GFP_NORETRY`). For callers that reclaim may wait for,
    /// and for callers that try again later.
    Little,
    /// Retries reclaim as long as the kernel does by default, so that the allocation rarely fails.
    Full,
}

impl FreshPage {
    /// Allocates a page, without a warning in the log if that fails. The page is not zeroed, unless
    /// the kernel is configured to zero all pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    // Not inlined: tests make allocations fail by a probe on this function.
    #[inline(never)]
    pub fn new(effort: Effort) -> Result<Self> {
        // SAFETY: The function has no preconditions.
        let page = unsafe { bindings::alloc_page(effort == Effort::Full) };
        // INVARIANT: A newly allocated page has one reference, which the caller owns. It is in the
        // linear map, as the allocation did not ask for high memory.
        let page = NonNull::new(page).map(OwnedPage);
        page.map(Self).ok_or(ENOMEM)
    }
}

impl Deref for FreshPage {
    type Target = OwnedPage;

    fn deref(&self) -> &OwnedPage {
        &self.0
    }
}

/// A contiguous run of bytes of a [`Stream`], which may span several consecutive pages.
#[derive(Clone, Copy, Default)]
pub struct Part {
    /// The index of the page with the first byte.
    pub page: usize,
    /// The offset of the first byte in that page, less than [`PAGE_SIZE`].
    pub offset: usize,
    /// The number of bytes.
    pub len: usize,
}

/// A contiguous run of bytes of a [`Stream`] within one page.
#[derive(Clone, Copy)]
pub struct Piece {
    /// The index of the page.
    pub page: usize,
    /// The offset of the first byte in the page.
    pub offset: usize,
    /// The number of bytes, not 0.
    pub len: usize,
}

/// The number of parts: the head, the pages and the tail of an `xdr_buf`.
const PARTS: usize = 3;

/// Pages, and a byte stream that is laid out over them.
///
/// The stream owns one reference to each page. It is the concatenation of up to three parts, each
/// of which is a run of bytes in consecutive pages. The room for pages is allocated once and never
/// grows, so nothing is allocated while a Call is processed.
///
/// A stream is *fresh* if no page has another owner. Only then may the pages be written.
///
/// # Invariants
///
/// While `fresh` is true, each page meets the invariants of [`FreshPage`].
pub struct Stream {
    pages: KVec<OwnedPage>,
    fresh: bool,
    parts: [Part; PARTS],
}

impl Stream {
    /// Creates an empty stream with room for `pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn with_capacity(pages: usize) -> Result<Self> {
        // INVARIANT: There is no page.
        Ok(Self {
            pages: KVec::with_capacity(pages, GFP_KERNEL)?,
            fresh: true,
            parts: [Part::default(); PARTS],
        })
    }

    /// Returns the number of pages that the stream has room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.pages.capacity()
    }

    /// Returns the pages.
    #[inline]
    pub fn pages(&self) -> &[OwnedPage] {
        self.pages.as_slice()
    }

    /// Returns the pages, for exchanging them with others. The stream is not fresh afterwards.
    #[inline]
    pub fn pages_mut(&mut self) -> &mut [OwnedPage] {
        self.fresh = false;
        self.pages.as_mut_slice()
    }

    /// Returns true if the stream is fresh: no page has another owner.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Appends a page. The stream stays fresh if it is.
    ///
    /// # Errors
    ///
    /// Returns the page if the stream has no room.
    #[inline]
    pub fn push(&mut self, page: FreshPage) -> Result<(), FreshPage> {
        // INVARIANT: `page` meets the invariants of `FreshPage`, so `fresh` may stay true.
        self.add(page.0).map_err(FreshPage)
    }

    /// Appends a page that may have other owners. The stream is not fresh afterwards.
    ///
    /// # Errors
    ///
    /// Returns the page if the stream has no room.
    #[inline]
    pub fn push_shared(&mut self, page: OwnedPage) -> Result<(), OwnedPage> {
        self.fresh = false;
        self.add(page)
    }

    /// Appends a page, or returns it if the stream has no room.
    #[inline]
    fn add(&mut self, page: OwnedPage) -> Result<(), OwnedPage> {
        self.pages.push_within_capacity(page).map_err(|e| e.0)
    }

    /// Removes and returns the last page. Returns `None` if the stream is empty or not fresh.
    #[inline]
    pub fn pop(&mut self) -> Option<FreshPage> {
        if !self.fresh {
            return None;
        }
        // INVARIANT: The stream is fresh, so by its invariant the page meets those of `FreshPage`.
        self.pages.pop().map(FreshPage)
    }

    /// Drops all pages. The stream is fresh afterwards.
    #[inline]
    pub fn clear(&mut self) {
        self.pages.clear();
        // INVARIANT: There is no page.
        self.fresh = true;
    }

    /// Makes the stream fresh: replaces each page that has another owner with a new page.
    ///
    /// If the allocation of a new page fails, the stream loses the old page without a replacement.
    /// Returns the number of pages that were lost. May sleep.
    pub fn renew(&mut self) -> usize {
        let before = self.pages.len();
        let mut i: usize = 0;
        while let Some(page) = self.pages.get_mut(i) {
            let new = match page.is_private() {
                true => Ok(()),
                false => FreshPage::new(Effort::Little).map(|new| *page = new.0),
            };
            match new {
                Ok(()) => i = i.saturating_add(1),
                Err(_) => drop(self.pages.remove(i)),
            }
        }
        // INVARIANT: Each page that is left was private or is new.
        self.fresh = true;
        before.saturating_sub(self.pages.len())
    }

    /// Lays the stream out as the concatenation of `parts`.
    #[inline]
    pub fn lay(&mut self, parts: [Part; PARTS]) {
        self.parts = parts;
    }

    /// Lays the stream out as the first `len` bytes of the pages.
    #[inline]
    pub fn lay_flat(&mut self, len: usize) {
        let part = Part {
            page: 0,
            offset: 0,
            len,
        };
        self.lay([part, Part::default(), Part::default()]);
    }

    /// Returns the piece that starts at byte `at` of the stream, with at most `max` bytes. Returns
    /// `None` beyond the end of the stream.
    #[inline]
    pub fn piece(&self, at: usize, max: usize) -> Option<Piece> {
        let mut at = at;
        for part in &self.parts {
            if at < part.len {
                let start = part.offset.checked_add(at)?;
                let offset = start % PAGE_SIZE;
                return Some(Piece {
                    page: part.page.checked_add(start / PAGE_SIZE)?,
                    offset,
                    len: max.min(part.len.saturating_sub(at)).min(PAGE_SIZE - offset),
                });
            }
            at = at.saturating_sub(part.len);
        }
        None
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

    /// Returns the big-endian word at byte `at` of the stream. Returns `None` beyond the end of the
    /// stream, or if the stream is not fresh.
    #[inline]
    pub fn word(&mut self, at: usize) -> Option<u32> {
        let mut bytes = [0; 4];
        let mut copied = 0;
        self.for_each_piece(at..at.saturating_add(bytes.len()), |from, done, len| {
            if let Some(to) = bytes.get_mut(done..).and_then(|rest| rest.get_mut(..len)) {
                // SAFETY: `for_each_piece` promises that `from` is valid for reads of `len` bytes;
                // the page comes from C, so Rust treats them as initialised. `to` has `len` bytes
                // on the stack, so it does not overlap with a page.
                unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), len) };
                copied = done.saturating_add(len);
            }
        });
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

    /// Calls `f` for each piece of `range`, if the stream is fresh.
    ///
    /// The arguments of `f` are the address of the piece, the number of bytes of `range` before it,
    /// and its length. While `f` runs, the address is valid for reads and writes of that length.
    fn for_each_piece(&mut self, range: Range<usize>, mut f: impl FnMut(*mut u8, usize, usize)) {
        let mut at = range.start;
        while self.fresh && at < range.end {
            let Some(piece) = self.piece(at, range.end.saturating_sub(at)) else {
                return;
            };
            let Some(page) = self.pages.get(piece.page) else {
                return;
            };
            // In bounds: `piece.offset + piece.len` is at most `PAGE_SIZE`.
            f(
                page.address().wrapping_add(piece.offset),
                at.saturating_sub(range.start),
                piece.len,
            );
            at = at.saturating_add(piece.len);
        }
    }
}

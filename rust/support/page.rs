// SPDX-License-Identifier: GPL-2.0

//! Pages, and byte streams laid over them: what `sunrpc` and `rdma` hand each other.
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

/// One reference to a page of order 0, or to one page of a large folio.
///
/// # Invariants
///
/// The pointer is to a valid `struct page` in the kernel's linear map, and this value owns one
/// reference to it.
#[repr(transparent)]
pub struct OwnedPage(NonNull<bindings::page>);

// SAFETY: A reference to a page belongs to no thread.
unsafe impl Send for OwnedPage {}
// SAFETY: A shared `OwnedPage` only gives reads of the page's address and state.
unsafe impl Sync for OwnedPage {}

impl OwnedPage {
    /// Takes over one reference.
    ///
    /// # Safety
    ///
    /// - `page` is a valid page of the linear map.
    /// - The caller owns a reference to it and gives it away.
    pub unsafe fn from_raw(page: NonNull<bindings::page>) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self(page)
    }

    /// The page, whose reference stays here.
    pub fn as_ptr(&self) -> *mut bindings::page {
        self.0.as_ptr()
    }

    /// The address of the first byte, which stays valid as long as `self` does.
    pub fn address(&self) -> *mut u8 {
        // SAFETY: By the type invariant the page is valid and in the linear map.
        unsafe { bindings::page_address(self.as_ptr()) }.cast()
    }

    /// Whether this could be a [`FreshPage`].
    fn is_private(&self) -> bool {
        // SAFETY: By the type invariant the page is valid.
        unsafe { bindings::page_is_private(self.as_ptr()) }
    }
}

impl Drop for OwnedPage {
    fn drop(&mut self) {
        // SAFETY: By the type invariant `self` owns a reference.
        unsafe { bindings::put_page(self.as_ptr()) };
    }
}

/// A page that nobody else has, so that it may be written, by us or by a device.
///
/// # Invariants
///
/// There is no other reference to the page, and neither page cache nor LRU know it.
#[repr(transparent)]
pub struct FreshPage(OwnedPage);

/// How hard to try to get memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Not very: where freeing memory may wait for us, or where there is another time.
    Little,
    /// As the kernel does for any other page, so that it hardly ever fails.
    Full,
}

impl FreshPage {
    /// Allocates a page, zeroed if the kernel is configured so. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    // Of its own: tests have all that it allocates fail.
    #[inline(never)]
    pub fn new(effort: Effort) -> Result<Self> {
        // SAFETY: The function has no preconditions.
        let page = unsafe { bindings::alloc_page(effort == Effort::Full) };
        // INVARIANT: A newly allocated page has one reference, which is the caller's, and is in
        // the linear map since the allocation did not ask for high memory.
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

/// Bytes that follow each other over consecutive pages of a [`Stream`].
#[derive(Clone, Copy, Default)]
pub struct Part {
    /// Index of the page with the first byte.
    pub page: usize,
    /// Where in that page the first byte is, less than [`PAGE_SIZE`].
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
}

/// Bytes of a [`Stream`] that are in one page.
#[derive(Clone, Copy)]
pub struct Piece {
    /// Index of the page.
    pub page: usize,
    /// Where in the page.
    pub offset: usize,
    /// Number of bytes, not 0.
    pub len: usize,
}

/// The number of parts: the head, the pages and the tail of an `xdr_buf`.
const PARTS: usize = 3;

/// A byte stream over pages that this value owns.
///
/// The capacity is given once and never grows, so nothing is allocated on the way of a Call.
///
/// # Invariants
///
/// While `fresh`, each page could be a [`FreshPage`].
pub struct Stream {
    pages: KVec<OwnedPage>,
    fresh: bool,
    parts: [Part; PARTS],
}

impl Stream {
    /// Makes an empty stream with room for `pages` pages. May sleep.
    pub fn with_capacity(pages: usize) -> Result<Self> {
        // INVARIANT: There is no page.
        Ok(Self {
            pages: KVec::with_capacity(pages, GFP_KERNEL)?,
            fresh: true,
            parts: [Part::default(); PARTS],
        })
    }

    /// The number of pages there is room for.
    pub fn capacity(&self) -> usize {
        self.pages.capacity()
    }

    /// The pages.
    pub fn pages(&self) -> &[OwnedPage] {
        self.pages.as_slice()
    }

    /// The pages, to exchange.
    pub fn pages_mut(&mut self) -> &mut [OwnedPage] {
        self.fresh = false;
        self.pages.as_mut_slice()
    }

    /// Whether nobody else has any of the pages: they may be written.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Adds a page; gives it back when there is no room.
    pub fn push(&mut self, page: FreshPage) -> Result<(), FreshPage> {
        // INVARIANT: `fresh` stays as it is: this page is.
        self.add(page.0).map_err(FreshPage)
    }

    /// Adds a page that others may have as well; gives it back when there is no room.
    pub fn push_shared(&mut self, page: OwnedPage) -> Result<(), OwnedPage> {
        self.fresh = false;
        self.add(page)
    }

    fn add(&mut self, page: OwnedPage) -> Result<(), OwnedPage> {
        if self.pages.len() == self.pages.capacity() {
            return Err(page);
        }
        // The room was just checked, and the error would only drop the page.
        self.pages.push_within_capacity(page).map_err(|e| e.0)
    }

    /// Takes the last page out, if the pages are fresh.
    pub fn pop(&mut self) -> Option<FreshPage> {
        if !self.fresh {
            return None;
        }
        // INVARIANT: By the type invariant of `self`.
        self.pages.pop().map(FreshPage)
    }

    /// Drops all pages.
    pub fn clear(&mut self) {
        self.pages.clear();
        // INVARIANT: There is no page.
        self.fresh = true;
    }

    /// Puts a new page in the place of each that somebody else has a reference to, as far as there is
    /// memory. Returns how many pages are lost for want of it. May sleep.
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
        // INVARIANT: All pages that are left were private, or are new.
        self.fresh = true;
        before.saturating_sub(self.pages.len())
    }

    /// Says where the bytes lie, in their order.
    pub fn lay(&mut self, parts: [Part; PARTS]) {
        self.parts = parts;
    }

    /// Says that the stream is the first `len` bytes of the pages.
    pub fn lay_flat(&mut self, len: usize) {
        let part = Part {
            page: 0,
            offset: 0,
            len,
        };
        self.lay([part, Part::default(), Part::default()]);
    }

    /// The piece at byte `at` of the stream, `max` bytes or shorter; none beyond its end.
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

    /// Copies `bytes` to byte `at` of the stream, as far as the stream goes and if it is fresh.
    pub fn fill(&mut self, at: usize, bytes: &[u8]) {
        self.for_each_piece(at..at.saturating_add(bytes.len()), |to, done, len| {
            if let Some(from) = bytes.get(done..).and_then(|rest| rest.get(..len)) {
                // SAFETY: `to` is valid for `len` bytes by `for_each_piece`, and a slice of Rust
                // memory does not overlap with a page that this stream owns.
                unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, len) };
            }
        });
    }

    /// The big-endian word at byte `at` of the stream; none beyond its end, or if it is not fresh.
    pub fn word(&mut self, at: usize) -> Option<u32> {
        let mut bytes = [0; 4];
        let mut copied = 0;
        self.for_each_piece(at..at.saturating_add(bytes.len()), |from, done, len| {
            if let Some(to) = bytes.get_mut(done..).and_then(|rest| rest.get_mut(..len)) {
                // SAFETY: `from` is valid for `len` bytes by `for_each_piece`, and they are
                // initialised, as the page comes from C; `to`, which is Rust memory of that length,
                // does not overlap with a page that this stream owns.
                unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), len) };
                copied = done.saturating_add(len);
            }
        });
        (copied == bytes.len()).then(|| u32::from_be_bytes(bytes))
    }

    /// Sets `len` bytes from byte `at` of the stream to zero, as far as the stream goes and if it
    /// is fresh.
    pub fn zero(&mut self, at: usize, len: usize) {
        self.for_each_piece(at..at.saturating_add(len), |to, _, len| {
            // SAFETY: `to` is valid for `len` bytes by `for_each_piece`.
            unsafe { core::ptr::write_bytes(to, 0, len) };
        });
    }

    /// Calls `f` with the address, the bytes done so far, and the length of each piece of `range`,
    /// if the stream is fresh; the address is valid for reads and writes of that length while `f`
    /// runs.
    fn for_each_piece(&mut self, range: Range<usize>, mut f: impl FnMut(*mut u8, usize, usize)) {
        let mut at = range.start;
        while self.fresh && at < range.end {
            let Some(piece) = self.piece(at, range.end.saturating_sub(at)) else {
                return;
            };
            let Some(page) = self.pages.get(piece.page) else {
                return;
            };
            // `piece.offset + piece.len` is at most `PAGE_SIZE`.
            f(
                page.address().wrapping_add(piece.offset),
                at.saturating_sub(range.start),
                piece.len,
            );
            at = at.saturating_add(piece.len);
        }
    }
}

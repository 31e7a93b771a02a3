// SPDX-License-Identifier: GPL-2.0

//! Mappings: the DMA mapping of an array of pages.
//!
//! One call maps all pages. Pages that are adjacent in memory, or that an IOMMU makes adjacent,
//! share a segment.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    mem::dma::Direction, //
};
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use support::page::PAGE_SIZE;

/// The most pages of a mapping: their bytes fit into 32 bits.
const MAX_PAGES: usize = u32::MAX as usize / PAGE_SIZE;

/// The mapping of an array of pages, with room for a fixed number of pages.
///
/// It is not `Sync`: [`Self::find`] remembers where it has ended.
///
/// # Invariants
///
/// - If `target` is `Some`, the device may access the pages that [`Self::map`] was called with, at
///   the addresses in the first `count` segments, in the order of the pages. Otherwise `count` is 0.
/// - These segments have `pages` pages altogether, fewer than 2^32 bytes.
/// - The first `entries` entries of `list` have to be unmapped for `target`.
/// - `segments` and `list` have room for `room` entries each.
pub(crate) struct Mapping {
    target: Option<(Arc<Pd>, Direction)>,
    segments: KVVec<bindings::ib_sge>,
    count: usize,
    pages: usize,
    room: usize,
    /// Memory for the list that the pages are mapped with. Soft devices need none.
    list: KVVec<bindings::scatterlist>,
    entries: u32,
    /// The last segment that was found.
    last: Cell<Position>,
}

/// The position of a segment in the bytes of all pages. The default is before the first segment.
#[derive(Clone, Copy, Default)]
struct Position {
    /// The index of the segment.
    index: usize,
    /// The first byte of the segment.
    start: usize,
    /// The byte behind the segment.
    end: usize,
}

/// Mapped memory: the segments that a range of bytes begins in.
pub(crate) struct Run<'a> {
    /// The segments, which are not empty.
    pub(crate) segments: &'a [bindings::ib_sge],
    /// Bytes of the first segment that do not belong to the range.
    pub(crate) before: usize,
    /// Bytes of the last segment that do not belong to the range.
    pub(crate) behind: usize,
    /// Bytes of the range.
    pub(crate) len: usize,
}

/// A segment of no bytes.
const NO_SEGMENT: bindings::ib_sge = bindings::ib_sge {
    addr: 0,
    length: 0,
    lkey: 0,
};

impl Mapping {
    /// Allocates a mapping of no pages with room for `pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn with_capacity(pages: usize) -> Result<Self> {
        let mut segments = KVVec::with_capacity(pages, GFP_KERNEL)?;
        for _ in 0..pages {
            segments.push(NO_SEGMENT, GFP_KERNEL)?;
        }
        // INVARIANT: Nothing is mapped.
        Ok(Self {
            target: None,
            segments,
            count: 0,
            pages: 0,
            room: pages.min(MAX_PAGES),
            list: KVVec::with_capacity(pages, GFP_KERNEL)?,
            entries: 0,
            last: Cell::default(),
        })
    }

    /// Returns true if pages are mapped.
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.target.is_some()
    }

    /// Returns true if pages are mapped for `pd` and in this direction.
    #[inline]
    pub(crate) fn is_for(&self, pd: &Arc<Pd>, direction: Direction) -> bool {
        let fits = |(p, d): &(Arc<Pd>, Direction)| p.is(pd) && *d == direction;
        self.target.as_ref().is_some_and(fits)
    }

    /// Returns the segments, in the order of the pages. Each consists of whole pages.
    #[inline]
    pub(crate) fn segments(&self) -> &[bindings::ib_sge] {
        self.segments.get(..self.count).unwrap_or(&[])
    }

    /// Returns the number of pages in all segments.
    #[inline]
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// Maps `pages` for the device of `pd`. Does not sleep.
    ///
    /// # Errors
    ///
    /// Nothing is mapped after an error.
    ///
    /// - `ENOMEM` if the pages cannot be mapped, for example because the IOMMU has no address left.
    /// - `EINVAL` if there is no page, or if there are too many.
    ///
    /// # Safety
    ///
    /// - Nothing is mapped.
    /// - Until [`Self::unmap`] the pages stay valid.
    /// - Unless the direction is [`Direction::ToDevice`], nobody else uses the pages until then.
    pub(crate) unsafe fn map(
        &mut self,
        pd: Arc<Pd>,
        pages: &[*mut bindings::page],
        direction: Direction,
    ) -> Result {
        if pages.is_empty() || pages.len() > self.room {
            return Err(EINVAL);
        }
        // SAFETY: `pd` is live, the pages are valid by the safety requirements of this function,
        // and the arrays have room for an entry for each of them.
        // CAST: At most `MAX_PAGES`. The discriminant is that of `enum dma_data_direction`.
        let count = unsafe {
            bindings::ib_dma_map_pages(
                pd.as_ptr(),
                pages.as_ptr(),
                pages.len() as u32,
                direction as c_int,
                self.segments.as_mut_ptr(),
                self.list.as_mut_ptr(),
                &mut self.entries,
            )
        };
        if count == 0 {
            return Err(ENOMEM);
        }
        // INVARIANT: The pages were just mapped in `count` segments. Nothing is mapped besides.
        self.count = count as usize;
        self.pages = pages.len();
        self.target = Some((pd, direction));
        // The first range mostly begins in the first segment.
        let first = self.segments.first().map_or(0, |segment| segment.length);
        self.last.set(Position {
            end: first as usize,
            ..Position::default()
        });
        Ok(())
    }

    /// Unmaps the pages. Does not sleep. Does nothing if none are mapped.
    ///
    /// # Safety
    ///
    /// No posted work request names the mapped memory.
    #[inline]
    pub(crate) unsafe fn unmap(&mut self) {
        let Some((pd, direction)) = self.target.take() else {
            return;
        };
        // INVARIANT: Nothing is mapped.
        self.count = 0;
        self.pages = 0;
        let entries = core::mem::take(&mut self.entries);
        if entries > 0 {
            // SAFETY: By the type invariant the entries were mapped for `pd` and in this direction.
            // Work requests do not name them by the safety requirements of this function.
            // CAST: The discriminant is that of `enum dma_data_direction`.
            unsafe {
                bindings::ib_dma_unmap_pages(
                    pd.as_ptr(),
                    self.list.as_mut_ptr(),
                    entries,
                    direction as c_int,
                )
            };
        }
    }

    /// Returns an entry for the `len` bytes from byte `at` of the pages on. Returns `None` if they
    /// are not in the segment that a search has ended in, or if `len` is 0.
    #[inline]
    pub(crate) fn piece(&self, at: usize, len: usize) -> Option<bindings::ib_sge> {
        let last = self.last.get();
        let end = at.wrapping_add(len);
        if at < last.start || end <= at || end > last.end {
            return None;
        }
        let segment = self.segments.get(last.index)?;
        Some(bindings::ib_sge {
            // CAST: `usize` has 64 bits at most, and `len` is at most that of the segment.
            addr: segment
                .addr
                .wrapping_add(at.wrapping_sub(last.start) as u64),
            length: len as u32,
            lkey: segment.lkey,
        })
    }

    /// Returns the segments that the `len` bytes from byte `at` of the pages on begin in, at most
    /// `room` of them, but one at least. Returns `None` if `len` is 0, or beyond the end of the
    /// pages.
    ///
    /// A search begins where the last one has ended, so it is short if ranges ascend.
    pub(crate) fn find(&self, at: usize, len: usize, room: usize) -> Option<Run<'_>> {
        let goal = at.checked_add(len).filter(|&goal| goal > at)?;
        let first = self.seek(self.last.get(), at)?;
        let (last, segments) = self.extend(first, goal, room)?;
        let behind = last.end.saturating_sub(goal);
        Some(Run {
            segments,
            before: at.wrapping_sub(first.start),
            behind,
            len: last.end.wrapping_sub(behind).wrapping_sub(at),
        })
    }

    /// Returns the position of the segment with byte `at`, from the segment `last` on if that is
    /// not behind the byte.
    fn seek(&self, last: Position, at: usize) -> Option<Position> {
        let mut position = if last.start <= at {
            last
        } else {
            Position::default()
        };
        for segment in self.segments.get(position.index..self.count)? {
            // No overflow, because all segments have fewer than 2^32 bytes.
            position.end = position.start.wrapping_add(segment.length as usize);
            if at < position.end {
                self.last.set(position);
                return Some(position);
            }
            position.start = position.end;
            position.index = position.index.wrapping_add(1);
        }
        None
    }

    /// Returns the segments from the position `first` on up to byte `goal`, at most `room` of them,
    /// and the position of the last one.
    fn extend(
        &self,
        first: Position,
        goal: usize,
        room: usize,
    ) -> Option<(Position, &[bindings::ib_sge])> {
        let segments = self.segments.get(first.index..self.count)?;
        let mut last = first;
        let mut count = 1usize;
        for segment in segments.iter().take(room).skip(1) {
            if last.end >= goal {
                break;
            }
            last.start = last.end;
            // No overflow, because all segments have fewer than 2^32 bytes.
            last.end = last.end.wrapping_add(segment.length as usize);
            count = count.wrapping_add(1);
        }
        last.index = first.index.wrapping_add(count.wrapping_sub(1));
        self.last.set(last);
        Some((last, segments.get(..count)?))
    }
}

impl Run<'_> {
    /// Returns true if the range has all bytes of the segments.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.before == 0 && self.behind == 0
    }
}

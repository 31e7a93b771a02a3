// SPDX-License-Identifier: GPL-2.0

//! Results: makes a context the Reply with the results of nfsd.

use super::reply::{
    Kind,
    Reply, //
};
use core::ops::Range;
use kernel::prelude::*;
use rdma::mem::page_region::PageRegion;
use sunrpc::results::Results;
use support::page::PAGE_SIZE;
use svcrdma_proto::{
    encode,
    header::View,
    reply::{
        Form,
        WriteCursor, //
    },
};

/// The most bytes of inline results that are copied behind the transport header. Copying them is
/// cheaper than mapping their pages, and the nfsd thread keeps the pages.
const COPY_MAX: usize = 1024;

/// The part of the results that a Reply takes.
pub(crate) struct Taken {
    /// The range of the results that has all bytes whose pages are taken.
    pub(crate) range: Range<u32>,
    /// A page region for the pages, if the Reply has one.
    pub(crate) spare: Option<KBox<PageRegion>>,
}

impl Reply {
    /// Turns the context into the planned Reply to the Call `view`, which invalidates the handle
    /// `invalidate`: encodes the header and takes the results. Small inline results are copied, and
    /// all inline results if `copies`. `take` moves the pages with other results to a page region
    /// and maps them if that is possible now. May sleep.
    ///
    /// # Errors
    ///
    /// - `ENOSPC` if the Reply exceeds the buffer.
    /// - `EIO` if results are missing.
    /// - Any error of `take`.
    #[inline]
    pub(crate) fn set_results(
        &mut self,
        view: &View<'_>,
        invalidate: Option<u32>,
        copies: bool,
        results: Results<'_>,
        take: impl FnOnce(Results<'_>, Taken) -> Result<KBox<PageRegion>>,
    ) -> Result {
        let len = encode::reply(&self.plan, view, 0, self.buffer.bytes_mut()).ok_or(ENOSPC)?;
        self.set(Kind::Reply, len);
        self.invalidate = invalidate;
        let inline = self.plan.inline_len() as usize;
        let is_short = inline <= COPY_MAX.min(PAGE_SIZE.saturating_sub(len));
        if is_short && self.plan.written_len() == 0 {
            // Most Replies. No result is left out, so the inline ones are in one piece.
            self.copy(&results, 0, inline)?;
            results.keep_result_pages();
            return Ok(());
        }
        self.set_long_results(copies, results, take)
    }

    /// Takes the results of a Reply with an encoded header that has Write chunks or many inline
    /// results, see [`Self::set_results`].
    // Out of line, to keep the frame out of the path of small Replies.
    #[inline(never)]
    fn set_long_results(
        &mut self,
        copies: bool,
        results: Results<'_>,
        take: impl FnOnce(Results<'_>, Taken) -> Result<KBox<PageRegion>>,
    ) -> Result {
        self.cursor
            .set(WriteCursor::new(&self.plan, self.buffer.bytes()));
        let is_inline = self.plan.form == Form::Inline;
        let is_copied = self.is_copied(copies);
        if is_inline && is_copied {
            self.copy_inline(&results)?;
        }
        self.from_pages = is_inline && !is_copied;
        let written = self.plan.written_len();
        if written == 0 && !self.from_pages {
            results.keep_result_pages();
            return Ok(());
        }
        let taken = Taken {
            range: if self.from_pages {
                0..u32::MAX
            } else {
                self.plan.written_range()
            },
            spare: self.take_spare(results.result_pages()),
        };
        let pages = take(results, taken)?;
        // CAST: At most the pages of an nfsd thread.
        self.held = (pages.pages() as i32).saturating_add(1);
        if self.from_pages {
            self.bytes = self.bytes.saturating_add(self.plan.inline_len());
        }
        self.bytes = self.bytes.saturating_add(written);
        self.written = written;
        self.pages = Some(pages);
        Ok(())
    }

    /// Returns true if the inline results are copied. Results in more than two ranges always are,
    /// because a Send may have too few entries for them. The buffer has room for them, as inline
    /// results do not exceed the inline threshold.
    fn is_copied(&self, copies: bool) -> bool {
        let inline = self.plan.inline_len() as usize;
        let is_small = inline <= COPY_MAX || copies || self.plan.kept().nth(2).is_some();
        is_small && self.len.saturating_add(inline) <= PAGE_SIZE
    }

    /// Copies the inline results behind the header.
    fn copy_inline(&mut self, results: &Results<'_>) -> Result {
        for range in self.plan.kept() {
            let len = range.end.saturating_sub(range.start) as usize;
            let rest = self.buffer.bytes_mut().get_mut(self.len..);
            let out = rest.and_then(|rest| rest.get_mut(..len)).ok_or(ENOSPC)?;
            if results.copy_result(range.start as usize, out) != len {
                return Err(EIO);
            }
            self.len = self.len.saturating_add(len);
        }
        // CAST: At most a page.
        self.bytes = self.len as u32;
        Ok(())
    }

    /// Copies `len` bytes of the results from byte `at` on to the end of the message.
    #[inline]
    fn copy(&mut self, results: &Results<'_>, at: usize, len: usize) -> Result {
        let rest = self.buffer.bytes_mut().get_mut(self.len..);
        let out = rest.and_then(|rest| rest.get_mut(..len)).ok_or(ENOSPC)?;
        if results.copy_result(at, out) != len {
            return Err(EIO);
        }
        self.len = self.len.saturating_add(len);
        // CAST: At most a page.
        self.bytes = self.len as u32;
        Ok(())
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Plans of Replies: the form of a Reply and the destination of each of its bytes (RFC 8166,
//! sections 3.4.6 and 3.5).
//!
//! The *reply stream* is the RPC reply as nfsd made it. Results that are eligible for direct data
//! placement leave the stream together with their XDR pads and go to the client's Write chunks. A
//! result stays in the stream if its Write chunk has no room for any byte. The rest of the stream
//! follows the transport header if it fits within the inline threshold, and goes to the Reply chunk
//! otherwise.

pub use crate::write::{
    WriteCursor,
    WriteOp, //
};

use core::ops::Range;

use crate::chunk::{
    Chunks,
    MAX_WRITE_CHUNKS, //
};
use crate::error::{
    DecodeError,
    Reason, //
};
use crate::header::View;
use crate::wire;

/// The most results of one Reply that leave the reply stream: one for each Write chunk.
pub const MAX_PAYLOADS: usize = MAX_WRITE_CHUNKS as usize;

/// Bytes of the transport header of a Reply before its Write list: four words, and no Read list.
pub(crate) const BEFORE_LISTS: u32 = 20;

/// A result that is eligible for direct data placement: a range of the reply stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Offset of the first byte in the reply stream; a multiple of 4.
    pub offset: u32,
    /// Length in bytes, without XDR pad.
    pub len: u32,
}

impl Payload {
    /// Returns the range that this payload takes out of a reply stream of `len` bytes.
    fn span(&self, len: u32) -> Option<Range<u32>> {
        let end = self.offset.checked_add(self.len)?;
        if end > len || self.offset & 3 != 0 {
            return None;
        }
        Some(self.offset..self.end(len))
    }

    /// Returns the offset of the byte behind this payload and its pad in a reply stream of `len`
    /// bytes, which contains the payload.
    fn end(&self, len: u32) -> u32 {
        let end = self.offset.saturating_add(self.len);
        // The last item of a stream may lack its pad.
        end.saturating_add(wire::pad(end)).min(len)
    }
}

/// The form of a Reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// RDMA_MSG: the rest of the stream follows the header.
    Inline,
    /// RDMA_NOMSG: the rest of the stream goes to the Reply chunk.
    ReplyChunk,
    /// The Reply does not fit; the client gets ERR_CHUNK.
    #[default]
    Refused,
}

/// The form of a Reply and the destination of each of its bytes.
///
/// A plan is made in place, because it is large. The default is the plan of a refused Reply.
///
/// # Invariants
///
/// - The first `count` of `payloads` are ascending, do not overlap and lie within `len`.
/// - Payload number `k` fits into Write chunk `k` of the Call. It has no bytes if the chunk has no
///   room for any.
/// - A refused Reply has no payloads, and all of its lengths are 0.
#[derive(Debug, Default)]
pub struct ReplyPlan {
    /// The form of the Reply.
    pub form: Form,
    /// Number of payloads.
    count: u32,
    /// Bytes of the reply stream.
    len: u32,
    /// Bytes that stay in the reply stream.
    rest: u32,
    /// Bytes that go to the Write chunks.
    moved: u32,
    /// Bytes of the transport header.
    header: u32,
    payloads: [Payload; MAX_PAYLOADS],
}

impl ReplyPlan {
    /// Plans a Reply of `len` bytes to a Call, to be sent in a message of at most `limit` bytes.
    ///
    /// `payloads` are the eligible results in ascending order. A payload that exceeds the stream or
    /// overlaps its predecessor stays in the stream and uses no Write chunk. A payload whose Write
    /// chunk has no room for any byte stays in the stream too, but uses that chunk.
    pub fn make(
        &mut self,
        view: &View<'_>,
        len: u32,
        payloads: impl IntoIterator<Item = Payload>,
        limit: u32,
    ) {
        self.begin(view, len);
        let (mut chunks, mut end) = (view.writes(), 0);
        let mut payloads = payloads.into_iter();
        let fits = payloads.all(|payload| self.assign(&mut chunks, &mut end, payload).is_some());
        self.form = if fits {
            self.choose(view, limit)
        } else {
            Form::Refused
        };
        if self.form == Form::Refused {
            *self = Self::default();
        }
    }

    /// Begins the plan of a Reply of `len` bytes.
    fn begin(&mut self, view: &View<'_>, len: u32) {
        // INVARIANT: There is no payload yet.
        self.count = 0;
        self.len = len;
        self.rest = len;
        self.moved = 0;
        self.header = header_len(view);
    }

    /// Returns the length of the transport header in bytes; 0 for a refused Reply.
    #[inline]
    pub fn header_len(&self) -> u32 {
        self.header
    }

    /// Returns the number of bytes of the reply stream that follow the header in the Send.
    #[inline]
    pub fn inline_len(&self) -> u32 {
        match self.form {
            Form::Inline => self.rest,
            Form::ReplyChunk | Form::Refused => 0,
        }
    }

    /// Returns the ranges that stay in the reply stream: ascending, none empty.
    #[inline]
    pub fn kept(&self) -> Kept<'_> {
        Kept {
            plan: self,
            at: KeptAt::default(),
        }
    }

    /// Returns the payload that goes to Write chunk number `index`.
    #[inline]
    pub(crate) fn payload(&self, index: u32) -> Option<&Payload> {
        if index >= self.count {
            return None;
        }
        self.payloads.get(index as usize)
    }

    /// Returns the number of bytes that go to Write chunk number `index`.
    pub(crate) fn written(&self, index: u32) -> u32 {
        self.payload(index).map_or(0, |payload| payload.len)
    }

    /// Returns the number of bytes that go to Write chunks and to the Reply chunk.
    #[inline]
    pub fn written_len(&self) -> u32 {
        self.moved.saturating_add(self.replied())
    }

    /// Returns the smallest range of the reply stream that has all bytes that go to chunks.
    pub fn written_range(&self) -> Range<u32> {
        if self.form == Form::ReplyChunk {
            return 0..self.len;
        }
        let payloads = self.payloads.get(..self.count as usize).unwrap_or(&[]);
        let mut written = payloads.iter().filter(|payload| payload.len > 0);
        let Some(first) = written.next() else {
            return 0..0;
        };
        let last = written.last().unwrap_or(first);
        first.offset..last.offset.saturating_add(last.len)
    }

    /// Returns the number of bytes that go to the Reply chunk.
    #[inline]
    pub(crate) fn replied(&self) -> u32 {
        match self.form {
            Form::ReplyChunk => self.rest,
            Form::Inline | Form::Refused => 0,
        }
    }

    /// Assigns `payload` to the next of `chunks`. `end` is the offset of the byte behind the payload
    /// before and its pad. Does nothing if the payload stays in the stream.
    ///
    /// A chunk with no room for any byte means that the client wants this result inline.
    ///
    /// Returns `None` if the payload is larger than its chunk.
    fn assign(&mut self, chunks: &mut Chunks<'_>, end: &mut u32, payload: Payload) -> Option<()> {
        let Some(span) = payload.span(self.len).filter(|span| span.start >= *end) else {
            return Some(());
        };
        let Some(slot) = self.payloads.get_mut(self.count as usize) else {
            return Some(());
        };
        let Some(chunk) = chunks.next() else {
            return Some(());
        };
        *end = span.end;
        let len = match chunk.capacity() {
            0 => 0,
            capacity if u64::from(payload.len) > capacity => return None,
            _ => payload.len,
        };
        if len > 0 {
            let gone = span.end.saturating_sub(span.start);
            self.rest = self.rest.saturating_sub(gone);
            self.moved = self.moved.saturating_add(len);
        }
        // INVARIANT: `span` is within `len` and behind the payload before; the chunk has room, or
        // the payload has no bytes.
        *slot = Payload { len, ..payload };
        self.count = self.count.saturating_add(1);
        Some(())
    }

    /// Chooses the form after the payloads were assigned. `limit` is the inline threshold in bytes.
    fn choose(&self, view: &View<'_>, limit: u32) -> Form {
        let limit = u64::from(limit);
        let header = u64::from(self.header);
        let rest = u64::from(self.rest);
        if header.saturating_add(rest) <= limit {
            return Form::Inline;
        }
        match view.reply() {
            Some(chunk) if chunk.capacity() >= rest && header <= limit => Form::ReplyChunk,
            _ => Form::Refused,
        }
    }
}

/// Returns the length of the transport header of a Reply in bytes. It repeats the Write list and the
/// Reply chunk of the Call.
#[inline]
fn header_len(view: &View<'_>) -> u32 {
    BEFORE_LISTS.saturating_add(view.reply_lists_len())
}

/// Checks that the transport header of each Reply to a Call fits into a message of `limit` bytes.
///
/// # Errors
///
/// Returns [`Reason::ReplyHeader`] if it does not fit.
#[inline]
pub fn check_header(view: &View<'_>, limit: u32) -> Result<(), DecodeError> {
    if header_len(view) <= limit {
        Ok(())
    } else {
        Err(view.refuse(Reason::ReplyHeader))
    }
}

/// The progress of a walk over the ranges that stay in the reply stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeptAt {
    /// Index of the payload that ends the next range.
    index: u32,
    /// Offset at which the next range begins.
    at: u32,
}

impl KeptAt {
    /// Returns the next range.
    #[inline]
    pub(crate) fn take(&mut self, plan: &ReplyPlan) -> Option<Range<u32>> {
        while let Some(payload) = plan.payload(self.index) {
            self.index = self.index.saturating_add(1);
            // A payload without bytes does not end a range.
            if payload.len == 0 {
                continue;
            }
            let kept = self.at..payload.offset;
            self.at = payload.end(plan.len);
            if !kept.is_empty() {
                return Some(kept);
            }
        }
        let kept = self.at..plan.len;
        self.at = plan.len;
        (!kept.is_empty()).then_some(kept)
    }
}

/// Iterator returned by [`ReplyPlan::kept`].
#[derive(Clone, Debug)]
pub struct Kept<'a> {
    plan: &'a ReplyPlan,
    at: KeptAt,
}

impl Iterator for Kept<'_> {
    type Item = Range<u32>;

    #[inline]
    fn next(&mut self) -> Option<Range<u32>> {
        self.at.take(self.plan)
    }
}

/// Finds the payload that nfsd marked at `offset` of the reply stream with `len` bytes.
///
/// An eligible result is a variable-length opaque (RFC 8267, sections 4 and 6.1). Some of nfsd's
/// encoders mark its count instead of its first byte, so both places are compared with `len`.
/// `stream_word` returns the big-endian word at an offset of the stream. Returns `None` if neither
/// place matches; the result must stay inline then.
pub fn payload_at(
    stream_word: impl Fn(u32) -> Option<u32>,
    offset: u32,
    len: u32,
) -> Option<Payload> {
    let before = offset.checked_sub(4).and_then(&stream_word);
    if before == Some(len) {
        return Some(Payload { offset, len });
    }
    if stream_word(offset) == Some(len) {
        let offset = offset.checked_add(4)?;
        return Some(Payload { offset, len });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Header;

    /// Looks up words of a stream made of `words`.
    fn at(words: &[u32], offset: u32, len: u32) -> Option<Payload> {
        let word = |at: u32| {
            assert_eq!(at % 4, 0);
            words.get(at as usize / 4).copied()
        };
        payload_at(word, offset, len)
    }

    #[test]
    fn marks_are_checked_against_the_count() {
        let payload = |offset, len| Some(Payload { offset, len });
        // Count 5 at byte 8, text at byte 12.
        let words = [7, 0, 5, 0x6162_6364, 0x6500_0000];
        assert_eq!(at(&words, 12, 5), payload(12, 5));
        assert_eq!(at(&words, 8, 5), payload(12, 5));
        assert_eq!(at(&words, 4, 5), None);
        assert_eq!(at(&words, 16, 5), None);
        assert_eq!(at(&words, 12, 4), None);
        // No word before the first, none behind the last.
        assert_eq!(at(&[5], 0, 5), payload(4, 5));
        assert_eq!(at(&[5], 0, 6), None);
        assert_eq!(at(&[5], 4, 5), payload(4, 5));
        assert_eq!(at(&[5], 8, 5), None);
        assert_eq!(at(&[], u32::MAX - 3, 5), None);
        // The status before the count of an empty text is 0 as well; both readings give an empty
        // text.
        assert_eq!(at(&[0, 0], 4, 0), payload(4, 0));
    }

    #[test]
    fn payloads_take_their_pads_along() {
        let span = |offset, len, of| Payload { offset, len }.span(of);
        assert_eq!(span(8, 5, 100), Some(8..16));
        assert_eq!(span(8, 5, 13), Some(8..13));
        assert_eq!(span(8, 5, 12), None);
        assert_eq!(span(9, 4, 100), None);
        assert_eq!(span(8, u32::MAX, u32::MAX), None);
        assert_eq!(span(8, u32::MAX - 8, u32::MAX), Some(8..u32::MAX));
    }

    #[test]
    fn a_plan_without_chunks_is_inline_or_nothing() {
        let plan = |len, limit| {
            let mut plan = ReplyPlan::default();
            plan.make(&Header::EMPTY.view(&[]), len, [], limit);
            plan
        };
        let inline = plan(100, 128);
        assert_eq!((inline.form, inline.header_len()), (Form::Inline, 28));
        assert_eq!(inline.inline_len(), 100);
        assert_eq!(inline.kept().next(), Some(0..100));
        for (len, limit) in [(101, 128), (u32::MAX, u32::MAX)] {
            let refused = plan(len, limit);
            assert_eq!((refused.form, refused.header_len()), (Form::Refused, 0));
            assert_eq!(refused.kept().next(), None);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Which form a reply takes and which of its bytes go where (RFC 8166, sections 3.4.6 and 3.5).
//!
//! The *reply stream* is the RPC reply as the server made it. Results that are eligible for direct
//! data placement leave it, XDR pads included, and are written to the client's Write chunks, unless
//! there is no room in the one that would be theirs; what is kept goes behind the transport header
//! or, if too long for that, into the Reply chunk.

pub use crate::write::{
    WriteCursor,
    WriteOp, //
};

use core::ops::Range;

use crate::chunk::MAX_WRITE_CHUNKS;
use crate::error::{
    DecodeError,
    Reason, //
};
use crate::header::{
    Header,
    MIN_MESSAGE, //
};
use crate::wire;

/// Most results of one reply that leave the reply stream: further ones have no Write chunk.
pub const MAX_PAYLOADS: usize = MAX_WRITE_CHUNKS as usize;

/// Bytes of a transport header without chunks: four words, three absent lists.
const MIN_HEADER: u64 = MIN_MESSAGE as u64;

/// A result that is eligible for direct data placement: a byte range of the reply stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Offset of the first byte; a multiple of 4.
    pub offset: u32,
    /// Bytes, without XDR pad.
    pub len: u32,
}

impl Payload {
    /// Returns the bytes that leave a reply stream of `len` bytes with this payload.
    fn span(&self, len: u32) -> Option<Range<u32>> {
        let end = self.offset.checked_add(self.len)?;
        if end > len || self.offset & 3 != 0 {
            return None;
        }
        // The last item of a stream that ends without its pad.
        Some(self.offset..wire::padded(end).unwrap_or(end).min(len))
    }
}

/// How a reply is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// RDMA_MSG: what is kept follows the header.
    Inline,
    /// RDMA_NOMSG: what is kept goes to the Reply chunk.
    ReplyChunk,
    /// It fits nowhere; the answer is ERR_CHUNK.
    #[default]
    Refused,
}

/// How a reply is sent, and what goes where.
///
/// # Invariants
///
/// The first `count` of `payloads` are ascending, do not overlap and lie within `len`; number `k`
/// fits Write chunk `k` of the Call this plan was made for, and has no bytes if it is kept because
/// the chunk has none. A refused reply has no payloads, and `len` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyPlan {
    /// How the reply is sent.
    pub form: Form,
    payloads: [Payload; MAX_PAYLOADS],
    count: u32,
    /// Bytes of the reply stream.
    len: u32,
    /// Bytes of it that are kept.
    rest: u32,
    /// Bytes of the transport header.
    header: u32,
}

impl ReplyPlan {
    /// Returns the bytes of the transport header; 0 for a refused reply.
    pub fn header_len(&self) -> u32 {
        self.header
    }

    /// Returns the bytes of the reply stream that follow the header in the Send.
    pub fn inline_len(&self) -> u32 {
        match self.form {
            Form::Inline => self.rest,
            Form::ReplyChunk | Form::Refused => 0,
        }
    }

    /// Returns the ranges of the reply stream that are kept: ascending, none empty.
    pub fn kept(&self) -> Kept<'_> {
        Kept {
            plan: self,
            at: KeptAt::default(),
        }
    }

    /// Returns the payload that goes to Write chunk number `index`.
    pub(crate) fn payload(&self, index: u32) -> Option<&Payload> {
        if index >= self.count {
            return None;
        }
        self.payloads.get(index as usize)
    }

    /// Returns the bytes written to Write chunk number `index`.
    pub(crate) fn written(&self, index: u32) -> u32 {
        self.payload(index).map_or(0, |payload| payload.len)
    }

    /// Returns the bytes of the reply that go by RDMA Write.
    pub fn written_len(&self) -> u32 {
        let results = (0..self.count).map(|index| self.written(index));
        results.fold(self.replied(), u32::saturating_add)
    }

    /// Returns the bytes written to the Reply chunk.
    pub(crate) fn replied(&self) -> u32 {
        match self.form {
            Form::ReplyChunk => self.rest,
            Form::Inline | Form::Refused => 0,
        }
    }

    /// Gives `payloads` to the Write chunks in order; `None` if one is larger than its chunk.
    ///
    /// A chunk that takes no bytes at all says that the client wants this result with the others.
    fn assign(&mut self, header: &Header, msg: &[u8], payloads: &[Payload]) -> Option<()> {
        let mut chunks = header.writes.walk();
        let mut end = 0u32;
        for payload in payloads {
            let Some(span) = payload.span(self.len).filter(|span| span.start >= end) else {
                continue;
            };
            let Some(slot) = self.payloads.get_mut(self.count as usize) else {
                break;
            };
            let Some(chunk) = chunks.take(msg) else {
                break;
            };
            end = span.end;
            self.count = self.count.saturating_add(1);
            let capacity = chunk.capacity(msg);
            if capacity == 0 {
                // INVARIANT: as below; it takes the chunk but no bytes of the stream.
                *slot = Payload { len: 0, ..*payload };
                continue;
            }
            if u64::from(payload.len) > capacity {
                return None;
            }
            // INVARIANT: `span` says it is within `len` and behind the payload before.
            *slot = *payload;
            let gone = span.end.saturating_sub(span.start);
            self.rest = self.rest.saturating_sub(gone);
        }
        Some(())
    }

    /// Chooses the form; the payloads were assigned.
    fn choose(&self, header: &Header, msg: &[u8], limit: u32) -> Form {
        let limit = u64::from(limit);
        let length = u64::from(self.header);
        let rest = u64::from(self.rest);
        if length.saturating_add(rest) <= limit {
            return Form::Inline;
        }
        match header.reply {
            Some(chunk) if chunk.capacity(msg) >= rest && length <= limit => Form::ReplyChunk,
            _ => Form::Refused,
        }
    }
}

/// Returns the bytes of the transport header of a reply: the chunks of the Call come back.
fn header_len(header: &Header, msg: &[u8]) -> Option<u32> {
    let mut len = MIN_HEADER;
    for chunk in header.writes.iter(msg) {
        len = len.checked_add(chunk.wire_len())?;
    }
    if let Some(chunk) = header.reply {
        // Its discriminator is among the words of the minimum.
        len = len.checked_add(chunk.wire_len())?.checked_sub(4)?;
    }
    u32::try_from(len).ok()
}

/// Checks that a reply to the Call `header` can be made in at most `limit` bytes, whatever it is.
///
/// # Errors
///
/// [`Reason::ReplyHeader`].
pub fn check_header(header: &Header, msg: &[u8], limit: u32) -> Result<(), DecodeError> {
    match header_len(header, msg) {
        Some(len) if len <= limit => Ok(()),
        _ => Err(Reason::ReplyHeader.of(header.xid)),
    }
}

/// Decides how a reply of `len` bytes to the Call `header` is sent in at most `limit` bytes.
///
/// `payloads` are the eligible results in ascending order; one that is not within the stream or not
/// behind its predecessor stays in the stream and uses no Write chunk. One whose Write chunk is
/// empty stays in the stream too, but the next payload goes to the next chunk.
pub fn plan(header: &Header, msg: &[u8], len: u32, payloads: &[Payload], limit: u32) -> ReplyPlan {
    let Some(length) = header_len(header, msg) else {
        return ReplyPlan::default();
    };
    let mut plan = ReplyPlan {
        len,
        rest: len,
        header: length,
        ..ReplyPlan::default()
    };
    if plan.assign(header, msg, payloads).is_none() {
        return ReplyPlan::default();
    }
    plan.form = plan.choose(header, msg, limit);
    if plan.form == Form::Refused {
        return ReplyPlan::default();
    }
    plan
}

/// How far a walk over the kept ranges has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeptAt {
    /// The payload that ends the next range.
    index: u32,
    /// Where the next range begins.
    at: u32,
}

impl KeptAt {
    /// Takes the next range.
    pub(crate) fn take(&mut self, plan: &ReplyPlan) -> Option<Range<u32>> {
        while let Some(payload) = plan.payload(self.index) {
            self.index = self.index.saturating_add(1);
            // An empty payload takes nothing away, so it does not cut a range in two.
            let span = payload.span(plan.len).filter(|span| !span.is_empty());
            let Some(span) = span else {
                continue;
            };
            let kept = self.at..span.start;
            self.at = span.end;
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

    fn next(&mut self) -> Option<Range<u32>> {
        self.at.take(self.plan)
    }
}

/// Finds the payload that the server marked at `offset` of the reply stream with `len` bytes.
///
/// An eligible result is a variable-length opaque (RFC 8267, 4 and 6.1), but some encoders mark its
/// count instead of its first byte. `stream_word` returns the big-endian word at an offset of the
/// stream. `None`: neither holds, and the result must stay inline.
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
        // The status before the count of an empty text is 0 as well: either way it is empty.
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
        let plan = |len, limit| plan(&Header::EMPTY, &[], len, &[], limit);
        let inline = plan(100, 128);
        assert_eq!((inline.form, inline.header_len()), (Form::Inline, 28));
        assert_eq!(inline.inline_len(), 100);
        assert_eq!(inline.kept().next(), Some(0..100));
        assert_eq!(plan(101, 128), ReplyPlan::default());
        assert_eq!(plan(u32::MAX, u32::MAX).form, Form::Refused);
    }
}

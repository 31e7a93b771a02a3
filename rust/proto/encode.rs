// SPDX-License-Identifier: GPL-2.0

//! Encoding of the transport headers that the server sends (RFC 8166, sections 4.2, 4.3 and 4.5).

use crate::error::Answer;
use crate::header::{
    procedure,
    View,
    MIN_MESSAGE,
    VERSION, //
};
use crate::reply::{
    Form,
    ReplyPlan, //
};
use crate::report;
use crate::wire;

/// Bytes of the transport header of a reverse-direction Call.
pub const REVERSE_LEN: usize = MIN_MESSAGE;

/// Writes the transport header of the Reply `plan` to a Call into `out`, with a grant of `credits`.
/// Returns its length in bytes, which is [`ReplyPlan::header_len`].
///
/// The header repeats the Call's Write list and Reply chunk with the number of bytes that were
/// written to each segment (RFC 8166, section 3.4.6). Returns `None` if `out` is too small or the
/// Reply is refused.
pub fn reply(plan: &ReplyPlan, view: &View<'_>, credits: u32, out: &mut [u8]) -> Option<usize> {
    let proc = match plan.form {
        Form::Inline => procedure::MSG,
        Form::ReplyChunk => procedure::NOMSG,
        Form::Refused => return None,
    };
    let header = view.header();
    // A Reply has no Read list.
    if !header.has_write_chunks() {
        return wire::put(out, [header.xid, VERSION, credits, proc, 0, 0, 0]);
    }
    let at = wire::put(out, [header.xid, VERSION, credits, proc, 0])?;
    let lists = view.reply_lists();
    let out = out.get_mut(at..)?.get_mut(..lists.len())?;
    out.copy_from_slice(lists);
    let from = header.writes.at();
    let mut writes = header.writes.walk();
    let mut index = 0u32;
    while let Some(chunk) = writes.take(view.message()) {
        chunk.set_written(out, from, plan.written(index))?;
        index = index.saturating_add(1);
    }
    if let Some(chunk) = header.reply {
        chunk.set_written(out, from, plan.replied())?;
    }
    at.checked_add(lists.len())
}

/// Changes the grant in a message that [`reply`] or [`error`] has written.
#[inline]
pub fn set_credits(message: &mut [u8], credits: u32) {
    if let Some(word) = message.get_mut(8..12) {
        word.copy_from_slice(&credits.to_be_bytes());
    }
}

/// Writes an RDMA_ERROR into `out`. Returns its length in bytes: 28 for ERR_VERS, 20 for ERR_CHUNK.
/// Returns `None` if there is nothing to send or `out` is too small.
pub fn error(answer: Answer, credits: u32, out: &mut [u8]) -> Option<usize> {
    match answer {
        Answer::Drop => None,
        Answer::Version { xid, version } => {
            // The lowest and the highest version that the server supports.
            let (low, high) = (VERSION, VERSION);
            let proc = procedure::ERROR;
            wire::put(out, [xid, version, credits, proc, report::VERS, low, high])
        }
        Answer::Chunk { xid } => {
            let words = [xid, VERSION, credits, procedure::ERROR, report::CHUNK];
            wire::put(out, words)
        }
    }
}

/// Writes the transport header of a reverse-direction Call into `out`: an RDMA_MSG without chunks
/// (RFC 8167, section 5.1). `credits` is the number of replies that the server can receive. Returns
/// its length, [`REVERSE_LEN`], or `None` if `out` is too small.
pub fn reverse(xid: u32, credits: u32, out: &mut [u8]) -> Option<usize> {
    wire::put(out, [xid, VERSION, credits, procedure::MSG, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Header;

    #[test]
    fn errors_are_20_or_28_bytes() {
        let mut out = [0xff; 32];
        assert_eq!(error(Answer::Drop, 3, &mut out), None);
        assert_eq!(out, [0xff; 32]);
        let xid = 0x0102_0304;
        assert_eq!(error(Answer::Chunk { xid }, 3, &mut out), Some(20));
        let words = [1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0];
        assert_eq!(out[..19], words);
        assert_eq!((out[19], out[20]), (2, 0xff));
        set_credits(&mut out, 0x0506_0708);
        assert_eq!(out[4..16], [0, 0, 0, 1, 5, 6, 7, 8, 0, 0, 0, 4]);
        // ERR_VERS has the version of the refused message (RFC 8166, section 4.5).
        let version = Answer::Version { xid, version: 9 };
        assert_eq!(error(version, 3, &mut out), Some(28));
        assert_eq!(out[..8], [1, 2, 3, 4, 0, 0, 0, 9]);
        assert_eq!(out[8..19], words[8..]);
        assert_eq!(out[19..28], [1, 0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(error(Answer::Chunk { xid }, 3, &mut out[..19]), None);
        assert_eq!(error(version, 3, &mut out[..27]), None);
    }

    #[test]
    fn reverse_calls_have_28_bytes_and_no_chunks() {
        let mut out = [0xff; 32];
        assert_eq!(reverse(0x0102_0304, 16, &mut out), Some(REVERSE_LEN));
        assert_eq!(out[..12], [1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 16]);
        assert_eq!(out[12..28], [0; 16]);
        assert_eq!(out[28], 0xff);
        assert_eq!(reverse(1, 16, &mut out[..27]), None);
    }

    #[test]
    fn refused_replies_have_no_header() {
        let refused = ReplyPlan::default();
        assert_eq!(
            reply(&refused, &Header::EMPTY.view(&[]), 1, &mut [0; 64]),
            None
        );
    }
}

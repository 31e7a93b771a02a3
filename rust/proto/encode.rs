// SPDX-License-Identifier: GPL-2.0

//! Encoding of the transport headers that the server sends (RFC 8166, sections 4.2, 4.3 and 4.5).

use crate::chunk::WriteChunk;
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
use crate::wire::Writer;

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
    let mut writer = Writer::new(out);
    fixed(&mut writer, view.header().xid, VERSION, credits, proc)?;
    // A Reply has no Read list.
    writer.word(0)?;
    let mut index = 0u32;
    for write in view.writes() {
        chunk(&mut writer, &write, plan.written(index))?;
        index = index.saturating_add(1);
    }
    writer.word(0)?;
    match view.reply() {
        Some(reply) => chunk(&mut writer, &reply, plan.replied())?,
        None => writer.word(0)?,
    }
    Some(writer.len())
}

/// Writes an RDMA_ERROR into `out`. Returns its length in bytes: 28 for ERR_VERS, 20 for ERR_CHUNK.
/// Returns `None` if there is nothing to send or `out` is too small.
pub fn error(answer: Answer, credits: u32, out: &mut [u8]) -> Option<usize> {
    let mut writer = Writer::new(out);
    match answer {
        Answer::Drop => return None,
        Answer::Version { xid, version } => {
            fixed(&mut writer, xid, version, credits, procedure::ERROR)?;
            writer.word(report::VERS)?;
            writer.word(VERSION)?;
            writer.word(VERSION)?;
        }
        Answer::Chunk { xid } => {
            fixed(&mut writer, xid, VERSION, credits, procedure::ERROR)?;
            writer.word(report::CHUNK)?;
        }
    }
    Some(writer.len())
}

/// Writes the transport header of a reverse-direction Call into `out`: an RDMA_MSG without chunks
/// (RFC 8167, section 5.1). `credits` is the number of replies that the server can receive. Returns
/// its length, [`REVERSE_LEN`], or `None` if `out` is too small.
pub fn reverse(xid: u32, credits: u32, out: &mut [u8]) -> Option<usize> {
    let mut writer = Writer::new(out);
    fixed(&mut writer, xid, VERSION, credits, procedure::MSG)?;
    for _ in 0..3 {
        writer.word(0)?;
    }
    Some(writer.len())
}

/// Writes the four words that begin each message.
fn fixed(writer: &mut Writer<'_>, xid: u32, version: u32, credits: u32, proc: u32) -> Option<()> {
    writer.word(xid)?;
    writer.word(version)?;
    writer.word(credits)?;
    writer.word(proc)
}

/// Writes `chunk`, into whose segments `written` bytes were written.
fn chunk(writer: &mut Writer<'_>, chunk: &WriteChunk<'_>, written: u32) -> Option<()> {
    let mut left = written;
    writer.word(1)?;
    writer.word(chunk.len())?;
    for segment in chunk.segments() {
        let length = segment.length.min(left);
        left = left.saturating_sub(length);
        writer.word(segment.handle)?;
        writer.word(length)?;
        writer.word((segment.offset >> 32) as u32)?;
        writer.word(segment.offset as u32)?;
    }
    Some(())
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

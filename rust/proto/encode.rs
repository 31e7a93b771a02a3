// SPDX-License-Identifier: GPL-2.0

//! Transport headers of replies (RFC 8166, sections 4.2, 4.3 and 4.5).

use crate::chunk::Chunk;
use crate::error::Answer;
use crate::header::{
    procedure,
    Header,
    MIN_MESSAGE,
    VERSION, //
};
use crate::reply::{
    Form,
    ReplyPlan, //
};
use crate::report;
use crate::wire::Writer;

/// Writes the transport header of the reply `plan` to the Call `header` into `out`, granting
/// `credits`, and returns its length, which is [`ReplyPlan::header_len`].
///
/// The Call's Write list and Reply chunk come back with the number of bytes written to each segment
/// (RFC 8166, section 3.4.6). `None`: `out` is too small or the reply is refused.
pub fn reply(
    plan: &ReplyPlan,
    header: &Header,
    msg: &[u8],
    credits: u32,
    out: &mut [u8],
) -> Option<usize> {
    let proc = match plan.form {
        Form::Inline => procedure::MSG,
        Form::ReplyChunk => procedure::NOMSG,
        Form::Refused => return None,
    };
    let mut writer = Writer::new(out);
    fixed(&mut writer, header.xid, VERSION, credits, proc)?;
    // A reply has no Read list.
    writer.word(0)?;
    let mut index = 0u32;
    for write in header.writes.iter(msg) {
        chunk(&mut writer, &write, msg, plan.written(index))?;
        index = index.saturating_add(1);
    }
    writer.word(0)?;
    match header.reply {
        Some(reply) => chunk(&mut writer, &reply, msg, plan.replied())?,
        None => writer.word(0)?,
    }
    Some(writer.len())
}

/// Writes an error message into `out` and returns its length: 28 bytes for a version, 20 for a
/// chunk error. `None`: nothing is to be sent, or `out` is too small.
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

/// Bytes of the transport header of a reverse-direction Call.
pub const REVERSE_LEN: usize = MIN_MESSAGE;

/// Writes the transport header of a Call of the server's own into `out`, which takes `credits`
/// replies, and returns its length, [`REVERSE_LEN`] (RFC 8167, section 5.1): RDMA_MSG without
/// chunks. `None`: `out` is too small.
pub fn reverse(xid: u32, credits: u32, out: &mut [u8]) -> Option<usize> {
    let mut writer = Writer::new(out);
    fixed(&mut writer, xid, VERSION, credits, procedure::MSG)?;
    for _ in 0..3 {
        writer.word(0)?;
    }
    Some(writer.len())
}

/// Writes the four words each message starts with.
fn fixed(writer: &mut Writer<'_>, xid: u32, version: u32, credits: u32, proc: u32) -> Option<()> {
    writer.word(xid)?;
    writer.word(version)?;
    writer.word(credits)?;
    writer.word(proc)
}

/// Writes `chunk`, the first `written` bytes of which were filled.
fn chunk(writer: &mut Writer<'_>, chunk: &Chunk, msg: &[u8], written: u32) -> Option<()> {
    let mut left = written;
    writer.word(1)?;
    writer.word(chunk.segments())?;
    for segment in chunk.iter(msg) {
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
        // Its version is that of the refused message (RFC 8166, section 4.5).
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
        assert_eq!(reply(&refused, &Header::EMPTY, &[], 1, &mut [0; 64]), None);
    }
}

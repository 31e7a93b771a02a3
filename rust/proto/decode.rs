// SPDX-License-Identifier: GPL-2.0

//! Decoding of received messages (RFC 8166, section 4; RFC 8167, section 5).

use crate::chunk::{
    Chunk,
    WriteList,
    MAX_WRITE_CHUNKS, //
};
use crate::error::{
    DecodeError,
    Reason, //
};
use crate::header::{
    procedure,
    Header,
    Kind,
    View,
    MAX_MESSAGE,
    MIN_MESSAGE,
    VERSION, //
};
use crate::read_list::ReadList;
use crate::report;
use crate::rpc;
use crate::wire;
use crate::wire::Reader;

/// A reverse-direction reply (RFC 8167, section 5.2): an RDMA_MSG without chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reverse<'m> {
    /// XID.
    pub xid: u32,
    /// Reverse-direction Calls that the client accepts at a time.
    pub credits: u32,
    /// The RPC message.
    pub body: &'m [u8],
}

/// A well-formed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'m> {
    /// A Call of the client.
    Call(View<'m>),
    /// A reply to a reverse-direction Call.
    Reverse(Reverse<'m>),
    /// An RDMA_ERROR. A client sends it only about a reverse-direction Call.
    Error {
        /// XID. The credits of the message are not used: without an RPC message they belong to no
        /// direction (RFC 8167, section 4.1).
        xid: u32,
    },
    /// An RDMA_DONE, which is obsolete, or an RDMA_ERROR with an unknown error or version.
    Ignored,
}

/// The four words that begin each message of any version (RFC 8166, section 4.2).
#[derive(Clone, Copy)]
struct Fixed {
    xid: u32,
    version: u32,
    credits: u32,
    procedure: u32,
}

impl Fixed {
    /// Reads the four words.
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let [xid, version, credits, procedure] = reader.words()?;
        Some(Self {
            xid,
            version,
            credits,
            procedure,
        })
    }
}

/// Decodes a received message, including all its chunk lists. Stores the header of a Call in
/// `header`.
///
/// # Errors
///
/// Returns the reason for the refusal of the message; [`DecodeError::answer`] tells how to answer
/// it. The contents of `header` are unspecified then.
pub fn decode<'m>(message: &'m [u8], header: &'m mut Header) -> Result<Received<'m>, DecodeError> {
    if message.len() > MAX_MESSAGE {
        return Err(Reason::Long.dropped());
    }
    let mut reader = Reader::new(message);
    let fixed = Fixed::read(&mut reader).ok_or(Reason::Short.dropped())?;
    if fixed.procedure == procedure::ERROR {
        return error(&fixed, &mut reader).map_err(Reason::dropped);
    }
    if message.len() < MIN_MESSAGE {
        return Err(Reason::Short.dropped());
    }
    let xid = fixed.xid;
    if fixed.version != VERSION {
        return Err(Reason::Version(fixed.version).of(xid));
    }
    let kind = match fixed.procedure {
        procedure::MSG => Kind::Msg,
        procedure::NOMSG => Kind::Nomsg,
        procedure::DONE => return Ok(Received::Ignored),
        _ => return Err(Reason::Procedure.of(xid)),
    };
    header.xid = xid;
    header.credits = fixed.credits;
    header.kind = kind;
    let mut body = reader;
    match body.words() {
        // Most Calls without data have no chunks.
        Some([0, 0, 0]) => header.set_no_chunks(),
        _ => {
            body = reader;
            lists(header, &mut body).map_err(|reason| reason.of(xid))?;
            header.reads.note_order(message);
        }
    }
    match kind {
        Kind::Msg => inline(header, message, body.rest()),
        Kind::Nomsg => in_chunk(header.view(message)).map_err(|reason| reason.of(xid)),
    }
}

/// Reads the rest of an RDMA_ERROR. It is never answered, whatever its version is: two peers could
/// answer each other without end. An error about a message of the server has the server's version.
fn error(fixed: &Fixed, reader: &mut Reader<'_>) -> Result<Received<'static>, Reason> {
    let is_known = report::is_known(reader)?;
    Ok(if is_known && fixed.version == VERSION {
        Received::Error { xid: fixed.xid }
    } else {
        Received::Ignored
    })
}

/// Reads the chunk lists into `header`.
fn lists(header: &mut Header, reader: &mut Reader<'_>) -> Result<(), Reason> {
    header.reads = ReadList::parse(reader)?;
    header.writes = WriteList::parse(reader)?;
    header.reply = Chunk::parse_optional(reader)?;
    header.body = reader.at() as usize;
    Ok(())
}

/// Accepts an RDMA_NOMSG as a Call if it has a position-zero Read chunk.
fn in_chunk(view: View<'_>) -> Result<Received<'_>, Reason> {
    match view.read_len(0) {
        Some(_) => call(view),
        None => Err(Reason::NoBody),
    }
}

/// Accepts a Call if its positions are aligned and it does not have too many chunks.
fn call(view: View<'_>) -> Result<Received<'_>, Reason> {
    view.check_reads()?;
    if view.write_chunks() > MAX_WRITE_CHUNKS {
        return Err(Reason::TooManyWrites);
    }
    Ok(Received::Call(view))
}

/// Accepts an RDMA_MSG as a Call or as a reverse-direction reply. `body` is its RPC message.
fn inline<'m>(
    header: &'m mut Header,
    message: &'m [u8],
    body: &'m [u8],
) -> Result<Received<'m>, DecodeError> {
    if !header.reads.is_empty() {
        header.arguments = rpc::arguments(|at| wire::word(body, at));
    }
    let view = header.view(message);
    let Some([xid, direction]) = Reader::new(body).words() else {
        return Err(view.refuse(Reason::ShortBody));
    };
    let header = view.header();
    let has_two_bodies = || view.read_len(0).is_some();
    match direction {
        0 if xid != header.xid => Err(view.refuse(Reason::Xid)),
        0 if has_two_bodies() => Err(view.refuse(Reason::TwoBodies)),
        0 => call(view).map_err(|reason| view.refuse(reason)),
        1 if header.has_chunks() => Err(Reason::ReverseChunks.dropped()),
        1 => Ok(Received::Reverse(Reverse {
            xid: header.xid,
            credits: header.credits,
            body,
        })),
        _ => Err(view.refuse(Reason::Direction)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// Decodes a copy of `message` that is never freed.
    fn kept(message: &[u8]) -> Result<Received<'static>, DecodeError> {
        decode(message.to_vec().leak(), Box::leak(Box::default()))
    }

    fn decoded(words: &[u32]) -> Result<Received<'static>, DecodeError> {
        kept(&message(words))
    }

    fn call(words: &[u32]) -> Option<View<'static>> {
        match decoded(words) {
            Ok(Received::Call(view)) => Some(view),
            _ => None,
        }
    }

    #[test]
    fn fixed_words_decide_first() {
        let xid = 5;
        let with = |version, proc| decoded(&[xid, version, 1, proc, 0, 0, 0]);
        for version in [0, 2, u32::MAX] {
            assert_eq!(with(version, 0), Err(Reason::Version(version).of(xid)));
            assert_eq!(with(version, 3), Err(Reason::Version(version).of(xid)));
            // An RDMA_ERROR may have any version and is not answered.
            assert_eq!(with(version, 4), Ok(Received::Ignored));
        }
        // RDMA_MSGP and an unknown procedure.
        assert_eq!(with(1, 2), Err(Reason::Procedure.of(xid)));
        assert_eq!(with(1, 5), Err(Reason::Procedure.of(xid)));
        assert_eq!(with(1, 3), Ok(Received::Ignored));
    }

    #[test]
    fn errors_of_other_versions_are_ignored() {
        let error = Ok(Received::Error { xid: 5 });
        assert_eq!(decoded(&[5, 1, 1, 4, 2]), error);
        for version in [0, 2, 7] {
            assert_eq!(decoded(&[5, version, 1, 4, 2]), Ok(Received::Ignored));
            assert_eq!(decoded(&[5, version, 1, 4]), Err(Reason::Short.dropped()));
        }
    }

    #[test]
    fn messages_have_a_shortest() {
        for (words, shortest) in [
            ([5, 1, 1, 1, 0, 0, 0], MIN_MESSAGE),
            ([5, 2, 1, 0, 0, 0, 0], MIN_MESSAGE),
            ([5, 1, 1, 4, 2, 0, 0], 20),
            ([5, 1, 1, 4, 1, 1, 1], 28),
        ] {
            let msg = message(&words);
            assert_ne!(kept(&msg[..shortest]), Err(Reason::Short.dropped()));
            for len in 0..shortest {
                assert_eq!(kept(&msg[..len]), Err(Reason::Short.dropped()));
            }
        }
    }

    #[test]
    fn messages_have_a_longest() {
        let mut msg = message(&[5, 1, 1, 0, 0, 0, 0, 5, 0]);
        msg.resize(MAX_MESSAGE, 0);
        assert!(matches!(kept(&msg), Ok(Received::Call(_))));
        msg.push(0);
        assert_eq!(kept(&msg), Err(Reason::Long.dropped()));
    }

    #[test]
    fn the_direction_is_that_of_the_rpc_message() {
        let xid = 5;
        let reverse = Reverse {
            xid,
            credits: 3,
            body: &[0, 0, 0, 6, 0, 0, 0, 1],
        };
        // The XIDs of both layers are not compared here; the caller that waits for the reply does
        // so.
        let reply = [xid, 1, 3, 0, 0, 0, 0, 6, 1];
        assert_eq!(decoded(&reply), Ok(Received::Reverse(reverse)));
        let found = call(&[xid, 1, 3, 0, 0, 0, 0, xid, 0]).map(|view| {
            let header = view.header();
            let body = (header.kind, header.credits, header.body);
            (body, header.reply, view.invalidatable())
        });
        assert_eq!(found, Some(((Kind::Msg, 3, 28), None, None)));
        let other = decoded(&[xid, 1, 3, 0, 0, 0, 0, 6, 0]);
        assert_eq!(other, Err(Reason::Xid.of(xid)));
        let neither = decoded(&[xid, 1, 3, 0, 0, 0, 0, 6, 2]);
        assert_eq!(neither, Err(Reason::Direction.of(xid)));
        for body in [&[][..], &[6]] {
            let short = [&[xid, 1, 3, 0, 0, 0, 0][..], body].concat();
            assert_eq!(decoded(&short), Err(Reason::ShortBody.of(xid)));
        }
    }

    #[test]
    fn reverse_replies_have_no_chunks() {
        let drop = Err(Reason::ReverseChunks.dropped());
        for position in [0, 8, 9] {
            let reads = [5, 1, 3, 0, 1, position, 7, 7, 0, 0, 0, 0, 0, 6, 1];
            assert_eq!(decoded(&reads), drop);
        }
        assert_eq!(decoded(&[5, 1, 3, 0, 0, 1, 0, 0, 0, 6, 1]), drop);
        assert_eq!(decoded(&[5, 1, 3, 0, 0, 0, 1, 0, 6, 1]), drop);
    }

    #[test]
    fn there_is_one_body() {
        let xid = 5;
        let read = |proc, position| [xid, 1, 3, proc, 1, position, 7, 7, 0, 0, 0, 0, 0, xid, 0];
        let nomsg = decoded(&read(1, 0));
        assert!(matches!(nomsg, Ok(Received::Call(view)) if view.header().kind == Kind::Nomsg));
        assert!(matches!(decoded(&read(0, 8)), Ok(Received::Call(_))));
        assert_eq!(decoded(&read(0, 0)), Err(Reason::TwoBodies.of(xid)));
        assert_eq!(decoded(&read(1, 8)), Err(Reason::NoBody.of(xid)));
        let empty = decoded(&[xid, 1, 3, 1, 0, 0, 0]);
        assert_eq!(empty, Err(Reason::NoBody.of(xid)));
        for position in [1, 2, 3, 5, u32::MAX] {
            let odd = decoded(&read(0, position));
            assert_eq!(odd, Err(Reason::Misaligned.of(xid)));
        }
    }

    #[test]
    fn lists_are_well_formed() {
        let xid = 5;
        let good = [xid, 1, 3, 0, 0, 0, 0, xid, 0];
        for at in 4..7 {
            let mut bad = good;
            bad[at] = 2;
            assert_eq!(decoded(&bad), Err(Reason::Discriminator.of(xid)));
        }
        // Write chunks of no segments, and no Reply chunk.
        let writes = |count: usize, direction| {
            let list = [[1, 0].repeat(count), vec![0]].concat();
            decoded(&[&[xid, 1, 3, 0, 0][..], &list, &[0, xid, direction]].concat())
        };
        assert!(matches!(writes(16, 0), Ok(Received::Call(_))));
        assert_eq!(writes(17, 0), Err(Reason::TooManyWrites.of(xid)));
        assert_eq!(writes(17, 1), Err(Reason::ReverseChunks.dropped()));
        // A segment count that would wrap around when turned into bytes.
        for count in [0x1000_0000, 0x1000_0001, u32::MAX] {
            let wrap = decoded(&[xid, 1, 3, 0, 0, 0, 1, count, 6, 0]);
            assert_eq!(wrap, Err(Reason::Truncated.of(xid)));
            let wrap = decoded(&[xid, 1, 3, 0, 0, 1, count, 0, 0, 6, 0]);
            assert_eq!(wrap, Err(Reason::Truncated.of(xid)));
        }
    }
}

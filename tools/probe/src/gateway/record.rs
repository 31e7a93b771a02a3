// SPDX-License-Identifier: GPL-2.0

//! Record marking: the fragments of RPC messages on a TCP connection (RFC 5531, section 11).

use std::{fmt, mem};

/// The bit of a fragment header that marks the last fragment of a record.
const LAST: u32 = 1 << 31;

/// The bytes of a fragment header.
const HEADER: usize = 4;

/// The shortest RPC message: the XID and the direction.
const SHORTEST: usize = 8;

/// The direction of an RPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Call,
    Reply,
}

/// A record, which is an RPC message as far as its first two words show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) xid: u32,
    pub(super) direction: Direction,
    /// The whole message.
    pub(super) message: Vec<u8>,
}

/// The reason for which a record is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It is longer than this.
    TooLong(usize),
    /// It has no XID or no direction.
    TooShort(usize),
    /// Its length is no multiple of four.
    Unaligned(usize),
    /// It is neither a Call nor a Reply.
    Direction(u32),
    /// The stream has ended within it.
    Truncated,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bad record: ")?;
        match self {
            Self::TooLong(most) => write!(f, "longer than {most} bytes"),
            Self::TooShort(len) => write!(f, "only {len} bytes"),
            Self::Unaligned(len) => write!(f, "{len} bytes, which are no multiple of 4"),
            Self::Direction(word) => write!(f, "neither a Call nor a Reply but {word:#x}"),
            Self::Truncated => write!(f, "the stream has ended within it"),
        }
    }
}

impl Record {
    /// Takes `message` for a record.
    fn parse(message: Vec<u8>) -> Result<Self, Bad> {
        let len = message.len();
        let Some((head, _)) = message.split_first_chunk::<SHORTEST>() else {
            return Err(Bad::TooShort(len));
        };
        if len % 4 != 0 {
            return Err(Bad::Unaligned(len));
        }
        let [a, b, c, d, e, f, g, h] = *head;
        let direction = match u32::from_be_bytes([e, f, g, h]) {
            0 => Direction::Call,
            1 => Direction::Reply,
            other => return Err(Bad::Direction(other)),
        };
        Ok(Self {
            xid: u32::from_be_bytes([a, b, c, d]),
            direction,
            message,
        })
    }
}

/// A reader that assembles records of bytes as they arrive.
#[derive(Debug)]
pub(super) struct Reader {
    /// The most bytes of a record.
    most: usize,
    /// The bytes of a fragment header that have arrived.
    header: Vec<u8>,
    /// The bytes that the current fragment still lacks; `None` between fragments.
    left: Option<usize>,
    is_last: bool,
    /// The record as far as it has arrived.
    message: Vec<u8>,
}

impl Reader {
    /// Creates a reader of records of at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            header: Vec::new(),
            left: None,
            is_last: false,
            message: Vec::new(),
        }
    }

    /// Takes bytes from the front of `bytes` until a record is complete or no bytes are left.
    /// Returns the record.
    ///
    /// # Errors
    ///
    /// Returns the reason if the record is bad. No further record can be read then.
    pub(super) fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<Record>, Bad> {
        loop {
            match self.left {
                None if bytes.is_empty() => return Ok(None),
                None => self.take_header(bytes)?,
                Some(0) => {
                    self.left = None;
                    if mem::take(&mut self.is_last) {
                        return Record::parse(mem::take(&mut self.message)).map(Some);
                    }
                }
                Some(_) if bytes.is_empty() => return Ok(None),
                Some(left) => {
                    let part = split(bytes, left);
                    self.message.extend_from_slice(part);
                    self.left = Some(left - part.len());
                }
            }
        }
    }

    /// Takes bytes of a fragment header.
    fn take_header(&mut self, bytes: &mut &[u8]) -> Result<(), Bad> {
        let part = split(bytes, HEADER - self.header.len());
        self.header.extend_from_slice(part);
        let Ok(header) = <[u8; HEADER]>::try_from(self.header.as_slice()) else {
            return Ok(());
        };
        self.header.clear();
        let header = u32::from_be_bytes(header);
        let len = (header & !LAST) as usize;
        // The sum cannot overflow: the message has at most `most` bytes, the fragment 31 bits.
        if self.message.len() + len > self.most {
            return Err(Bad::TooLong(self.most));
        }
        self.is_last = header & LAST != 0;
        self.left = Some(len);
        Ok(())
    }

    /// Checks that the stream may end here.
    pub(super) fn end(&self) -> Result<(), Bad> {
        let is_between = self.left.is_none() && self.header.is_empty() && self.message.is_empty();
        is_between.then_some(()).ok_or(Bad::Truncated)
    }
}

/// Takes up to `len` bytes from the front of `bytes`.
fn split<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (part, rest) = bytes.split_at(len.min(bytes.len()));
    *bytes = rest;
    part
}

/// Returns `message` as a record of one fragment; `None` if it is too long for one.
pub(super) fn encode(message: &[u8]) -> Option<Vec<u8>> {
    let len = u32::try_from(message.len()).ok();
    let len = len.filter(|len| len & LAST == 0)?;
    let mut record = (len | LAST).to_be_bytes().to_vec();
    record.extend_from_slice(message);
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an RPC message of `len` bytes, all of which differ from their neighbours.
    fn message(xid: u32, direction: u32, len: usize) -> Vec<u8> {
        let mut message = [xid.to_be_bytes(), direction.to_be_bytes()].concat();
        message.extend((SHORTEST..len).map(|nth| nth as u8));
        message
    }

    /// Returns a fragment.
    fn fragment(bytes: &[u8], last: u32) -> Vec<u8> {
        let mut fragment = (bytes.len() as u32 | last).to_be_bytes().to_vec();
        fragment.extend_from_slice(bytes);
        fragment
    }

    /// Reads a stream that arrives in pieces of `piece` bytes.
    fn read(most: usize, stream: &[u8], piece: usize) -> Result<Vec<Record>, Bad> {
        let mut reader = Reader::new(most);
        let mut records = Vec::new();
        for mut bytes in stream.chunks(piece) {
            while let Some(record) = reader.take(&mut bytes)? {
                records.push(record);
            }
            assert!(bytes.is_empty());
        }
        reader.end().map(|()| records)
    }

    #[test]
    fn records_are_found_wherever_the_stream_is_cut() {
        let (call, reply) = (message(7, 0, 40), message(8, 1, 8));
        let mut stream = encode(&call).unwrap();
        // Three fragments, one of them empty.
        stream.extend(fragment(&reply[..5], 0));
        stream.extend(fragment(&[], 0));
        stream.extend(fragment(&reply[5..], LAST));
        let expected = [
            Record {
                xid: 7,
                direction: Direction::Call,
                message: call,
            },
            Record {
                xid: 8,
                direction: Direction::Reply,
                message: reply,
            },
        ];
        for piece in 1..=stream.len() {
            assert_eq!(read(40, &stream, piece).unwrap(), expected, "{piece}");
        }
    }

    #[test]
    fn the_last_fragment_may_be_empty() {
        let call = message(7, 0, 12);
        let stream = [fragment(&call, 0), fragment(&[], LAST)].concat();
        assert_eq!(read(12, &stream, 3).unwrap()[0].message, call);
    }

    #[test]
    fn bad_records_are_told() {
        let of = |message: &[u8]| read(64, &fragment(message, LAST), 16).unwrap_err();
        assert_eq!(of(&[]), Bad::TooShort(0));
        assert_eq!(of(&message(7, 0, 8)[..7]), Bad::TooShort(7));
        assert_eq!(of(&message(7, 0, 41)), Bad::Unaligned(41));
        assert_eq!(of(&message(7, 2, 8)), Bad::Direction(2));
        assert_eq!(of(&message(7, 0, 68)), Bad::TooLong(64));
    }

    #[test]
    fn a_long_record_is_refused_by_the_header_that_makes_it_long() {
        let mut stream = fragment(&message(7, 0, 40), 0);
        assert_eq!(read(64, &stream, 64).unwrap_err(), Bad::Truncated);
        stream.extend((28u32 | LAST).to_be_bytes());
        assert_eq!(read(64, &stream, 64).unwrap_err(), Bad::TooLong(64));
        let longest = (u32::MAX).to_be_bytes();
        assert_eq!(read(64, &longest, 64).unwrap_err(), Bad::TooLong(64));
    }

    #[test]
    fn a_stream_ends_between_records_only() {
        let stream = encode(&message(7, 0, 12)).unwrap();
        for len in 1..stream.len() {
            assert_eq!(read(64, &stream[..len], 64), Err(Bad::Truncated), "{len}");
        }
        assert!(read(64, &stream, 64).is_ok());
        assert_eq!(read(64, &[], 64), Ok(Vec::new()));
    }

    #[test]
    fn a_record_is_one_fragment() {
        assert_eq!(encode(&[1, 2]), Some(vec![0x80, 0, 0, 2, 1, 2]));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The bulk protocol: moves bytes between a client's memory and regions of the server.
//!
//! The server has a few regions for each connection, numbered from 0, all of the same size. A region
//! is zero until something is written to it. The client sends requests; the server answers each of
//! them once, in any order. An answer has the tag of its request.
//!
//! | request | the server | payload of the request | payload of the answer |
//! |---|---|---|---|
//! | echo | sends the payload back | any bytes | the same bytes |
//! | pull | reads the client's memory into the region, by RDMA Read | descriptors | |
//! | push | writes the region to the client's memory, by RDMA Write | descriptors | |
//! | offer | exposes the region to the client | | descriptors |
//! | withdraw | ends an offer | | |
//!
//! The bytes that move are the first `length` of the region. They fill the memory of the descriptors
//! in their order, which together have at least as many bytes. A request that is refused moves
//! nothing, and its answer has a status other than [`Status::Ok`] and no payload.
//!
//! Requests and answers begin with the same header. Integers are little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0 to 3 | `BULK` |
//! | 4, 5 | operation: 1 echo, 2 pull, 3 push, 4 offer, 5 withdraw; an answer adds 0x8000 |
//! | 6, 7 | status: 0 in a request |
//! | 8 to 15 | tag |
//! | 16 to 19 | region: 0 for echo |
//! | 20 to 23 | length in bytes: pull, push, offer; 0 otherwise |
//! | 24, 25 | access that an offer allows: 1 to read, 2 to write, 3 both; 0 otherwise |
//! | 26, 27 | number of descriptors in the payload |
//! | 28 to 31 | 0 |
//! | from 32 on | payload |

use crate::{
    descriptor::Descriptor,
    wire::{
        put,
        Reader, //
    },
};

/// The first word, which reads `BULK`.
const MAGIC: u32 = u32::from_le_bytes(*b"BULK");

/// The bit of an operation that marks an answer.
const ANSWER: u16 = 0x8000;

/// The most descriptors of a request.
pub const MAX_DESCRIPTORS: usize = 16;

/// An offered region may be read.
pub const READ: u16 = 1;

/// An offered region may be written to.
pub const WRITE: u16 = 2;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends the payload back.
    Echo,
    /// Reads the client's memory into a region.
    Pull,
    /// Writes a region to the client's memory.
    Push,
    /// Exposes a region to the client.
    Offer,
    /// Ends an offer.
    Withdraw,
}

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok,
    /// The server does not know the operation.
    Unknown,
    /// The server has no such region.
    NoRegion,
    /// The length exceeds the region or the descriptors, or there are too many descriptors.
    TooLong,
    /// The region is used by a request that is not answered yet, or it is offered. Withdraw: it is not
    /// offered.
    Busy,
    /// The server cannot do this now, or on this device.
    Unable,
}

impl Status {
    /// All statuses. The code of each is its index.
    const ALL: [Self; 6] = [
        Self::Ok,
        Self::Unknown,
        Self::NoRegion,
        Self::TooLong,
        Self::Busy,
        Self::Unable,
    ];

    /// Returns the code of the status.
    pub fn code(self) -> u16 {
        match self {
            Self::Ok => 0,
            Self::Unknown => 1,
            Self::NoRegion => 2,
            Self::TooLong => 3,
            Self::Busy => 4,
            Self::Unable => 5,
        }
    }

    /// Returns the status with this code, or `None` if there is none.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl Operation {
    /// Returns the code of the operation.
    pub fn code(self) -> u16 {
        match self {
            Self::Echo => 1,
            Self::Pull => 2,
            Self::Push => 3,
            Self::Offer => 4,
            Self::Withdraw => 5,
        }
    }

    /// Returns the operation with this code, or `None` if there is none.
    pub fn from_code(code: u16) -> Option<Self> {
        [
            Self::Echo,
            Self::Pull,
            Self::Push,
            Self::Offer,
            Self::Withdraw,
        ]
        .into_iter()
        .find(|operation| operation.code() == code)
    }
}

/// The header of a request or an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The code of the operation, with the mark of an answer.
    code: u16,
    /// The code of the status.
    status: u16,
    /// Identifies the request.
    pub tag: u64,
    /// The region.
    pub region: u32,
    /// The bytes that move.
    pub length: u32,
    /// The access that an offer gives to the client.
    pub access: u16,
    /// Descriptors in the payload.
    pub count: u16,
}

impl Head {
    /// Bytes of the header.
    pub const LEN: usize = 32;

    /// Returns the header of a request.
    pub fn request(operation: Operation, tag: u64) -> Self {
        Self {
            code: operation.code(),
            tag,
            ..Self::default()
        }
    }

    /// Returns the header of the answer to a request with this header. It has no descriptors.
    pub fn answer(&self, status: Status) -> Self {
        Self {
            code: self.code | ANSWER,
            status: status.code(),
            count: 0,
            ..*self
        }
    }

    /// Returns the operation of a request or an answer, or `None` if it is unknown.
    pub fn operation(&self) -> Option<Operation> {
        Operation::from_code(self.code & !ANSWER)
    }

    /// Returns true if this is an answer.
    pub fn is_answer(&self) -> bool {
        self.code & ANSWER != 0
    }

    /// Returns the status of an answer, or `None` if it is unknown.
    pub fn status(&self) -> Option<Status> {
        Status::from_code(self.status)
    }

    /// Decodes a message. Returns the header and the payload, or `None` if the message is too short or
    /// belongs to another protocol.
    pub fn decode(message: &[u8]) -> Option<(Self, &[u8])> {
        let mut reader = Reader(message);
        if reader.u32()? != MAGIC {
            return None;
        }
        let (code, status) = (reader.u16()?, reader.u16()?);
        let (tag, region, length) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let (access, count) = (reader.u16()?, reader.u16()?);
        reader.u32()?; // Reserved.
        let head = Self {
            code,
            status,
            tag,
            region,
            length,
            access,
            count,
        };
        Some((head, reader.0))
    }

    /// Writes the header to the beginning of `out`. Returns its length, behind which the payload
    /// follows, or `None` if `out` is too short.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        put(
            out,
            &[
                &MAGIC.to_le_bytes(),
                &self.code.to_le_bytes(),
                &self.status.to_le_bytes(),
                &self.tag.to_le_bytes(),
                &self.region.to_le_bytes(),
                &self.length.to_le_bytes(),
                &self.access.to_le_bytes(),
                &self.count.to_le_bytes(),
                &[0; 4],
            ],
        )
    }
}

/// The memory of a client that a request moves, at most [`MAX_DESCRIPTORS`] segments.
///
/// # Invariants
///
/// The segments have `left` bytes together, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    list: [Option<Descriptor>; MAX_DESCRIPTORS],
    /// The segment that is next, and the bytes of it that are done.
    next: usize,
    done: u32,
    /// Bytes that were moved.
    at: u32,
    left: u32,
}

/// A piece of a segment: bytes of the region, and where they are in the client's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first byte in the region.
    pub at: u32,
    /// The bytes.
    pub len: u32,
    /// The remote key.
    pub token: u32,
    /// The address in the client's memory.
    pub offset: u64,
}

impl Segments {
    /// Decodes the payload of a pull or a push.
    ///
    /// # Errors
    ///
    /// [`Status::TooLong`] if the descriptors are too many, are not all there, or have fewer bytes than
    /// the request moves.
    pub fn decode(head: &Head, payload: &[u8]) -> Result<Self, Status> {
        let count = usize::from(head.count);
        if count > MAX_DESCRIPTORS {
            return Err(Status::TooLong);
        }
        let mut list = [None; MAX_DESCRIPTORS];
        let (mut rest, mut room) = (payload, 0u64);
        for place in list.iter_mut().take(count) {
            let descriptor = Descriptor::decode(rest).ok_or(Status::TooLong)?;
            rest = rest.get(Descriptor::LEN..).unwrap_or_default();
            room = room.saturating_add(u64::from(descriptor.length));
            *place = Some(descriptor);
        }
        if room < u64::from(head.length) {
            return Err(Status::TooLong);
        }
        // INVARIANT: The segments have `room` bytes.
        let mut this = Self {
            list,
            next: 0,
            done: 0,
            at: 0,
            left: head.length,
        };
        this.skip();
        Ok(this)
    }

    /// Returns the next piece that moves, or `None` if all bytes have moved. A piece has at least one
    /// byte.
    pub fn peek(&self) -> Option<Piece> {
        let segment = (*self.list.get(self.next)?)?;
        let len = segment.length.saturating_sub(self.done).min(self.left);
        (len > 0).then_some(Piece {
            at: self.at,
            len,
            token: segment.token,
            // A segment that wraps around is the client's own fault; its device refuses it.
            offset: segment.offset.wrapping_add(u64::from(self.done)),
        })
    }

    /// Notes that `len` bytes of the next piece are moved, at most its length.
    pub fn advance(&mut self, len: u32) {
        self.done = self.done.saturating_add(len);
        self.at = self.at.saturating_add(len);
        self.left = self.left.saturating_sub(len);
        self.skip();
    }

    /// Skips segments of which nothing is left.
    fn skip(&mut self) {
        while let Some(Some(segment)) = self.list.get(self.next) {
            if self.done < segment.length {
                return;
            }
            self.done = 0;
            self.next = self.next.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_laid_out_as_documented() {
        let head = Head {
            region: 0x0102_0304,
            length: 0x1112_1314,
            access: READ | WRITE,
            count: 5,
            ..Head::request(Operation::Offer, 0x2122_2324_2526_2728)
        };
        let mut out = [0xaa; 33];
        assert_eq!(head.encode(&mut out), Some(Head::LEN));
        let expected = [
            b'B', b'U', b'L', b'K', 4, 0, 0, 0, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 4,
            3, 2, 1, 0x14, 0x13, 0x12, 0x11, 3, 0, 5, 0, 0, 0, 0, 0,
        ];
        assert_eq!(out[..32], expected);
        assert_eq!(Head::decode(&out), Some((head, &[0xaa][..])));
        assert_eq!(Head::decode(&out[..31]), None);
        assert_eq!(Head::decode(&out[1..]), None);
    }

    #[test]
    fn an_answer_names_its_request() {
        for operation in (0..9).filter_map(Operation::from_code) {
            for status in (0..9).filter_map(Status::from_code) {
                let head = Head::request(operation, 7);
                let answer = head.answer(status);
                assert_eq!((head.is_answer(), answer.is_answer()), (false, true));
                assert_eq!(answer.operation(), Some(operation));
                assert_eq!((answer.status(), answer.tag), (Some(status), 7));
            }
        }
        assert_eq!((0..9).filter_map(Operation::from_code).count(), 5);
        assert_eq!((0..9).filter_map(Status::from_code).count(), 6);
    }

    fn segments(length: u32, lengths: &[u32]) -> Result<Segments, Status> {
        let mut payload = Vec::new();
        for (at, length) in lengths.iter().enumerate() {
            let descriptor = Descriptor {
                offset: 1000 * at as u64,
                token: at as u32,
                length: *length,
            };
            let mut out = [0; 16];
            descriptor.encode(&mut out).expect("room");
            payload.extend(out);
        }
        let head = Head {
            length,
            count: lengths.len() as u16,
            ..Head::request(Operation::Pull, 1)
        };
        Segments::decode(&head, &payload)
    }

    #[test]
    fn pieces_fill_the_segments_in_order() {
        let mut segments = segments(24, &[0, 10, 0, 0, 20]).expect("room");
        let mut pieces = Vec::new();
        while let Some(piece) = segments.peek() {
            let len = piece.len.min(7);
            pieces.push((piece.at, len, piece.token, piece.offset));
            segments.advance(len);
        }
        let expected = [
            (0, 7, 1, 1000),
            (7, 3, 1, 1007),
            (10, 7, 4, 4000),
            (17, 7, 4, 4007),
        ];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn too_few_bytes_are_refused() {
        assert_eq!(segments(31, &[10, 20]), Err(Status::TooLong));
        assert_eq!(segments(1, &[]), Err(Status::TooLong));
        assert_eq!(segments(1, &[1; 17]), Err(Status::TooLong));
        assert!(segments(16, &[1; 16]).is_ok());
        assert!(segments(u32::MAX, &[u32::MAX, u32::MAX]).is_ok());
        assert_eq!(segments(0, &[]).expect("nothing").peek(), None);
        let head = Head {
            count: 1,
            ..Head::request(Operation::Push, 1)
        };
        assert_eq!(Segments::decode(&head, &[0; 15]), Err(Status::TooLong));
    }
}

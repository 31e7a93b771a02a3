// SPDX-License-Identifier: GPL-2.0

//! A fuzz case: one message, generated from a seed and a number.
//!
//! A case starts as a Call with chunks of all shapes in registered memory, so that the server
//! processes it. Then some of its words are changed.

use super::random::Random;
use crate::{
    compound::{self, Compound},
    message::{procedure, Message},
    rpc,
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

/// The longest message, in bytes.
pub(super) const LONGEST: usize = 4096;

/// Numbers at the limits of types and formats.
const EDGES: [u32; 12] = [
    0,
    1,
    2,
    3,
    4,
    0x7f,
    0x400,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffc,
    u32::MAX,
];

/// The memory that chunks refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) handle: u32,
    pub(super) address: u64,
    pub(super) len: u32,
}

/// A generator of cases.
pub(super) struct Maker<'a> {
    pub(super) seed: u64,
    pub(super) area: Area,
    /// The path of a file, or an empty string.
    pub(super) file: &'a str,
}

impl Maker<'_> {
    /// Generates case number `index`. Its XID is `xid` unless that word is changed, too.
    pub(super) fn make(&self, index: u64, xid: u32) -> Vec<u8> {
        let mut random = Random::new(self.seed, index);
        let mut bytes = self.message(&mut random, xid).encode();
        bytes.truncate(LONGEST);
        // About a third of the cases stay well-formed.
        for _ in 0..random
            .below(4)
            .saturating_sub(usize::from(random.once_in(3)))
        {
            change(&mut random, &mut bytes);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    /// Generates a Call with chunks.
    fn message(&self, random: &mut Random, xid: u32) -> Message {
        let (body, pieces) = self.call(random, xid);
        let mut message = Message::inline(xid, body);
        message.credits = random.one_of(&[0, 1, 32, 128, u32::MAX]);
        if random.once_in(16) {
            message.procedure = random.word() % 6;
        }
        for (position, len) in pieces {
            let segments = if random.once_in(4) {
                self.segments(random)
            } else {
                self.whole(random, len)
            };
            add_reads(&mut message, position, segments);
        }
        if random.once_in(8) {
            let position = random.word() % 300;
            add_reads(&mut message, position, self.segments(random));
        }
        if random.once_in(16) {
            // The Call is in a position-zero Read chunk, whose memory is all zeroes.
            message.procedure = procedure::NOMSG;
            add_reads(&mut message, 0, self.segments(random));
        }
        if random.once_in(4) {
            let first = random.below(message.reads.len());
            message.reads.rotate_left(first);
        }
        for _ in 0..random.below(4) {
            message.writes.push(self.segments(random));
        }
        if random.once_in(3) {
            message.reply = Some(self.segments(random));
        }
        message
    }

    /// Generates an RPC Call. Returns it with the positions and lengths of its Read chunks.
    fn call(&self, random: &mut Random, xid: u32) -> (Vec<u8>, Vec<(u32, u32)>) {
        let lens = [random.below(70_000) as u32, random.below(2000) as u32];
        match random.below(6) {
            0 => (rpc::null(3, xid), Vec::new()),
            1 => (compound::getattr(xid), Vec::new()),
            2 => {
                let call = rpc::write(xid, lens[0]);
                (call.inline, vec![(call.position, lens[0])])
            }
            3 => {
                let call = Compound::at(xid, self.file).write(1 << 20, lens[0]);
                let call = call.write(2 << 20, lens[1]).finish();
                (call.inline, call.positions.into_iter().zip(lens).collect())
            }
            _ => {
                let call = Compound::at(xid, self.file).read(0, lens[0]);
                (call.read(4096, lens[1]).finish().inline, Vec::new())
            }
        }
    }

    /// Generates two segments of `len` bytes in total.
    fn whole(&self, random: &mut Random, len: u32) -> Vec<Segment> {
        let first = random.below(len as usize + 1);
        [first, len as usize - first]
            .map(|len| self.segment_of(random, len))
            .to_vec()
    }

    /// Generates up to six segments, some of them empty.
    fn segments(&self, random: &mut Random) -> Vec<Segment> {
        (0..random.below(7)).map(|_| self.segment(random)).collect()
    }

    /// Generates a segment of a random length.
    fn segment(&self, random: &mut Random) -> Segment {
        let len = match random.below(4) {
            0 => random.below(8),
            1 => random.below(5000),
            2 => random.below(self.area.len as usize / 8),
            _ => 0,
        };
        self.segment_of(random, len)
    }

    /// Generates a segment of `len` bytes in the memory; once in 2000 times with a wrong handle.
    fn segment_of(&self, random: &mut Random, len: usize) -> Segment {
        let offset = random.below(self.area.len as usize - len + 1);
        let wrong = u32::from(random.once_in(2000));
        Segment {
            handle: self.area.handle ^ wrong,
            length: len as u32,
            offset: self.area.address + offset as u64,
        }
    }
}

/// Adds `segments` as a Read chunk at `position`.
fn add_reads(message: &mut Message, position: u32, segments: Vec<Segment>) {
    let reads = segments.into_iter();
    let reads = reads.map(|segment| ReadSegment { position, segment });
    message.reads.extend(reads);
}

/// Changes, inserts or removes something in `bytes`.
fn change(random: &mut Random, bytes: &mut Vec<u8>) {
    let words = bytes.len() / 4;
    // The header is at the beginning, so change that more often.
    let at = 4 * if random.once_in(3) {
        random.below(words)
    } else {
        random.below(words.min(32))
    };
    match random.below(8) {
        0 => bytes.truncate(random.below(bytes.len() + 1)),
        1 => {
            let word = random.word().to_be_bytes();
            bytes.splice(at..at, word);
        }
        2 if words > 0 => {
            bytes.drain(at..at + 4);
        }
        3 if words > 0 => bytes[at + random.below(4)] ^= 1 << random.below(8),
        _ if words > 0 => {
            let word = random.one_of(&EDGES).to_be_bytes();
            bytes[at..at + 4].copy_from_slice(&word);
        }
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use svcrdma_proto::decode::{decode, Received};
    use svcrdma_proto::header::Header;

    const AREA: Area = Area {
        handle: 0x1234,
        address: 0x10_0000,
        len: 1 << 20,
    };

    fn maker(seed: u64) -> Maker<'static> {
        Maker {
            seed,
            area: AREA,
            file: "file",
        }
    }

    #[test]
    fn cases_depend_on_seed_and_number_only() {
        assert_eq!(maker(1).make(5, 7), maker(1).make(5, 7));
        assert_ne!(maker(1).make(5, 7), maker(1).make(6, 7));
        assert_ne!(maker(1).make(5, 7), maker(2).make(5, 7));
    }

    #[test]
    fn cases_are_of_all_kinds() {
        let (mut calls, mut errors, mut short) = (0, 0, 0);
        for index in 0..5000 {
            let bytes = maker(3).make(index, 7);
            assert!(bytes.len() <= LONGEST);
            let mut header = Header::EMPTY;
            match decode(&bytes, &mut header) {
                Ok(Received::Call(_)) => calls += 1,
                Ok(_) => (),
                Err(_) if bytes.len() < 28 => short += 1,
                Err(_) => errors += 1,
            }
        }
        // Well-formed and malformed messages must both be frequent.
        assert!(
            calls > 1500 && errors > 500 && short > 20,
            "{calls} {errors} {short}"
        );
    }
}

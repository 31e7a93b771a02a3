// SPDX-License-Identifier: GPL-2.0

//! A case: one message, made from a seed and a number.
//!
//! It begins as a Call with chunks of all shapes in memory that is there, so that the server gets
//! far with it, and then some words of it change.

use super::random::Random;
use crate::{
    compound::Compound,
    message::{procedure, Message},
    rpc,
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

/// The longest message, in bytes.
pub(super) const LONGEST: usize = 4096;

/// Numbers that programs get wrong.
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

/// Memory that chunks may lie in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) handle: u32,
    pub(super) address: u64,
    pub(super) len: u32,
}

/// What cases are made from.
pub(super) struct Maker<'a> {
    pub(super) seed: u64,
    pub(super) area: Area,
    /// The path of a file, or nothing.
    pub(super) file: &'a str,
}

impl Maker<'_> {
    /// Makes case number `index`, whose XID is `xid` unless that changes too.
    pub(super) fn make(&self, index: u64, xid: u32) -> Vec<u8> {
        let mut random = Random::new(self.seed, index);
        let mut bytes = self.message(&mut random, xid).encode();
        bytes.truncate(LONGEST);
        // A third stays well-formed.
        for _ in 0..random
            .below(4)
            .saturating_sub(usize::from(random.once_in(3)))
        {
            change(&mut random, &mut bytes);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    /// A Call with chunks.
    fn message(&self, random: &mut Random, xid: u32) -> Message {
        let (body, pieces) = self.call(random, xid);
        let mut message = Message::inline(xid, body);
        message.credits = random.one_of(&[0, 1, 32, 128, u32::MAX]);
        if random.once_in(16) {
            message.procedure = random.word() % 6;
        }
        for (position, len) in pieces {
            let segments = match random.once_in(4) {
                true => self.segments(random),
                false => self.whole(random, len),
            };
            add_reads(&mut message, position, segments);
        }
        if random.once_in(8) {
            let position = random.word() % 300;
            add_reads(&mut message, position, self.segments(random));
        }
        if random.once_in(16) {
            // The whole Call in memory, where there are zeroes.
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

    /// An RPC Call, and the positions and lengths of what goes by Read chunks.
    fn call(&self, random: &mut Random, xid: u32) -> (Vec<u8>, Vec<(u32, u32)>) {
        let lens = [random.below(70_000) as u32, random.below(2000) as u32];
        match random.below(6) {
            0 => (rpc::null(xid), Vec::new()),
            1 => (rpc::getattr(xid), Vec::new()),
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

    /// Segments of `len` bytes together.
    fn whole(&self, random: &mut Random, len: u32) -> Vec<Segment> {
        let first = random.below(len as usize + 1);
        [first, len as usize - first]
            .map(|len| self.segment_of(random, len))
            .to_vec()
    }

    /// Up to six segments, empty ones among them.
    fn segments(&self, random: &mut Random) -> Vec<Segment> {
        (0..random.below(7)).map(|_| self.segment(random)).collect()
    }

    /// A segment of any length.
    fn segment(&self, random: &mut Random) -> Segment {
        let len = match random.below(4) {
            0 => random.below(8),
            1 => random.below(5000),
            2 => random.below(self.area.len as usize / 8),
            _ => 0,
        };
        self.segment_of(random, len)
    }

    /// A segment of memory that is there; now and then of some that is not.
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

/// Adds a Read chunk.
fn add_reads(message: &mut Message, position: u32, segments: Vec<Segment>) {
    let reads = segments.into_iter();
    let reads = reads.map(|segment| ReadSegment { position, segment });
    message.reads.extend(reads);
}

/// Changes something in `bytes`.
fn change(random: &mut Random, bytes: &mut Vec<u8>) {
    let words = bytes.len() / 4;
    // What comes first matters most.
    let at = 4 * match random.once_in(3) {
        true => random.below(words),
        false => random.below(words.min(32)),
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
    use svcrdma_proto::header::{decode, Received};

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
            match decode(&bytes) {
                Ok(Received::Call(_)) => calls += 1,
                Ok(_) => (),
                Err(_) if bytes.len() < 28 => short += 1,
                Err(_) => errors += 1,
            }
        }
        // Neither gets lost: a fuzzer whose messages are all refused at once tests little.
        assert!(
            calls > 1500 && errors > 500 && short > 20,
            "{calls} {errors} {short}"
        );
    }
}

// SPDX-License-Identifier: GPL-2.0

//! A model of a client, which builds messages word by word, owns memory and executes RDMA
//! operations.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod cm;
pub(crate) mod credits;
pub(crate) mod header;
pub(crate) mod layout;
pub(crate) mod pick;
pub(crate) mod reply;
pub(crate) mod sq;

use std::collections::HashMap;

pub(crate) use pick::pick;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use svcrdma_proto::chunk::Segment;

/// The result of checking a case.
pub(crate) type Verdict = Result<(), TestCaseError>;

/// A segment of the client's memory: handle, length and offset.
pub(crate) type Seg = (u32, u32, u64);

/// The contents of a Call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) xid: u32,
    pub(crate) credits: u32,
    pub(crate) nomsg: bool,
    pub(crate) reads: Vec<(u32, Seg)>,
    pub(crate) writes: Vec<Vec<Seg>>,
    pub(crate) reply: Option<Vec<Seg>>,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn put(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend(word.to_be_bytes());
    }
}

fn put_segment(out: &mut Vec<u8>, &(handle, length, offset): &Seg) {
    put(out, &[handle, length, (offset >> 32) as u32, offset as u32]);
}

fn put_chunk(out: &mut Vec<u8>, chunk: &[Seg]) {
    put(out, &[1, chunk.len() as u32]);
    for segment in chunk {
        put_segment(out, segment);
    }
}

impl Spec {
    /// Returns the encoded message and the offset of its body.
    pub(crate) fn encode(&self) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        put(&mut out, &[self.xid, 1, self.credits, self.nomsg.into()]);
        for (position, segment) in &self.reads {
            put(&mut out, &[1, *position]);
            put_segment(&mut out, segment);
        }
        put(&mut out, &[0]);
        for chunk in &self.writes {
            put_chunk(&mut out, chunk);
        }
        put(&mut out, &[0]);
        match &self.reply {
            Some(chunk) => put_chunk(&mut out, chunk),
            None => put(&mut out, &[0]),
        }
        let body = out.len();
        out.extend(&self.body);
        (out, body)
    }
}

/// Returns the body of the Call `xid`, of at least 8 bytes. From 40 bytes on it starts with an RPC
/// header of 40 bytes.
pub(crate) fn body(xid: u32, len: usize) -> Vec<u8> {
    let mut body: Vec<u8> = (0..len).map(|at| (at % 251) as u8 | 1).collect();
    body[..4].copy_from_slice(&xid.to_be_bytes());
    body[4..8].fill(0);
    if len >= 40 {
        body[28..32].fill(0);
        body[36..40].fill(0);
    }
    body
}

/// The client's memory: one allocation per handle.
#[derive(Default)]
pub(crate) struct Memory {
    regions: HashMap<u32, (u64, Vec<u8>)>,
}

impl Memory {
    /// Registers `bytes` and returns their segment.
    pub(crate) fn add(&mut self, bytes: Vec<u8>) -> Seg {
        let handle = 0x1000 + self.regions.len() as u32;
        let base = 0xffff_8000_0000_0000 + (u64::from(handle) << 20) + 3;
        let len = bytes.len() as u32;
        self.regions.insert(handle, (base, bytes));
        (handle, len, base)
    }

    fn range(&mut self, handle: u32, remote: u64, len: u32) -> &mut [u8] {
        let (base, bytes) = self.regions.get_mut(&handle).expect("unknown handle");
        let at = remote.checked_sub(*base).expect("before the segment") as usize;
        &mut bytes[at..at + len as usize]
    }

    /// Executes an RDMA Read.
    pub(crate) fn read(&mut self, handle: u32, remote: u64, len: u32) -> Vec<u8> {
        self.range(handle, remote, len).to_vec()
    }

    /// Executes an RDMA Write. Panics if it overwrites a byte that is not `fresh`.
    pub(crate) fn write(&mut self, handle: u32, remote: u64, bytes: &[u8], fresh: u8) {
        let range = self.range(handle, remote, bytes.len() as u32);
        assert!(range.iter().all(|byte| *byte == fresh), "written twice");
        range.copy_from_slice(bytes);
    }
}

/// A sink or reply that counts the writes to each byte.
pub(crate) struct Sink {
    pub(crate) bytes: Vec<u8>,
    touched: Vec<u32>,
}

impl Sink {
    pub(crate) fn new(len: u32) -> Self {
        Self {
            bytes: vec![0xee; len as usize],
            touched: vec![0; len as usize],
        }
    }

    pub(crate) fn put(&mut self, at: u32, bytes: &[u8]) {
        let range = at as usize..at as usize + bytes.len();
        self.bytes[range.clone()].copy_from_slice(bytes);
        self.touched[range].iter_mut().for_each(|count| *count += 1);
    }

    pub(crate) fn covered_once(&self) -> bool {
        self.touched.iter().all(|count| *count == 1)
    }
}

pub(crate) fn pad(len: usize) -> usize {
    len.wrapping_neg() & 3
}

pub(crate) fn tuple(segment: &Segment) -> Seg {
    (segment.handle, segment.length, segment.offset)
}

pub(crate) fn segment() -> impl Strategy<Value = Seg> {
    let handle = pick![1 => Just(0), 4 => any::<u32>()];
    let length = pick![1 => Just(0), 2 => 0..64u32, 2 => Just(4096), 2 => any::<u32>()];
    (handle, length, any::<u64>())
}

pub(crate) fn chunk(max: usize) -> impl Strategy<Value = Vec<Seg>> {
    prop::collection::vec(segment(), 0..=max)
}

/// Generates well-formed headers, whose Read chunks need not fit the message.
pub(crate) fn spec() -> impl Strategy<Value = Spec> {
    let position = pick![0..16u32, 0..1024u32, 0..=u32::MAX / 4];
    (
        (any::<u32>(), any::<u32>(), any::<bool>()),
        prop::collection::vec((position, segment()), 0..8),
        prop::collection::vec(chunk(4), 0..5),
        pick::option(chunk(5)),
        8..200usize,
    )
        .prop_map(|((xid, credits, nomsg), reads, writes, reply, len)| {
            let mut reads: Vec<_> = reads.into_iter().map(|(p, s)| (p * 4, s)).collect();
            if nomsg {
                reads.push((0, (7, 40, 9)));
            } else {
                reads.retain(|(position, _)| *position != 0);
            }
            let body = body(xid, len);
            Spec {
                xid,
                credits,
                nomsg,
                reads,
                writes,
                reply,
                body,
            }
        })
}

/// A source of lengths into which operations are cut, each at least 1.
pub(crate) struct Cuts<'a> {
    cuts: std::iter::Cycle<std::slice::Iter<'a, u32>>,
}

impl<'a> Cuts<'a> {
    pub(crate) fn new(cuts: &'a [u32]) -> Self {
        Self {
            cuts: cuts.iter().cycle(),
        }
    }

    pub(crate) fn next(&mut self, len: u32) -> u32 {
        (*self.cuts.next().expect("no cuts")).clamp(1, len)
    }
}

pub(crate) fn cuts() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(pick![1..9u32, Just(4096), Just(u32::MAX)], 1..6)
}

/// Returns the configuration of `count` cases, or of PROPTEST_CASES. Failed cases are not stored in
/// a seed file; each becomes a test.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = count;
    }
    config.failure_persistence = None;
    config
}

/// Generates a case with `strategy` from a fuzzer's `bytes` and checks it.
pub(crate) fn fuzz<S: Strategy>(
    bytes: &[u8],
    strategy: S,
    check: impl FnOnce(&S::Value) -> Verdict,
) {
    // Without this suffix, words of 0 would follow, from which most ranges cannot draw a number.
    // Words of 1 give the smallest number.
    let whole = &bytes[..bytes.len() & !3];
    let drawn = [whole, &1u32.to_le_bytes().repeat(8192)].concat();
    let rng = TestRng::from_seed(RngAlgorithm::PassThrough, &drawn);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let case = strategy.new_tree(&mut runner).expect("a case").current();
    if let Err(error) = check(&case) {
        panic!("{error}\nin {case:#?}");
    }
}

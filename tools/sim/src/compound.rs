// SPDX-License-Identifier: GPL-2.0

//! Calls of NFS 4: several results that may be reduced, and arguments behind those in a Read chunk.

use crate::call::{padded, push, push_chunk, push_reads, Call};
use bindings::{
    bytes_of,
    link::{Link, Region},
    Ptr, AFTER, BEFORE_RESULTS, WRITE_4,
};
use kernel::sim;

/// The results that a compound asks for.
pub struct Compound {
    /// The lengths of the results.
    lens: Vec<usize>,
    /// The keys of the Write chunks, which may be more or fewer.
    writes: Vec<u32>,
}

/// Draws a compound. Returns it with its message.
pub fn draw(link: Ptr<Link>, xid: u32) -> (Call, Vec<u8>) {
    let size = || [0, 1, 30, 500, 5000, 30_000][sim::below(6) as usize];
    let lens: Vec<usize> = (0..sim::below(4)).map(|_| size()).collect();
    let sent = sim::chance(400).then(|| size().max(1));
    let tag = xid.wrapping_mul(77);
    let mut rpc = Vec::new();
    push(&mut rpc, &[xid, 0, 2, 100_003, 4, 1, 0, 0, 0, 0]);
    push(&mut rpc, &[tag, lens.len() as u32]);
    lens.iter().for_each(|len| push(&mut rpc, &[*len as u32]));
    push(&mut rpc, &[u32::from(sent.is_some())]);
    if let Some(sent) = sent {
        push(&mut rpc, &WRITE_4);
        push(&mut rpc, &[sent as u32]);
    }
    let position = rpc.len() as u32;
    // The rest of the arguments follows those in the chunk.
    push(&mut rpc, &AFTER);
    let is_long = sim::chance(200);
    let mut message = Vec::new();
    push(&mut message, &[xid, 1, 32, is_long.into()]);
    let rest = is_long.then(|| push_reads(link, &mut message, 0, core::mem::take(&mut rpc)));
    let read = sent.map(|sent| push_reads(link, &mut message, position, bytes_of(tag, sent)));
    push(&mut message, &[0]);
    let mut write = |len: usize| {
        push(&mut message, &[1]);
        push_chunk(link, &mut message, len)
    };
    let room = |len: usize| padded(len) + 100 * sim::below(2) as usize;
    let used = sim::below(lens.len() as u64 + 1) as usize;
    let mut writes: Vec<u32> = lens[..used].iter().map(|len| write(room(*len))).collect();
    if used == lens.len() && sim::chance(300) {
        writes.push(write(64));
    }
    push(&mut message, &[0, 1]);
    let whole: usize = lens.iter().map(|len| 16 + padded(*len)).sum();
    let reply = push_chunk(link, &mut message, whole + 100);
    message.extend_from_slice(&rpc);
    let keys = [read, None, Some(reply), rest];
    let mut call = Call::waiting(tag, 0, keys);
    call.compound = Some(Compound { lens, writes });
    (call, message)
}

impl Compound {
    /// Returns the memory of the Write chunks, which is not valid any more.
    pub fn take_regions(&self, link: &mut Link) -> Vec<Region> {
        self.writes
            .iter()
            .map(|key| link.invalidate(*key))
            .collect()
    }

    /// Checks the results: `rest` is what was not reduced, and `written` has the bytes in each Write
    /// chunk.
    pub fn check(&self, tag: u32, rest: &[u8], regions: &[Region], written: &[usize]) {
        let mut rest = &rest[4 * BEFORE_RESULTS..];
        let mut take = |len: usize| {
            let (taken, left) = rest.split_at_checked(len).expect("the results are whole");
            rest = left;
            taken
        };
        for (n, len) in self.lens.iter().enumerate() {
            let head = bindings::result_head(n, *len);
            assert!(take(head.len()) == head, "the head of result {n}");
            let moved = written.get(n).copied().unwrap_or(0);
            let data = match moved {
                0 => &take(padded(*len))[..*len],
                _ => &regions[n].bytes[..moved],
            };
            let wanted = bytes_of(tag.wrapping_add(n as u32), *len);
            assert!(data == wanted, "the data of result {n}");
        }
        assert!(take(8) == bindings::words(&AFTER), "the end of the results");
    }
}

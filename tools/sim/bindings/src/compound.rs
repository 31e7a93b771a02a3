// SPDX-License-Identifier: GPL-2.0

//! Compounds of NFS 4, as far as a transport can see: arguments behind those in a Read chunk, and several
//! results that may be reduced, anywhere in the head, the pages and the tail.

use crate::{
    nfsd::{bytes_of, keep_page, word, words, Request, MAX_RESULT},
    svc::svc_serv,
    Ptr, PAGE,
};
use kernel::sim;

/// Returns result `n` of a compound up to its data: of a READ or of a READLINK.
pub fn result_head(n: usize, len: usize) -> Vec<u8> {
    match n % 2 {
        0 => words(&[25, 0, 1, len as u32]),
        _ => words(&[27, 0, len as u32]),
    }
}

/// A WRITE of NFS 4 up to the length of its data.
pub const WRITE_4: [u32; 8] = [38, 1, 2, 3, 4, 0, 0, 2];
/// The words behind the data of a compound, and behind its results.
pub const AFTER: [u32; 2] = [0x0af7_e200, 9];
/// The words before the first result of a compound.
pub const BEFORE_RESULTS: usize = 8;

/// Returns true for a Call of NFS 4.
pub(crate) fn is_nfs4(call: &[u8]) -> bool {
    (word(call, 12), word(call, 16)) == (Some(100_003), Some(4))
}

/// Checks the arguments of a compound. Returns the tag and the lengths of the results that it asks for,
/// or None if anything is wrong.
pub(crate) fn compound_of(call: &[u8]) -> Option<(u32, Vec<usize>)> {
    let (tag, count) = (word(call, 40)?, word(call, 44)? as usize);
    let at = 48 + 4 * count.min(8);
    let lens = (48..at).step_by(4).map(|at| Some(word(call, at)? as usize));
    let lens = lens.collect::<Option<Vec<_>>>()?;
    let mut rest = call.get(at + 4..)?;
    if word(call, at)? == 1 {
        rest = rest.strip_prefix(&words(&WRITE_4)[..])?;
        let len = word(rest, 0)? as usize;
        let data = rest.get(4..)?.get(..len)?;
        rest = rest.get(4 + len.next_multiple_of(4)..)?;
        if data != bytes_of(tag, len) {
            return None;
        }
    }
    let is_good = rest == words(&AFTER) && lens.iter().sum::<usize>() <= MAX_RESULT;
    is_good.then_some((tag, lens))
}

impl Request {
    /// Answers a compound. As with nfsd, its results begin in the head, go on in the pages, which also
    /// have data, and end in the tail. Each part may end at any word.
    pub(crate) fn answer_compound(
        &mut self,
        serv: Ptr<svc_serv>,
        xid: u32,
        tag: u32,
        lens: &[usize],
    ) {
        let mut bytes = words(&[xid, 1, 0, 0, 0, 0, tag, lens.len() as u32]);
        let mut marks = Vec::new();
        for (n, len) in lens.iter().enumerate() {
            bytes.extend(result_head(n, *len));
            // The encoder of READLINK marks the length.
            marks.push((bytes.len() - 4 * (n % 2), *len));
            bytes.extend(bytes_of(tag.wrapping_add(n as u32), *len));
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes.extend(words(&AFTER));
        let word_below = |limit: usize| 4 * sim::below(limit as u64 / 4 + 1) as usize;
        let first = 4 * BEFORE_RESULTS + word_below((bytes.len() - 4 * BEFORE_RESULTS).min(2000));
        let behind = word_below((bytes.len() - first).min(2000));
        // The pages have the bytes for which the head and the tail have no room.
        let (head, rest) = bytes.split_at(first);
        let (data, tail) = rest.split_at(rest.len() - behind);
        let base = word_below(PAGE - 4);
        let head = self.head(head);
        self.fill(base, data);
        if sim::chance(serv.get().keeps) && !data.is_empty() {
            let used = 1 + (base + data.len()).div_ceil(PAGE);
            self.respages[1..used].iter().copied().for_each(keep_page);
        }
        self.set_results(head, base, data.len(), tail);
        marks.into_iter().for_each(|(at, len)| self.mark(at, len));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! What a sender may take out of a message of NFS, its Upper-Layer Binding: the data of WRITE and
//! READ and the text of a link (RFC 8267, sections 4 and 6).
//!
//! What else is too long for a message goes whole, in a position-zero Read chunk or in the Reply
//! chunk. In versions of NFS before 4 the procedure tells, in a COMPOUND the words before the data.

use crate::chunk::ReadChunk;
use crate::error::{
    DecodeError,
    Reason, //
};
use crate::header::{
    Header,
    Kind, //
};
use crate::reply::Payload;
use crate::rpc;
use crate::wire;

/// The program.
const NFS: u32 = 100_003;

/// Procedures of versions 2 and 3 (RFC 1094, RFC 1813).
mod procedure {
    pub(super) const WRITE_2: u32 = 8;
    pub(super) const SYMLINK_2: u32 = 13;
    pub(super) const WRITE_3: u32 = 7;
    pub(super) const SYMLINK_3: u32 = 10;
}

/// Operations of version 4 (RFC 7531, RFC 7863).
mod operation {
    pub(super) const CREATE: u32 = 6;
    pub(super) const WRITE: u32 = 38;
    pub(super) const READ_PLUS: u32 = 68;
}

/// The type of a link (`nfs_ftype4`).
const NF4LNK: u32 = 5;

/// Checks a Call whose RPC message is inline: that nothing else was taken out of it. Of an
/// RDMA_NOMSG that is not known before the message was read, see [`check_read`].
///
/// # Errors
///
/// [`Reason::Ineligible`].
pub fn check_inline(header: &Header, msg: &[u8]) -> Result<(), DecodeError> {
    if header.kind == Kind::Nomsg {
        return Ok(());
    }
    let call = msg.get(header.body..).unwrap_or(&[]);
    let word = |at| wire::word(call, at);
    check(header, msg, word, header.inline_len(msg), true)
}

/// Checks a Call of `len` bytes that has been put together: that nothing was taken out of what its
/// position-zero Read chunk has brought but what may be. `word` returns the big-endian word at a
/// byte of the Call.
///
/// # Errors
///
/// [`Reason::Ineligible`].
pub fn check_read(
    header: &Header,
    msg: &[u8],
    word: impl FnMut(u32) -> Option<u32>,
    len: u32,
) -> Result<(), DecodeError> {
    check(header, msg, word, len, false)
}

/// Checks a Call of `len` bytes, which `word` looks at, with or without what was taken out of it.
fn check(
    header: &Header,
    msg: &[u8],
    mut word: impl FnMut(u32) -> Option<u32>,
    len: u32,
    is_reduced: bool,
) -> Result<(), DecodeError> {
    let mut items = Items::default();
    while let Some(chunk) = header.reads.next_chunk(msg, items.position) {
        let item = items.add(chunk, len, is_reduced);
        if item.and_then(|item| item.is_eligible(&mut word)) != Some(true) {
            return Err(Reason::Ineligible.of(header.xid));
        }
    }
    Ok(())
}

/// The Read chunks of a Call, position zero aside, in the order of their positions.
#[derive(Default)]
struct Items {
    /// That of the last one.
    position: u32,
    /// Where it ends, with its pad.
    end: u32,
    /// Bytes of all of them, with their pads.
    left_out: u32,
    count: u32,
}

/// One of them.
struct Item {
    /// Where it belongs, in what there is of the Call.
    at: u32,
    /// Bytes with its pad.
    len: u32,
    /// Bytes of the Call between the one before it and this one.
    gap: u32,
    /// Bytes of the Call behind it.
    behind: u32,
    is_first: bool,
}

impl Items {
    /// Adds `chunk` of a Call of which there are `len` bytes. `None`: it has no place there.
    fn add(&mut self, chunk: ReadChunk, len: u32, is_reduced: bool) -> Option<Item> {
        let item_len = u32::try_from(chunk.len).ok().and_then(wire::padded)?;
        let end = chunk.position.checked_add(item_len)?;
        let (at, behind) = match is_reduced {
            true => {
                let at = chunk.position.checked_sub(self.left_out)?;
                (at, len.checked_sub(at)?)
            }
            false => (chunk.position, len.checked_sub(end)?),
        };
        let item = Item {
            at,
            len: item_len,
            gap: chunk.position.checked_sub(self.end)?,
            behind,
            is_first: self.count == 0,
        };
        self.position = chunk.position;
        self.end = end;
        self.left_out = self.left_out.checked_add(item_len)?;
        self.count = self.count.saturating_add(1);
        Some(item)
    }
}

impl Item {
    /// Whether it may be taken out. `None`: the Call is not as one that has such an item.
    fn is_eligible(&self, mut word: impl FnMut(u32) -> Option<u32>) -> Option<bool> {
        // None may lie in the RPC header: words behind it would not be where they are looked for.
        // Of what RPCSEC_GSS covers nothing may be taken out (RFC 8166, sections 8.2.2 and 8.2.2.3).
        if self.at < rpc::arguments(&mut word)? {
            return None;
        }
        let called = (word(12)?, word(16)?, word(20)?);
        let mut before = |bytes| {
            let at = self.at.checked_sub(bytes)?;
            (bytes <= self.gap).then(|| word(at))?
        };
        // All are opaque and have their lengths before them.
        let has_its_length = before(4).and_then(wire::padded)? == self.len;
        let is_eligible = match called {
            (NFS, 2, procedure::WRITE_2 | procedure::SYMLINK_2) => self.is_first,
            // The last argument, but for a pad.
            (NFS, 3, procedure::WRITE_3 | procedure::SYMLINK_3) => {
                self.is_first && self.behind <= 4
            }
            // Data has operation, stateid, offset and stability before its length, a text has
            // operation and type.
            (NFS, 4, _) => {
                before(36) == Some(operation::WRITE)
                    || (before(12), before(8)) == (Some(operation::CREATE), Some(NF4LNK))
            }
            _ => false,
        };
        Some(has_its_length && is_eligible)
    }
}

/// Whether a Call is one of those that a server must not drop while the connection lasts, as the client
/// does not send them again: of version 4 (RFC 7530, section 3.1.1; RFC 8881, section 2.9.2). `word`
/// returns the big-endian word at a byte of the Call.
pub fn needs_answer(mut word: impl FnMut(u32) -> Option<u32>) -> bool {
    (word(12), word(16)) == (Some(NFS), Some(4))
}

/// The same of a Call whose RPC message is inline; `false` if it is not.
pub fn needs_answer_inline(header: &Header, msg: &[u8]) -> bool {
    let call = msg.get(header.body..).unwrap_or(&[]);
    header.kind == Kind::Msg && needs_answer(|at| wire::word(call, at))
}

/// Whether a result that nfsd has marked may be taken out of its reply to a Call of NFS `version`:
/// not the data of READ_PLUS. `word` returns the big-endian word at a byte of the reply's stream.
pub fn is_result(version: u32, word: impl Fn(u32) -> Option<u32>, result: &Payload) -> bool {
    let before = |bytes| result.offset.checked_sub(bytes).and_then(&word);
    // Operation, status, end of file, one segment, its type, which is data; offset and length.
    let read_plus = [(32, operation::READ_PLUS), (28, 0), (20, 1), (16, 0)];
    version != 4
        || read_plus
            .iter()
            .any(|&(bytes, value)| before(bytes) != Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header;
    use crate::header::Received;

    /// A WRITE up to its data, of 64 bytes.
    const WRITE_4: [u32; 9] = [operation::WRITE, 0, 0, 0, 0, 0, 0, 2, 64];
    const LINK_4: [u32; 3] = [operation::CREATE, NF4LNK, 64];

    /// Returns the words of a Call with these arguments, which begin at byte 40.
    fn call(version: u32, procedure: u32, arguments: &[u32]) -> Vec<u32> {
        let mut words = vec![9, 0, 2, NFS, version, procedure, 0, 0, 0, 0];
        words.extend(arguments);
        words
    }

    /// Returns the header of a message with Read chunks of these positions and lengths, and `call`
    /// behind it.
    fn message(kind: u32, call: &[u32], chunks: &[(u32, u32)]) -> (Header, Vec<u8>) {
        let mut words = vec![9, 1, 1, kind];
        for &(position, len) in chunks {
            words.extend([1, position, 7, len, 0, 0]);
        }
        words.extend([0, 0, 0]);
        words.extend(call);
        let msg: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        match header::decode(&msg) {
            Ok(Received::Call(header)) => (header, msg),
            other => panic!("{other:?}"),
        }
    }

    fn is_good(found: Result<(), DecodeError>) -> bool {
        assert!(found.is_ok() || found == Err(Reason::Ineligible.of(9)));
        found.is_ok()
    }

    /// Whether the rest `call` of a Call may come inline.
    fn inline(call: &[u32], chunks: &[(u32, u32)]) -> bool {
        let (header, msg) = message(0, call, chunks);
        is_good(check_inline(&header, &msg))
    }

    /// Whether it may come by a position-zero Read chunk.
    fn read(call: &[u32], chunks: &[(u32, u32)]) -> bool {
        let chunks = [&[(0, 400)], chunks].concat();
        let (header, msg) = message(1, &[], &chunks);
        assert_eq!(check_inline(&header, &msg), Ok(()));
        // What was taken out comes back, with pads.
        let mut whole = call.to_vec();
        for &(position, len) in &chunks[1..] {
            let at = whole.len().min(position as usize / 4);
            let data = vec![7; len.min(400).div_ceil(4) as usize];
            whole.splice(at..at, data);
        }
        let word = |at: u32| whole.get(at as usize / 4).copied();
        is_good(check_read(&header, &msg, word, whole.len() as u32 * 4))
    }

    fn both(call: &[u32], chunks: &[(u32, u32)]) -> bool {
        let (inline, read) = (inline(call, chunks), read(call, chunks));
        assert_eq!(inline, read, "{chunks:?}");
        inline
    }

    #[test]
    fn procedures_tell_before_version_4() {
        for (version, procedure, good) in [
            (3, 7, true),
            (3, 10, true),
            (3, 0, false),
            (3, 6, false),
            (2, 8, true),
            (2, 13, true),
            (2, 7, false),
            (5, 7, false),
        ] {
            let call = call(version, procedure, &[0, 0, 0, 64]);
            assert_eq!(both(&call, &[(56, 64)]), good, "{version} {procedure}");
            assert!(both(&call, &[]));
        }
        let mut other = call(3, 7, &[0, 0, 0, 64]);
        other[3] = NFS + 1;
        assert!(!both(&other, &[(56, 64)]));
    }

    #[test]
    fn in_version_3_it_comes_last_and_alone() {
        let end = call(3, 10, &[0, 64, 0, 64]);
        assert!(both(&end, &[(56, 64)]));
        assert!(!both(&end, &[(48, 64)]));
        assert!(!both(&call(3, 7, &[64, 64]), &[(44, 64), (112, 64)]));
        // Its pad may be there.
        assert!(inline(&call(3, 7, &[63, 0]), &[(44, 63)]));
        assert!(!inline(&call(3, 7, &[63, 0, 0]), &[(44, 63)]));
        // In version 2 a link has attributes behind its text.
        assert!(both(&call(2, 13, &[64, 0, 0]), &[(44, 64)]));
    }

    #[test]
    fn words_before_the_data_tell_in_version_4() {
        let write = call(4, 1, &[&WRITE_4[..], &[9, 0]].concat());
        assert!(both(&write, &[(76, 64)]));
        for position in [4, 20, 32, 40, 72, 80] {
            assert!(!both(&write, &[(position, 64)]), "{position}");
        }
        let link = call(4, 1, &[&[0; 2], &LINK_4[..], &[9, 0]].concat());
        assert!(both(&link, &[(60, 64)]));
        let directory = call(4, 1, &[0, 0, operation::CREATE, 2, 64]);
        assert!(!both(&directory, &[(60, 64)]));
        assert!(!both(&call(4, 1, &[]), &[(40, 0)]));
        // A length that is another's, which would bring its own operations.
        for (len, good) in [(60, false), (61, true), (64, true), (65, false), (0, false)] {
            assert_eq!(both(&write, &[(76, len)]), good, "{len}");
        }
        // Nothing of the RPC header can look like an operation.
        let mut early = call(4, 1, &[0; 4]);
        (early[0], early[8]) = (operation::WRITE, 64);
        assert!(!read(&early, &[(36, 64)]));
    }

    #[test]
    fn items_are_seen_where_they_were_taken_out() {
        // Data of 5 bytes, which has a pad.
        let mut write = WRITE_4;
        write[8] = 5;
        let two = call(4, 1, &[write, write].concat());
        let (first, second) = (76, 76 + 8 + 36);
        assert!(both(&two, &[(first, 5), (second, 5)]));
        // The order in the list does not matter, where the positions do.
        assert!(inline(&two, &[(second, 5), (first, 5)]));
        assert!(!both(&two, &[(first, 5), (second - 8, 5)]));
        // The words before an item are not looked for in another, or before it.
        assert!(!both(&two, &[(first, 5), (second, 5), (second + 8, 5)]));
        assert!(!both(&two, &[(first, 5), (first + 8, 5)]));
        // Longer than any message.
        assert!(!inline(&two, &[(first, u32::MAX), (second, 5)]));
    }

    #[test]
    fn nothing_is_taken_out_of_what_gss_covers() {
        // The arguments, of a WRITE of version 3, begin at byte 60.
        for (procedure, service, good) in
            [(0, 1, true), (0, 2, false), (0, 3, false), (1, 1, false)]
        {
            let mut words = call(3, 7, &[])[..6].to_vec();
            words.extend([6, 20, 1, procedure, 99, service, 0, 0, 0]);
            words.extend([0, 0, 0, 64]);
            assert_eq!(both(&words, &[(76, 64)]), good, "{procedure} {service}");
            assert!(both(&words, &[]));
        }
    }

    #[test]
    fn version_4_needs_an_answer() {
        for (version, needs) in [(2, false), (3, false), (4, true), (5, false)] {
            let mut words = call(version, 1, &[]);
            let (header, msg) = message(0, &words, &[]);
            assert_eq!(needs_answer_inline(&header, &msg), needs, "{version}");
            let (header, msg) = message(1, &words, &[(0, 40)]);
            assert!(!needs_answer_inline(&header, &msg));
            words[3] ^= 1;
            assert!(!needs_answer(|at| words.get(at as usize / 4).copied()));
        }
    }

    #[test]
    fn read_plus_is_no_read() {
        let is_result = |version, words: &[u32]| {
            let offset = words.len() as u32 * 4;
            let word = |at: u32| words.get(at as usize / 4).copied();
            is_result(version, word, &Payload { offset, len: 64 })
        };
        // READ: end of file, length. READLINK: length.
        assert!(is_result(4, &[1, 25, 0, 1, 64]));
        assert!(is_result(4, &[1, 27, 0, 64]));
        // READ_PLUS: end of file, one segment, which is data; its offset may look like READLINK.
        assert!(!is_result(4, &[68, 0, 1, 1, 0, 0, 0, 64]));
        assert!(!is_result(4, &[68, 0, 0, 1, 0, 27, 0, 64]));
        assert!(is_result(3, &[68, 0, 1, 1, 0, 0, 0, 64]));
        assert!(is_result(4, &[]));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The Upper-Layer Binding of NFS: the items of a message that are eligible for direct data
//! placement (RFC 8267, sections 4 and 6).
//!
//! Eligible are the data of WRITE and READ and the text of a symbolic link. A message that is too
//! long for other reasons is sent whole, in a position-zero Read chunk or in the Reply chunk. In
//! NFS versions before 4 the procedure determines the eligible item; in a COMPOUND the words before
//! the item do.

use crate::error::{
    DecodeError,
    Reason, //
};
use crate::header::{
    Kind,
    View, //
};
use crate::read_list::ReadChunk;
use crate::reply::Payload;
use crate::rpc;
use crate::wire;

/// RPC program number of NFS.
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

/// The type of a symbolic link (`nfs_ftype4`).
const NF4LNK: u32 = 5;

/// The state of the Call that a check looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The bytes of the Read chunks are missing.
    Reduced,
    /// The bytes of the Read chunks are at their positions.
    Whole,
}

/// Checks that the Read chunks of an RDMA_MSG hold eligible items only. An RDMA_NOMSG is checked
/// after its RPC message was read, by [`check_read`].
///
/// # Errors
///
/// Returns [`Reason::Ineligible`] if a Read chunk holds another item.
#[inline]
pub fn check_inline(view: &View<'_>) -> Result<(), DecodeError> {
    if view.is_whole() {
        Ok(())
    } else {
        check_reduced(view)
    }
}

/// Does so for a Call that may have Read chunks.
fn check_reduced(view: &View<'_>) -> Result<(), DecodeError> {
    if view.header().kind == Kind::Nomsg {
        return Ok(());
    }
    let call = view.inline();
    let word = |at| wire::word(call, at);
    let arguments = view.header().arguments;
    check(view, word, arguments, view.inline_len(), State::Reduced)
}

/// Checks that the Read chunks of an RDMA_NOMSG, position zero aside, hold eligible items only. The
/// Call has `len` bytes and is complete; `word` returns the big-endian word at a byte of it.
///
/// # Errors
///
/// Returns [`Reason::Ineligible`] if a Read chunk holds another item.
pub fn check_read(
    view: &View<'_>,
    mut word: impl FnMut(u32) -> Option<u32>,
    len: u32,
) -> Result<(), DecodeError> {
    let arguments = rpc::arguments(&mut word);
    check(view, word, arguments, len, State::Whole)
}

/// Checks the Read chunks of a Call of which `len` bytes are present. `arguments` is the offset of
/// its arguments, or `None` if none is eligible.
fn check(
    view: &View<'_>,
    mut word: impl FnMut(u32) -> Option<u32>,
    arguments: Option<u32>,
    len: u32,
    state: State,
) -> Result<(), DecodeError> {
    let (mut items, mut last) = (Items::default(), ReadChunk::default());
    while let Some(chunk) = view.next_read_chunk(&last) {
        last = chunk;
        // An item within the RPC header would move the words that are looked at below. Arguments
        // that RPCSEC_GSS protects are never eligible (RFC 8166, sections 8.2.2 and 8.2.2.3).
        let item = items.add(&chunk, len, state);
        let item = item.filter(|item| arguments.is_some_and(|arguments| item.at >= arguments));
        if item.and_then(|item| item.check(&mut word)).is_none() {
            return Err(view.refuse(Reason::Ineligible));
        }
    }
    Ok(())
}

/// A walk over the Read chunks of a Call, position zero aside, in the order of their positions.
#[derive(Default)]
struct Items {
    /// Position of the byte behind the last chunk and its XDR pad.
    end: u32,
    /// Bytes of all chunks so far, with their XDR pads.
    left_out: u32,
    /// Number of chunks so far.
    count: u32,
}

/// An item that is in a Read chunk.
struct Item {
    /// Offset of the item in the present bytes of the Call.
    at: u32,
    /// Bytes of the item and its XDR pad.
    len: u32,
    /// Bytes of the Call between the item before and this one.
    gap: u32,
    /// Bytes of the Call behind the item.
    behind: u32,
    is_first: bool,
}

impl Items {
    /// Adds `chunk` of a Call of which `len` bytes are present. Returns `None` if the chunk does
    /// not fit into the Call.
    fn add(&mut self, chunk: &ReadChunk, len: u32, state: State) -> Option<Item> {
        let item_len = u32::try_from(chunk.len).ok().and_then(wire::padded)?;
        let end = chunk.position.checked_add(item_len)?;
        let (at, behind) = match state {
            State::Reduced => {
                let at = chunk.position.checked_sub(self.left_out)?;
                (at, len.checked_sub(at)?)
            }
            State::Whole => (chunk.position, len.checked_sub(end)?),
        };
        let item = Item {
            at,
            len: item_len,
            gap: chunk.position.checked_sub(self.end)?,
            behind,
            is_first: self.count == 0,
        };
        self.end = end;
        self.left_out = self.left_out.checked_add(item_len)?;
        self.count = self.count.saturating_add(1);
        Some(item)
    }
}

impl Item {
    /// Checks that the item is eligible. Returns `None` if it is not, or if the Call is malformed.
    fn check(&self, mut word: impl FnMut(u32) -> Option<u32>) -> Option<()> {
        let called = (word(12)?, word(16)?, word(20)?);
        let mut before = |bytes| {
            let at = self.at.checked_sub(bytes)?;
            (bytes <= self.gap).then(|| word(at))?
        };
        // Each eligible item is an opaque, which its length precedes.
        let has_its_length = before(4).and_then(wire::padded)? == self.len;
        let is_eligible = match called {
            (NFS, 2, procedure::WRITE_2 | procedure::SYMLINK_2) => self.is_first,
            // The last argument; only its pad may follow.
            (NFS, 3, procedure::WRITE_3 | procedure::SYMLINK_3) => {
                self.is_first && self.behind <= 4
            }
            // Operation, stateid, offset and stability precede the length of data; operation and
            // type precede the length of a text.
            (NFS, 4, _) => {
                before(36) == Some(operation::WRITE)
                    || (before(12), before(8)) == (Some(operation::CREATE), Some(NF4LNK))
            }
            _ => false,
        };
        (has_its_length && is_eligible).then_some(())
    }
}

/// Returns true if the server must not drop this Call while the connection lasts, because the
/// client does not retransmit it: a Call of NFS version 4 (RFC 7530, section 3.1.1; RFC 8881,
/// section 2.9.2). `word` returns the big-endian word at a byte of the Call.
pub fn needs_answer(mut word: impl FnMut(u32) -> Option<u32>) -> bool {
    (word(12), word(16)) == (Some(NFS), Some(4))
}

/// Returns true if the RPC message is inline and [`needs_answer`] is true for it.
#[inline]
pub fn needs_answer_inline(view: &View<'_>) -> bool {
    wire::words(view.inline(), 12) == Some([NFS, 4])
}

/// Returns true if a result that nfsd has marked is eligible in a Reply to a Call of NFS `version`.
/// The data of READ_PLUS is not. `word` returns the big-endian word at a byte of the reply stream.
pub fn is_result(version: u32, word: impl Fn(u32) -> Option<u32>, result: &Payload) -> bool {
    let before = |bytes| result.offset.checked_sub(bytes).and_then(&word);
    // Operation, status, end of file, one segment, its type (data), offset and length.
    let read_plus = [(32, operation::READ_PLUS), (28, 0), (20, 1), (16, 0)];
    version != 4
        || read_plus
            .iter()
            .any(|&(bytes, value)| before(bytes) != Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{
        decode,
        Received, //
    };
    use crate::header::Header;

    /// A WRITE up to its data, of 64 bytes.
    const WRITE_4: [u32; 9] = [operation::WRITE, 0, 0, 0, 0, 0, 0, 2, 64];
    const LINK_4: [u32; 3] = [operation::CREATE, NF4LNK, 64];

    /// Returns the words of a Call with these arguments, which begin at byte 40.
    fn call(version: u32, procedure: u32, arguments: &[u32]) -> Vec<u32> {
        let mut words = vec![9, 0, 2, NFS, version, procedure, 0, 0, 0, 0];
        words.extend(arguments);
        words
    }

    /// Returns the view of a message that is never freed. It has Read chunks with these positions
    /// and lengths, and `call` follows its header.
    fn message(kind: u32, call: &[u32], chunks: &[(u32, u32)]) -> View<'static> {
        let mut words = vec![9, 1, 1, kind];
        for &(position, len) in chunks {
            words.extend([1, position, 7, len, 0, 0]);
        }
        words.extend([0, 0, 0]);
        words.extend(call);
        let msg: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        match decode(msg.leak(), Box::leak(Box::<Header>::default())) {
            Ok(Received::Call(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    fn is_good(found: Result<(), DecodeError>) -> bool {
        assert!(found.is_ok() || found == Err(Reason::Ineligible.of(9)));
        found.is_ok()
    }

    /// Returns true if the rest `call` of a Call is accepted inline.
    fn inline(call: &[u32], chunks: &[(u32, u32)]) -> bool {
        is_good(check_inline(&message(0, call, chunks)))
    }

    /// Returns true if `call` is accepted in a position-zero Read chunk.
    fn read(call: &[u32], chunks: &[(u32, u32)]) -> bool {
        let chunks = [&[(0, 400)], chunks].concat();
        let view = message(1, &[], &chunks);
        assert_eq!(check_inline(&view), Ok(()));
        // The items are at their positions, with pads.
        let mut whole = call.to_vec();
        for &(position, len) in &chunks[1..] {
            let at = whole.len().min(position as usize / 4);
            let data = vec![7; len.min(400).div_ceil(4) as usize];
            whole.splice(at..at, data);
        }
        let word = |at: u32| whole.get(at as usize / 4).copied();
        is_good(check_read(&view, word, whole.len() as u32 * 4))
    }

    fn both(call: &[u32], chunks: &[(u32, u32)]) -> bool {
        let (inline, read) = (inline(call, chunks), read(call, chunks));
        assert_eq!(inline, read, "{chunks:?}");
        inline
    }

    #[test]
    fn the_procedure_decides_before_version_4() {
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
    fn the_item_of_version_3_is_alone_and_last() {
        let end = call(3, 10, &[0, 64, 0, 64]);
        assert!(both(&end, &[(56, 64)]));
        assert!(!both(&end, &[(48, 64)]));
        assert!(!both(&call(3, 7, &[64, 64]), &[(44, 64), (112, 64)]));
        // Its pad may follow.
        assert!(inline(&call(3, 7, &[63, 0]), &[(44, 63)]));
        assert!(!inline(&call(3, 7, &[63, 0, 0]), &[(44, 63)]));
        // In version 2 attributes follow the text of a link.
        assert!(both(&call(2, 13, &[64, 0, 0]), &[(44, 64)]));
    }

    #[test]
    fn words_before_the_data_decide_in_version_4() {
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
        // Another item's length: the rest of the item would be read as operations.
        for (len, good) in [(60, false), (61, true), (64, true), (65, false), (0, false)] {
            assert_eq!(both(&write, &[(76, len)]), good, "{len}");
        }
        // No word of the RPC header is taken for an operation.
        let mut early = call(4, 1, &[0; 4]);
        (early[0], early[8]) = (operation::WRITE, 64);
        assert!(!read(&early, &[(36, 64)]));
    }

    #[test]
    fn items_are_checked_at_their_positions() {
        // Data of 5 bytes, which need a pad.
        let mut write = WRITE_4;
        write[8] = 5;
        let two = call(4, 1, &[write, write].concat());
        let (first, second) = (76, 76 + 8 + 36);
        assert!(both(&two, &[(first, 5), (second, 5)]));
        // The positions matter, the order of the list does not.
        assert!(inline(&two, &[(second, 5), (first, 5)]));
        assert!(!both(&two, &[(first, 5), (second - 8, 5)]));
        // The words before an item must not belong to the item before.
        assert!(!both(&two, &[(first, 5), (second, 5), (second + 8, 5)]));
        assert!(!both(&two, &[(first, 5), (first + 8, 5)]));
        // Longer than any message.
        assert!(!inline(&two, &[(first, u32::MAX), (second, 5)]));
    }

    #[test]
    fn arguments_that_gss_protects_are_not_eligible() {
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
            let inline = message(0, &words, &[]);
            assert_eq!(needs_answer_inline(&inline), needs, "{version}");
            let in_chunk = message(1, &words, &[(0, 40)]);
            assert!(!needs_answer_inline(&in_chunk));
            let of_words = |words: &[u32]| needs_answer(|at| words.get(at as usize / 4).copied());
            assert_eq!(of_words(&words), needs, "{version}");
            words[3] ^= 1;
            assert!(!of_words(&words));
        }
    }

    #[test]
    fn data_of_read_plus_is_not_eligible() {
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

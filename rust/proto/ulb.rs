// SPDX-License-Identifier: GPL-2.0

//! What a sender may take out of a message of NFS, its Upper-Layer Binding: the data of WRITE and
//! READ and the text of a link (RFC 8267, sections 4 and 6.1).
//!
//! What else is too long for a message goes whole, in a position-zero Read chunk or in the Reply
//! chunk. In versions of NFS before 4 the procedure tells, in a COMPOUND the words before the data.

use crate::error::DecodeError;
use crate::header::{
    Header,
    Kind, //
};
use crate::reply::Payload;
use crate::wire;

/// The program.
const NFS: u32 = 100_003;

/// Procedures of version 3 (RFC 1813).
mod procedure {
    pub(super) const WRITE: u32 = 7;
    pub(super) const SYMLINK: u32 = 10;
}

/// Operations of version 4 (RFC 7531).
mod operation {
    pub(super) const CREATE: u32 = 6;
    pub(super) const READ: u32 = 25;
    pub(super) const READLINK: u32 = 27;
    pub(super) const WRITE: u32 = 38;
}

/// The type of a link (`nfs_ftype4`).
const NF4LNK: u32 = 5;

/// Checks a Call whose RPC message is inline: that nothing else was taken out of it. Of an
/// RDMA_NOMSG that is not known before the message was read, see [`check_read`].
///
/// # Errors
///
/// [`DecodeError::Ineligible`].
pub fn check_inline(header: &Header, msg: &[u8]) -> Result<(), DecodeError> {
    if header.kind == Kind::Nomsg {
        return Ok(());
    }
    let call = msg.get(header.body..).unwrap_or(&[]);
    check(header, msg, |item| {
        // Where it was taken out of what there is.
        let at = item.position.checked_sub(item.left_out)?;
        is_argument(|at| wire::word(call, at), at, item)
    })
}

/// Checks a Call that has been put together: that nothing was taken out of what its position-zero
/// Read chunk has brought but what may be. `word` returns the big-endian word at a byte of the Call.
///
/// # Errors
///
/// [`DecodeError::Ineligible`].
pub fn check_read(
    header: &Header,
    msg: &[u8],
    mut word: impl FnMut(u32) -> Option<u32>,
) -> Result<(), DecodeError> {
    check(header, msg, |item| {
        is_argument(&mut word, item.position, item)
    })
}

/// What was taken out of a Call: a Read chunk, position zero aside.
#[derive(Clone, Copy, Default)]
struct Item {
    position: u32,
    /// Bytes of all before it, pads included.
    left_out: u32,
    /// Bytes of the Call between the item before it and this one.
    gap: u32,
}

/// Has `is_argument` look at the items in the order of their positions.
fn check(
    header: &Header,
    msg: &[u8],
    mut is_argument: impl FnMut(Item) -> Option<bool>,
) -> Result<(), DecodeError> {
    let mut position = 0;
    let mut left_out = 0;
    let mut end = 0;
    while let Some(chunk) = header.reads.next_chunk(msg, position) {
        position = chunk.position;
        let mut look = || {
            let gap = position.checked_sub(end)?;
            let item = Item {
                position,
                left_out,
                gap,
            };
            let len = u32::try_from(chunk.len).ok().and_then(wire::padded)?;
            left_out = left_out.checked_add(len)?;
            end = position.checked_add(len)?;
            is_argument(item)
        };
        if look() != Some(true) {
            return Err(DecodeError::Ineligible { xid: header.xid });
        }
    }
    Ok(())
}

/// Whether `item` may be taken out of a Call, where it belongs at the byte `at` of what `word` looks
/// at. `None`: that is too short.
fn is_argument(mut word: impl FnMut(u32) -> Option<u32>, at: u32, item: Item) -> Option<bool> {
    // Behind XID, direction and RPC version.
    let (program, version, called) = (word(12)?, word(16)?, word(20)?);
    let mut before = |bytes| match item.gap >= bytes {
        true => word(at.checked_sub(bytes)?),
        false => None,
    };
    Some(match (program, version) {
        (NFS, 3) => {
            let is_first = item.left_out == 0;
            is_first && matches!(called, procedure::WRITE | procedure::SYMLINK)
        }
        // A WRITE has stateid, offset, stability and count before its data, a link has its type
        // and count.
        (NFS, 4) => {
            before(36) == Some(operation::WRITE)
                || (before(12), before(8)) == (Some(operation::CREATE), Some(NF4LNK))
        }
        _ => false,
    })
}

/// Whether a result of NFS `version` may be taken out of its reply: nfsd marks data of READ_PLUS,
/// too. `word` returns the big-endian word at a byte of the reply's stream.
pub fn is_result(version: u32, word: impl Fn(u32) -> Option<u32>, result: &Payload) -> bool {
    let before = |bytes| result.offset.checked_sub(bytes).and_then(&word);
    // Number and status of the operation; READ has a word between these and the count.
    version != 4
        || (before(16), before(12)) == (Some(operation::READ), Some(0))
        || (before(12), before(8)) == (Some(operation::READLINK), Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header;
    use crate::header::Received;

    const WRITE_4: [u32; 9] = [operation::WRITE, 0, 0, 0, 0, 0, 0, 2, 64];
    const LINK_4: [u32; 3] = [operation::CREATE, NF4LNK, 64];

    /// Returns the words of a Call with these arguments.
    fn call(version: u32, procedure: u32, arguments: &[u32]) -> Vec<u32> {
        let mut words = vec![9, 0, 2, NFS, version, procedure, 0, 0, 0, 0];
        words.extend(arguments);
        words
    }

    /// Checks a message with `call` inline, or for RDMA_NOMSG elsewhere, and Read chunks of these
    /// positions and lengths.
    fn checked(kind: u32, call: &[u32], chunks: &[(u32, u32)]) -> bool {
        let mut words = vec![9, 1, 1, kind];
        if kind == 1 {
            words.extend([1, 0, 7, 400, 0, 0]);
        }
        for &(position, len) in chunks {
            words.extend([1, position, 7, len, 0, 0]);
        }
        words.extend([0, 0, 0]);
        if kind == 0 {
            words.extend(call);
        }
        let msg: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let Ok(Received::Call(header)) = header::decode(&msg) else {
            panic!("{words:?}");
        };
        let found = match kind {
            0 => check_inline(&header, &msg),
            _ => {
                assert_eq!(check_inline(&header, &msg), Ok(()));
                let word = |at: u32| call.get(at as usize / 4).copied();
                check_read(&header, &msg, word)
            }
        };
        assert!(matches!(
            found,
            Ok(()) | Err(DecodeError::Ineligible { xid: 9 })
        ));
        found.is_ok()
    }

    #[test]
    fn procedures_of_version_3_tell() {
        for (version, procedure, is_good) in [
            (3, 7, true),
            (3, 10, true),
            (3, 2, false),
            (3, 6, false),
            (2, 7, false),
            (5, 7, false),
        ] {
            let call = call(version, procedure, &[0; 8]);
            assert_eq!(checked(0, &call, &[(72, 64)]), is_good, "{procedure}");
            assert_eq!(checked(1, &call, &[(72, 64)]), is_good, "{procedure}");
        }
        let mut other = call(3, 7, &[0; 8]);
        other[3] = NFS + 1;
        assert!(!checked(0, &other, &[(72, 64)]));
        // There is nothing to tell.
        assert!(checked(0, &other, &[]));
        assert!(checked(1, &other, &[]));
    }

    #[test]
    fn words_before_the_data_tell() {
        let write = call(4, 1, &WRITE_4);
        assert!(checked(0, &write, &[(76, 64)]));
        assert!(checked(1, &write, &[(76, 64)]));
        for position in [4, 32, 40, 72] {
            assert!(!checked(0, &write, &[(position, 64)]), "{position}");
            assert!(!checked(1, &write, &[(position, 64)]), "{position}");
        }
        // The link's count is the fifteenth word.
        let link = call(4, 1, &[&[0; 2], &LINK_4[..]].concat());
        assert!(checked(0, &link, &[(60, 64)]));
        let directory = call(4, 1, &[0, 0, operation::CREATE, 2, 64]);
        assert!(!checked(0, &directory, &[(60, 64)]));
        assert!(!checked(0, &call(4, 1, &[]), &[(40, 64)]));
    }

    #[test]
    fn chunks_are_seen_where_they_were_taken_out() {
        // Chunks of 5 bytes, which have pads, and one in the wrong place behind them.
        let two = call(4, 1, &[WRITE_4, WRITE_4].concat());
        let first = 76;
        let second = first + 8 + 36;
        assert!(checked(0, &two, &[(first, 5), (second, 5)]));
        // The order in the list does not matter.
        assert!(checked(0, &two, &[(second, 5), (first, 5)]));
        assert!(!checked(0, &two, &[(first, 5), (second - 8, 5)]));
        assert!(!checked(
            0,
            &two,
            &[(first, 5), (second, 5), (second + 8, 5)]
        ));
        // What is put together has the data itself.
        let whole = [&WRITE_4[..], &[1, 1], &WRITE_4[..], &[2, 2]].concat();
        let whole = call(4, 1, &whole);
        assert!(checked(1, &whole, &[(first, 5), (second, 5)]));
        assert!(!checked(1, &whole, &[(first, 5), (second - 4, 5)]));
        // Version 3 has one of them.
        let three = call(3, 7, &[0; 20]);
        assert!(!checked(0, &three, &[(72, 4), (92, 4)]));
        // Longer than any message.
        assert!(!checked(0, &two, &[(first, u32::MAX), (second, 5)]));
    }

    #[test]
    fn read_plus_is_no_read() {
        let is_result = |version, words: &[u32]| {
            let offset = words.len() as u32 * 4;
            let word = |at: u32| words.get(at as usize / 4).copied();
            is_result(version, word, &Payload { offset, len: 64 })
        };
        assert!(is_result(4, &[1, 25, 0, 1, 64]));
        assert!(is_result(4, &[1, 27, 0, 64]));
        // READ_PLUS: end of file, one segment, which is data from offset 0 on.
        assert!(!is_result(4, &[68, 0, 1, 1, 0, 0, 0, 64]));
        assert!(!is_result(4, &[]));
        // In version 3 nothing else is marked.
        assert!(is_result(3, &[0, 0, 64]));
    }
}

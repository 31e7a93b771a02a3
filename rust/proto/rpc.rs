// SPDX-License-Identifier: GPL-2.0

//! The parts of RPC messages that the transport reads and writes (RFC 5531, section 9).

use crate::error::{
    DecodeError,
    Reason, //
};
use crate::wire;

/// The flavor of RPCSEC_GSS credentials (RFC 2203, section 3).
const RPCSEC_GSS: u32 = 6;

/// Returns the offset of the arguments of a Call, which follow credential and verifier (RFC 5531,
/// section 9). `word` returns the word at a byte of the Call. Returns `None` if the Call ends
/// before its arguments, or if RPCSEC_GSS protects them (RFC 2203, sections 5.2.2 and 5.3.2).
pub(crate) fn arguments(mut word: impl FnMut(u32) -> Option<u32>) -> Option<u32> {
    // XID, direction, RPC version, program, version and procedure precede the credential.
    let (flavor, credential) = (word(24)?, word(28)?);
    let verifier = wire::padded(credential)?.checked_add(32)?;
    let len = word(verifier.checked_add(4)?)?;
    let at = verifier.checked_add(8)?.checked_add(wire::padded(len)?)?;
    (flavor != RPCSEC_GSS || is_plain_gss(word, credential)).then_some(at)
}

/// Returns true if an RPCSEC_GSS credential of `len` bytes does not protect the arguments: version
/// 1, procedure DATA, service none (RFC 2203, section 5.3.1).
fn is_plain_gss(mut word: impl FnMut(u32) -> Option<u32>, len: u32) -> bool {
    // The five words of version, procedure, sequence number, service, and length of the context
    // handle.
    len >= 20 && (word(32), word(36), word(44)) == (Some(1), Some(0), Some(1))
}

/// Checks that the RPC message in a position-zero Read chunk is a Call, and has the XID `xid` of
/// the transport header (RFC 8166, section 4.2.1). `word` returns the word at a byte of the
/// message.
///
/// # Errors
///
/// Returns [`Reason::Xid`] or [`Reason::Direction`].
pub fn check_call(xid: u32, mut word: impl FnMut(u32) -> Option<u32>) -> Result<(), DecodeError> {
    match (word(0), word(4)) {
        (rpc_xid, _) if rpc_xid != Some(xid) => Err(Reason::Xid.of(xid)),
        (_, Some(0)) => Ok(()),
        _ => Err(Reason::Direction.of(xid)),
    }
}

/// Returns the reply to Call `xid` that says that the receiver does not implement the procedure
/// (RFC 5531, section 9: MSG_ACCEPTED, PROC_UNAVAIL). sunrpc does not retry after this reply.
pub fn unavailable(xid: u32) -> [u8; 24] {
    let mut reply = [0; 24];
    // Direction REPLY, state MSG_ACCEPTED, a verifier of AUTH_NONE, PROC_UNAVAIL.
    let words = [xid, 1, 0, 0, 0, 3];
    for (bytes, word) in reply.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// Returns the offset of the arguments of a Call of these words.
    fn found(words: &[u32]) -> Option<u32> {
        arguments(|at| words.get(at as usize / 4).copied())
    }

    #[test]
    fn arguments_begin_behind_the_verifier() {
        let mut words = [0; 19];
        assert_eq!(found(&words), Some(40));
        words[7] = 5;
        words[8 + 2 + 1] = 6;
        assert_eq!(found(&words), Some(56));
        // The offset is known even if the body of the verifier is missing.
        assert_eq!(found(&words[..12]), Some(56));
        assert_eq!(found(&words[..11]), None);
        words[7] = u32::MAX;
        assert_eq!(found(&words), None);
        words[7] = 0xffff_fff0;
        assert_eq!(found(&words), None);
    }

    #[test]
    fn an_unavailable_procedure_names_its_call() {
        let words = [0x8000_0001, 1, 0, 0, 0, 3];
        assert_eq!(unavailable(0x8000_0001).to_vec(), message(&words));
    }

    #[test]
    fn a_chunk_holds_the_call_of_its_header() {
        let check = |words: &[u32]| check_call(7, |at| words.get(at as usize / 4).copied());
        assert_eq!(check(&[7, 0]), Ok(()));
        for words in [&[][..], &[8, 0], &[8, 1]] {
            assert_eq!(check(words), Err(Reason::Xid.of(7)), "{words:?}");
        }
        for words in [&[7][..], &[7, 1], &[7, 1 << 24]] {
            let error = Err(Reason::Direction.of(7));
            assert_eq!(check(words), error, "{words:?}");
        }
    }

    #[test]
    fn gss_may_protect_arguments() {
        let found = |flavor, len, version, procedure, service| {
            let mut words = [0; 19];
            words[6..12].copy_from_slice(&[flavor, len, version, procedure, 99, service]);
            found(&words)
        };
        let plain = Some(60);
        let wrapped = None;
        assert_eq!(found(6, 20, 1, 0, 1), plain);
        // Integrity, privacy, and unknown services.
        for service in [0, 2, 3, 4] {
            assert_eq!(found(6, 20, 1, 0, service), wrapped);
            assert_eq!(found(5, 20, 1, 0, service), plain);
        }
        // INIT, CONTINUE_INIT, DESTROY.
        for procedure in [1, 2, 3] {
            assert_eq!(found(6, 20, 1, procedure, 1), wrapped);
            assert_eq!(found(1, 20, 1, procedure, 1), plain);
        }
        for version in [0, 2] {
            assert_eq!(found(6, 20, version, 0, 1), wrapped);
        }
        // The words behind a short credential do not belong to it.
        assert_eq!(found(6, 16, 1, 0, 1), None);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! RPC messages (RFC 5531, section 9), as far as a transport looks at them.

use crate::wire;
use crate::wire::Reader;

/// The flavor of RPCSEC_GSS credentials (RFC 2203, section 3).
const RPCSEC_GSS: u32 = 6;

/// Returns where the arguments of `call` begin, in bytes: behind credential and verifier (RFC 5531,
/// section 9). `None`: these end beyond what there is of it, or RPCSEC_GSS puts something else in
/// the place of the arguments.
pub(crate) fn arguments(call: &[u8]) -> Option<u32> {
    let mut reader = Reader::new(call);
    // XID, direction, RPC version, program, version, procedure; then the credential.
    reader.skip(6, 4)?;
    let (flavor, credential) = (reader.word()?, reader.word()?);
    if flavor == RPCSEC_GSS && !gss_plain(reader, credential)? {
        return None;
    }
    reader.skip(1, wire::padded(credential)?)?;
    let (_, verifier) = (reader.word()?, reader.word()?);
    reader.at().checked_add(wire::padded(verifier)?)
}

/// Whether the RPCSEC_GSS credential of `len` bytes that `reader` stands at leaves the arguments as
/// they are: version 1, procedure DATA, service none (RFC 2203, section 5.3.1).
fn gss_plain(mut reader: Reader<'_>, len: u32) -> Option<bool> {
    // Besides what is looked at it has at least the length of the context's handle.
    if len < 20 {
        return Some(false);
    }
    let (version, procedure) = (reader.word()?, reader.word()?);
    let (_sequence, service) = (reader.word()?, reader.word()?);
    Some((version, procedure, service) == (1, 0, 1))
}

/// Returns the reply to Call `xid` that says that its receiver has failed (RFC 5531, section 9:
/// MSG_ACCEPTED, SYSTEM_ERR).
pub fn system_error(xid: u32) -> [u8; 24] {
    let mut reply = [0; 24];
    // Direction REPLY, state MSG_ACCEPTED, a verifier of AUTH_NONE, SYSTEM_ERR.
    let words = [xid, 1, 0, 0, 0, 5];
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

    #[test]
    fn arguments_begin_behind_the_verifier() {
        let mut words = [0; 19];
        assert_eq!(arguments(&message(&words)), Some(40));
        words[7] = 5;
        words[8 + 2 + 1] = 6;
        assert_eq!(arguments(&message(&words)), Some(56));
        // The bound does not depend on whether the verifier itself is inline.
        assert_eq!(arguments(&message(&words[..12])), Some(56));
        assert_eq!(arguments(&message(&words[..11])), None);
        words[7] = u32::MAX;
        assert_eq!(arguments(&message(&words)), None);
    }

    #[test]
    fn a_system_error_names_its_call() {
        let words = [0x8000_0001, 1, 0, 0, 0, 5];
        assert_eq!(system_error(0x8000_0001).to_vec(), message(&words));
    }

    #[test]
    fn gss_may_leave_no_arguments() {
        let arguments = |flavor, len, version, procedure, service| {
            let mut words = [0; 19];
            words[6..12].copy_from_slice(&[flavor, len, version, procedure, 99, service]);
            arguments(&message(&words))
        };
        let plain = Some(60);
        assert_eq!(arguments(6, 20, 1, 0, 1), plain);
        // Integrity, privacy, and what nobody knows.
        for service in [0, 2, 3, 4] {
            assert_eq!(arguments(6, 20, 1, 0, service), None);
            assert_eq!(arguments(5, 20, 1, 0, service), plain);
        }
        // INIT, CONTINUE_INIT, DESTROY.
        for procedure in [1, 2, 3] {
            assert_eq!(arguments(6, 20, 1, procedure, 1), None);
            assert_eq!(arguments(1, 20, 1, procedure, 1), plain);
        }
        for version in [0, 2] {
            assert_eq!(arguments(6, 20, version, 0, 1), None);
        }
        // What follows a short credential is not part of it.
        assert_eq!(arguments(6, 16, 1, 0, 1), None);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Callbacks: Calls that the server makes to its client. Tells them from replies, and builds the
//! reply to one.

use crate::{
    message::Reply,
    xdr::{Words, Xdr},
};

/// Operation numbers of a callback.
mod operation {
    pub(super) const SEQUENCE: u32 = 11;
    pub(super) const NOTIFY_LOCK: u32 = 13;
}

/// The RPC program number of callbacks, which the client chooses.
pub(crate) const PROGRAM: u32 = 0x4000_0000;

/// Builds the successful reply to `call`, which must be a CB_NOTIFY_LOCK; returns `None` if it is
/// something else.
pub(crate) fn success(call: &Reply) -> Option<Vec<u8>> {
    let mut words = Words::new(&call.body);
    // XID, direction, RPC version, program, version, procedure; then credential and verifier.
    words.skip(6)?;
    for _ in 0..2 {
        words.skip(1)?;
        words.opaque()?;
    }
    words.opaque()?;
    let (_minor, _ident, count) = (words.word()?, words.word()?, words.word()?);
    let first = words.word()?;
    ((count, first) == (2, operation::SEQUENCE)).then_some(())?;
    let mut sequence = [0; 7];
    for word in &mut sequence {
        *word = words.word()?;
    }
    let reply = Xdr::new()
        // REPLY, MSG_ACCEPTED, no verifier, SUCCESS.
        .words(&[call.xid, 1, 0, 0, 0, 0])
        .words(&[0, 0, 2, operation::SEQUENCE, 0])
        .words(&sequence)
        // Target highest slot: the same as the highest slot in use.
        .word(sequence[6])
        .words(&[operation::NOTIFY_LOCK, 0]);
    Some(reply.into_bytes())
}

/// Returns true if the RPC message `body` is a Call.
pub(crate) fn is_call(body: &[u8]) -> bool {
    let mut words = Words::new(body);
    words.skip(1).and_then(|()| words.word()) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc;

    #[test]
    fn calls_are_no_replies() {
        assert!(is_call(&rpc::null(3, 7)));
        assert!(!is_call(&[0; 4]));
        assert!(!is_call(&Xdr::new().words(&[7, 1]).into_bytes()));
    }

    #[test]
    fn a_callback_is_answered_with_its_own_sequence() {
        let body = Xdr::new()
            .words(&[9, 0, 2, PROGRAM, 1, 1, 0, 0, 0, 0])
            // No tag, minor version 1, no ident, two operations.
            .words(&[0, 1, 0, 2, operation::SEQUENCE])
            .words(&[1, 2, 3, 4, 50, 6, 7, 0, 0])
            .word(operation::NOTIFY_LOCK)
            .into_bytes();
        let call = Reply {
            xid: 9,
            credits: 1,
            procedure: 0,
            writes: Vec::new(),
            reply: None,
            body,
        };
        let expected = Xdr::new()
            .words(&[9, 1, 0, 0, 0, 0, 0, 0, 2, operation::SEQUENCE, 0])
            .words(&[1, 2, 3, 4, 50, 6, 7, 7, operation::NOTIFY_LOCK, 0]);
        assert_eq!(success(&call), Some(expected.into_bytes()));
    }
}

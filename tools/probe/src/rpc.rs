// SPDX-License-Identifier: GPL-2.0

//! Builds the probe's RPC Calls (NULL and the few NFS procedures that need no mount) and parses RPC
//! replies.
//!
//! nfsd limits the number of connections whose peer it has not validated. A Call validates its peer
//! when it names a file that the peer may access; a GETATTR of the root does.
//!
//! [`crate::compound`] builds the COMPOUNDs that read and write files.

use crate::{
    error::{Error, Result},
    xdr::{Words, Xdr}, //
};

/// The RPC program number of NFS.
const NFS: u32 = 100_003;

/// SUCCESS: the Call was executed.
pub(crate) const SUCCESS: u32 = 0;

/// PROG_MISMATCH: the server does not support this version of the program.
const MISMATCH: u32 = 2;

/// GARBAGE_ARGS: the server cannot decode the arguments.
pub(crate) const GARBAGE_ARGS: u32 = 4;

/// Builds the header of a Call, up to its arguments.
fn call(xid: u32, version: u32, procedure: u32, credential: Xdr) -> Xdr {
    Xdr::new()
        .words(&[xid, 0, 2, NFS, version, procedure])
        .raw(&credential.into_bytes())
        // No verifier.
        .words(&[0, 0])
}

/// Returns an AUTH_NONE credential.
fn no_credential() -> Xdr {
    Xdr::new().words(&[0, 0])
}

/// Returns an AUTH_SYS credential of root on a host named "probe".
fn root() -> Xdr {
    let body = Xdr::new().word(0).opaque(b"probe").words(&[0, 0, 0]);
    Xdr::new().word(1).opaque(&body.into_bytes())
}

/// Builds a NULL Call of this NFS version.
pub(crate) fn null(version: u32, xid: u32) -> Vec<u8> {
    call(xid, version, 0, no_credential()).into_bytes()
}

/// Builds a Call of NFS version 3, up to its arguments.
pub(crate) fn version_3(xid: u32, procedure: u32) -> Xdr {
    call(xid, 3, procedure, root())
}

/// A Call whose data is moved to a Read chunk.
pub(crate) struct Reduced {
    /// The RPC message without the data.
    pub(crate) inline: Vec<u8>,
    /// The XDR position of the data.
    pub(crate) position: u32,
}

/// Builds a WRITE of NFS version 3 with `count` bytes and a file handle that no server knows.
pub(crate) fn write(xid: u32, count: u32) -> Reduced {
    let message = call(xid, 3, 7, root())
        .opaque(&[0xa5; 32])
        .hyper(0)
        // Count, UNSTABLE, length of the data.
        .words(&[count, 0, count]);
    Reduced {
        position: message.len() as u32,
        inline: message.into_bytes(),
    }
}

/// Builds a COMPOUND of NFS version 4, up to its arguments.
pub(crate) fn compound_call(xid: u32) -> Xdr {
    call(xid, 4, 1, root())
}

/// The outcome of a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The Call was accepted and executed. Holds the first word of the results, if any.
    Success(Option<u32>),
    /// The Call was refused, or the message is not its reply.
    Failure,
}

/// Parses the reply to the Call `xid`.
pub(crate) fn outcome(xid: u32, body: &[u8]) -> Outcome {
    let results = results(xid, body).map(|mut results| results.word());
    results.map_or(Outcome::Failure, Outcome::Success)
}

/// Returns the results in the reply to the Call `xid`; `None` if it is not the reply to that Call
/// or the Call was not executed.
pub(crate) fn results(xid: u32, body: &[u8]) -> Option<Words<'_>> {
    let (status, words) = accepted(xid, body)?;
    (status == SUCCESS).then_some(words)
}

/// Returns `accept_stat` of the reply to the Call `xid` and what follows it; `None` if `body` is
/// not an accepted reply to that Call (RFC 5531, section 9).
pub(crate) fn accepted(xid: u32, body: &[u8]) -> Option<(u32, Words<'_>)> {
    let mut words = Words::new(body);
    let head = [words.word()?, words.word()?, words.word()?];
    // REPLY, MSG_ACCEPTED.
    (head == [xid, 1, 0]).then_some(())?;
    let _flavor = words.word()?;
    words.opaque()?;
    Some((words.word()?, words))
}

/// Returns an error if the reply to the version 3 Call `xid` shows that the server lacks NFS
/// version 3.
pub(crate) fn has_version_3(xid: u32, body: &[u8]) -> Result {
    match accepted(xid, body) {
        Some((MISMATCH, _)) => Err(Error::unavailable("no NFS version 3")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_understood() {
        let ok = Xdr::new().words(&[7, 1, 0, 0, 0, 0]);
        assert_eq!(outcome(7, &ok.clone().into_bytes()), Outcome::Success(None));
        assert_eq!(outcome(8, &ok.into_bytes()), Outcome::Failure);
        assert_eq!(outcome(7, &[]), Outcome::Failure);
    }

    #[test]
    fn the_position_of_the_data_is_aligned() {
        assert_eq!(write(1, 100).position % 4, 0);
    }
}

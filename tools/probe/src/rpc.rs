// SPDX-License-Identifier: GPL-2.0

//! The RPC Calls the probe makes: NULL, and the few of NFS that need no mount.
//!
//! nfsd counts a connection as an unknown one, of which it keeps few, until a Call on it has named
//! a file that the peer may access. GETATTR of the root does.
//!
//! Reading and writing files is in [`crate::compound`].

use crate::{
    compound::Compound,
    error::{Error, Result},
    xdr::{Words, Xdr}, //
};
use std::sync::atomic::{AtomicU32, Ordering};

/// The NFS program.
const NFS: u32 = 100_003;

/// The version of NFS by which NULL is called.
static NULL_VERSION: AtomicU32 = AtomicU32::new(3);

/// SUCCESS: a Call was executed.
pub(crate) const SUCCESS: u32 = 0;

/// PROG_MISMATCH: a version of a program that the server does not have.
const MISMATCH: u32 = 2;

/// GARBAGE_ARGS: arguments that the server cannot decode.
pub(crate) const GARBAGE_ARGS: u32 = 4;

/// A Call with credentials, up to its arguments.
fn call(xid: u32, version: u32, procedure: u32, credential: Xdr) -> Xdr {
    Xdr::new()
        .words(&[xid, 0, 2, NFS, version, procedure])
        .raw(&credential.into_bytes())
        // No verifier.
        .words(&[0, 0])
}

/// AUTH_NONE.
fn nobody() -> Xdr {
    Xdr::new().words(&[0, 0])
}

/// AUTH_SYS as root of a host named "probe".
fn root() -> Xdr {
    let body = Xdr::new().word(0).opaque(b"probe").words(&[0, 0, 0]);
    Xdr::new().word(1).opaque(&body.into_bytes())
}

/// NULL.
pub(crate) fn null(xid: u32) -> Vec<u8> {
    let version = NULL_VERSION.load(Ordering::Relaxed);
    call(xid, version, 0, nobody()).into_bytes()
}

/// Has NULL be of NFS version 4 from now on: a server may have no version 3.
pub(crate) fn null_by_version_4() {
    NULL_VERSION.store(4, Ordering::Relaxed);
}

/// A procedure of NFS version 3, up to its arguments.
pub(crate) fn version_3(xid: u32, procedure: u32) -> Xdr {
    call(xid, 3, procedure, root())
}

/// A Call whose data goes by Read chunk.
pub(crate) struct Reduced {
    /// The message without the data.
    pub(crate) inline: Vec<u8>,
    /// Where the data belongs.
    pub(crate) position: u32,
}

/// WRITE of NFS version 3 with `count` bytes to a file handle that no server knows.
pub(crate) fn write(xid: u32, count: u32) -> Reduced {
    let message = call(xid, 3, 7, root())
        .opaque(&[0xa5; 32])
        .hyper(0)
        // Count, UNSTABLE, and the length of the data.
        .words(&[count, 0, count]);
    Reduced {
        position: message.len() as u32,
        inline: message.into_bytes(),
    }
}

/// COMPOUND of NFS version 4.0, up to its arguments.
pub(crate) fn compound_call(xid: u32) -> Xdr {
    call(xid, 4, 1, root())
}

/// COMPOUND of NFS version 4.0: READ of `count` bytes of the file at `path`.
pub(crate) fn read(xid: u32, path: &str, count: u32) -> Vec<u8> {
    Compound::at(xid, path).read(0, count).finish().inline
}

/// COMPOUND of NFS version 4.0: GETATTR of the type of the root.
pub(crate) fn getattr(xid: u32) -> Vec<u8> {
    Compound::at_root(xid).getattr().finish().inline
}

/// What an RPC reply says, as far as the probe wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Accepted and executed; the first word of the results, if there are any.
    Success(Option<u32>),
    /// Refused, or not a reply at all.
    Failure,
}

/// Reads the reply to the Call `xid`.
pub(crate) fn outcome(xid: u32, body: &[u8]) -> Outcome {
    let results = results(xid, body).map(|mut results| results.word());
    results.map_or(Outcome::Failure, Outcome::Success)
}

/// Returns the results in the reply to the Call `xid`; `None` when it is no accepted and executed
/// one.
pub(crate) fn results(xid: u32, body: &[u8]) -> Option<Words<'_>> {
    let (status, words) = accepted(xid, body)?;
    (status == SUCCESS).then_some(words)
}

/// Returns `accept_stat` of the reply to the Call `xid`, and what follows it; `None` when it is no
/// accepted one (RFC 5531, section 9).
pub(crate) fn accepted(xid: u32, body: &[u8]) -> Option<(u32, Words<'_>)> {
    let mut words = Words::new(body);
    let head = [words.word()?, words.word()?, words.word()?];
    // REPLY, MSG_ACCEPTED.
    (head == [xid, 1, 0]).then_some(())?;
    let _flavor = words.word()?;
    words.opaque()?;
    Some((words.word()?, words))
}

/// A server that the reply to the Call `xid`, of NFS version 3, comes from must have that version.
pub(crate) fn has_version_3(xid: u32, body: &[u8]) -> Result {
    match accepted(xid, body) {
        Some((MISMATCH, _)) => Err(Error::lack("no NFS version 3")),
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
    fn getattr_ends_with_its_operations() {
        let ends = Xdr::new().words(&[2, 24, 9, 1, 2]).into_bytes();
        assert!(getattr(1).ends_with(&ends));
    }

    #[test]
    fn the_position_of_the_data_is_aligned() {
        assert_eq!(write(1, 100).position % 4, 0);
    }
}

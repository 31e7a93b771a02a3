// SPDX-License-Identifier: GPL-2.0

//! The side of NFS: NULL, READ and WRITE.

use super::{
    cell::{Cell, Kind},
    sample::{Round, Sample},
};
use crate::{
    calls::{Calls, Line},
    compound::{operation, Compound, Results},
    error::{Error, Result},
    message::{Answer, Message},
    mix::{self, Mix},
    peer::{Incoming, Params, Peer, PATIENCE},
    target::Target,
};
use std::time::Duration;

/// The bits of FATTR4_MAXREAD and FATTR4_MAXWRITE (RFC 7531).
const LARGEST: u32 = 3 << 30;

/// Returns the most bytes of a READ and of a WRITE.
pub(super) fn largest(target: &Target) -> Result<(u32, u32)> {
    let mut peer = Peer::connect(target, Params::default())?;
    let xid = peer.xid();
    let call = Compound::at_root(xid).operation(operation::GETATTR, |xdr| xdr.words(&[1, LARGEST]));
    let found = match peer.exchange(&Message::inline(xid, call.finish().inline))? {
        Incoming::Answer(Answer::Reply(reply)) => decode(xid, &reply.body),
        _ => None,
    };
    peer.disconnect()?;
    found.ok_or_else(|| Error::new("the server does not tell how long a READ may be"))
}

/// Returns the attributes of a Reply.
fn decode(xid: u32, body: &[u8]) -> Option<(u32, u32)> {
    let mut results = Results::new(xid, body)?;
    results.at("")?;
    results.good(operation::GETATTR)?;
    let words = results.words();
    let head = [words.word()?, words.word()?, words.word()?];
    (head == [1, LARGEST, 16]).then_some(())?;
    let mut next = || Some(u32::try_from(words.hyper()?).unwrap_or(u32::MAX));
    Some((next()?, next()?))
}

/// Returns the Calls of a cell, or `None` if it is not one of NFS.
pub(super) fn calls(cell: &Cell, file: &str) -> Option<Calls> {
    let kind = match cell.kind {
        Kind::Null => mix::Kind::Null,
        Kind::Read => mix::Kind::Read,
        Kind::Write => mix::Kind::Write,
        _ => return None,
    };
    Some(Calls {
        mix: Mix::of(kind),
        size: cell.size,
        segments: 1,
        file: file.to_owned(),
        depth: cell.in_flight,
        patience: PATIENCE,
        is_valid: true,
        ack_timeout: None,
    })
}

/// Measures a cell on a connection.
pub(super) fn measure(cell: &Cell, line: &mut Line<'_>, most: Duration) -> Result<Sample> {
    let mut round = Round::new(most, cell.in_flight)?;
    let made = line.make(&mut &mut round);
    made.map_err(|error| error.within(format_args!("{} of {} bytes", cell.kind, cell.size)))?;
    Ok(round.sample())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::Xdr;

    #[test]
    fn attributes_are_read() {
        let reply = |words: &[u32]| {
            // Accepted, no verifier, success; status, no tag, two operations.
            let body = Xdr::new().words(&[7, 1, 0, 0, 0, 0, 0, 0, 2, 24, 0, 9, 0]);
            decode(7, &body.words(words).into_bytes())
        };
        let good = [1, LARGEST, 16, 0, 1 << 20, 1, 0];
        assert_eq!(reply(&good), Some((1 << 20, u32::MAX)));
        assert_eq!(reply(&good[..6]), None);
        assert_eq!(reply(&[1, 1 << 30, 8, 0, 1 << 20]), None);
    }

    #[test]
    fn only_cells_of_nfs_have_calls() {
        for kind in Kind::ALL {
            let cell = Cell {
                kind,
                size: 64,
                depth: 9,
                in_flight: 3,
            };
            let depth = calls(&cell, "f").map(|calls| calls.depth);
            assert_eq!(depth, kind.is_nfs().then_some(3), "{kind}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The server that rows check, and the checks that they share.

use crate::{
    error::{Error, Result},
    message::{Answer, Message, Reply},
    peer::{Incoming, Params, Peer, PATIENCE},
    rpc,
    target::Target, //
};
use std::collections::BTreeMap;

/// The server and the settings that rows use.
pub(super) struct Bench<'a> {
    pub(super) target: Target,
    /// The path of a file, below the root of NFS version 4.
    pub(super) file: Option<&'a str>,
    /// The length of the longest Call that the server accepts, in bytes.
    pub(super) call_limit: Option<u32>,
    /// True if a sample of the cases is to be tried instead of all of them.
    pub(super) is_quick: bool,
}

impl Bench<'_> {
    /// Makes the first connection and determines the NFS version of NULL Calls.
    pub(super) fn first_peer(&mut self) -> Result<Peer> {
        let mut peer = Peer::connect(&self.target, Params::default())?;
        if let Err(error) = peer.null() {
            // The server may lack version 3.
            self.target.null_version = 4;
            peer = Peer::connect(&self.target, Params::default())?;
            peer.null().map_err(|_| error)?;
        }
        Ok(peer)
    }

    /// Connects with the parameters of the Linux client and makes a NULL Call.
    pub(super) fn peer(&self) -> Result<Peer> {
        let mut peer = Peer::connect(&self.target, Params::default())?;
        peer.null()?;
        Ok(peer)
    }

    /// Returns true if the local device supports memory windows.
    pub(super) fn has_windows(&self) -> Result<bool> {
        let mut peer = Peer::connect(&self.target, Params::default())?;
        let window = peer.window(1)?;
        Ok(window.is_some())
    }

    /// Returns the path of the file.
    pub(super) fn file(&self) -> &str {
        self.file.unwrap_or_default()
    }

    /// Returns the path of the directory that contains the file; other directories may not be
    /// writable.
    pub(super) fn folder(&self) -> &str {
        self.file()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder)
    }
}

/// Sends `message` and returns the RPC message that answers it. A server may refuse chunks beyond
/// what it must accept (RFC 8267, section 6.4.2); the error then says that nothing else is known.
pub(super) fn reply_to(peer: &mut Peer, message: &Message) -> Result<Reply> {
    let refused = match peer.exchange(message)? {
        Incoming::Answer(Answer::Reply(reply)) => match rpc::accepted(message.xid, &reply.body) {
            Some((rpc::GARBAGE_ARGS, _)) if is_complex(message) => "GARBAGE_ARGS",
            _ => return Ok(reply),
        },
        Incoming::Answer(Answer::ErrChunk { .. }) if is_complex(message) => "ERR_CHUNK",
        other => return Err(Error::new(format!("no reply but {other:?}"))),
    };
    expect_quiet(peer)?;
    let refusal = format!("more chunks than the server accepts: {refused}");
    Err(Error::declined(refusal))
}

/// Returns true if `message` has more than every server must accept: a position-zero Read chunk,
/// another Read chunk, a Write chunk and a Reply chunk, each of 16 segments.
fn is_complex(message: &Message) -> bool {
    let mut sizes = BTreeMap::new();
    for read in &message.reads {
        *sizes.entry(read.position).or_default() += 1;
    }
    let chunks = message.writes.iter().chain(&message.reply);
    sizes.keys().filter(|&&position| position != 0).count() > 1
        || message.writes.len() > 1
        || sizes
            .into_values()
            .chain(chunks.map(Vec::len))
            .any(|segments| segments > 16)
}

/// Checks that the next message is an ERR_CHUNK for `xid`.
pub(super) fn expect_err_chunk(peer: &mut Peer, xid: u32) -> Result {
    match peer.receive(PATIENCE)? {
        Incoming::Answer(Answer::ErrChunk { xid: its, .. }) if its == xid => Ok(()),
        other => Err(Error::new(format!("not ERR_CHUNK but {other:?}"))),
    }
}

/// Checks that no other answer arrives before that to a NULL Call.
pub(super) fn expect_quiet(peer: &mut Peer) -> Result {
    peer.null().map(drop)
}

/// Returns the error `wrong` unless `met`.
pub(super) fn require(met: bool, wrong: impl Into<String>) -> Result {
    if met {
        Ok(())
    } else {
        Err(Error::new(wrong))
    }
}

/// Formats the beginning of a message for error texts.
pub(super) fn begin(message: &[u8]) -> String {
    let shown = &message[..message.len().min(64)];
    format!("{} bytes, {shown:02x?}", message.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use svcrdma_proto::chunk::{ReadSegment, Segment};

    const SEGMENT: Segment = Segment {
        handle: 1,
        length: 4,
        offset: 0,
    };

    /// Returns a message with Read segments at these positions and Write chunks of these numbers of
    /// segments.
    fn message(positions: &[u32], writes: &[usize]) -> Message {
        let mut message = Message::inline(7, Vec::new());
        let reads = positions.iter().map(|&position| ReadSegment {
            position,
            segment: SEGMENT,
        });
        message.reads = reads.collect();
        message.writes = writes.iter().map(|&count| vec![SEGMENT; count]).collect();
        message
    }

    #[test]
    fn one_chunk_of_each_kind_has_to_be_taken() {
        let both = [[0; 16], [40; 16]].concat();
        let mut most = message(&both, &[16]);
        most.reply = Some(vec![SEGMENT; 16]);
        assert!(!is_complex(&most));
        most.reply = Some(vec![SEGMENT; 17]);
        assert!(is_complex(&most));
    }

    #[test]
    fn more_may_be_refused() {
        assert!(is_complex(&message(&[40, 44], &[])));
        assert!(is_complex(&message(&[40; 17], &[])));
        assert!(is_complex(&message(&[0; 17], &[])));
        assert!(is_complex(&message(&[], &[1, 0])));
        assert!(is_complex(&message(&[], &[17])));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! A row: what an RFC requires of a server, and how that is tried.

use super::{
    messages::Props,
    seen::{self, Seen},
};
use crate::{
    error::{Error, Result},
    message::{Answer, Message, Reply},
    peer::{Incoming, Manners, Peer, PATIENCE},
    rpc,
};
use std::{collections::BTreeMap, net::SocketAddr};

/// A requirement.
pub(super) struct Row {
    /// What is sent or done; no two rows have the same name.
    pub(super) name: &'static str,
    /// RFC and section.
    pub(super) source: &'static str,
    pub(super) needs: Needs,
    pub(super) check: Check,
}

/// What a row cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// A file that may be overwritten.
    File,
    /// Knowledge of how long a Call may be.
    CallLimit,
    /// A file, and a device with memory windows.
    Window,
}

/// How a row is tried.
pub(super) enum Check {
    /// One message; the server may do any of these.
    Answer(&'static [Seen], fn(&Props<'_>) -> Vec<u8>),
    /// Something longer; the error says what is wrong.
    Script(fn(&Bench<'_>) -> Result),
    /// Likewise, where the server has a choice.
    Choice(fn(&Bench<'_>) -> Result<Seen>),
}

/// What came of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// And what the server did, if that is a choice.
    Met(Option<Seen>),
    /// And what is wrong.
    Violated(String),
    /// And what is missing.
    NotTried(String),
}

/// Whom rows talk to, and what they may use.
pub(super) struct Bench<'a> {
    pub(super) target: SocketAddr,
    /// The path of a file below the root of NFS version 4.
    pub(super) file: Option<&'a str>,
    /// The most bytes of a Call that the server takes.
    pub(super) call_limit: Option<u32>,
    /// Whether few cases are to stand for many of a kind.
    pub(super) is_quick: bool,
}

impl Row {
    /// A row of a script that needs nothing.
    pub(super) const fn script(
        source: &'static str,
        name: &'static str,
        script: fn(&Bench<'_>) -> Result,
    ) -> Self {
        Self {
            name,
            source,
            needs: Needs::Nothing,
            check: Check::Script(script),
        }
    }

    /// A row of a script that needs a file.
    pub(super) const fn file_script(
        source: &'static str,
        name: &'static str,
        script: fn(&Bench<'_>) -> Result,
    ) -> Self {
        Self {
            needs: Needs::File,
            ..Self::script(source, name, script)
        }
    }

    /// A row of a script that needs nothing, where the server has a choice.
    pub(super) const fn choice(
        source: &'static str,
        name: &'static str,
        script: fn(&Bench<'_>) -> Result<Seen>,
    ) -> Self {
        Self {
            name,
            source,
            needs: Needs::Nothing,
            check: Check::Choice(script),
        }
    }

    /// Tries it.
    pub(super) fn try_on(&self, bench: &Bench<'_>) -> Outcome {
        let result = self.has_needs(bench).and_then(|()| match self.check {
            Check::Answer(want, build) => seen::try_message(bench, want, build).map(Some),
            Check::Script(script) => script(bench).map(|()| None),
            Check::Choice(script) => script(bench).map(Some),
        });
        match result {
            Ok(seen) => Outcome::Met(seen),
            Err(error) if error.is_lack() => Outcome::NotTried(error.to_string()),
            Err(error) => Outcome::Violated(error.to_string()),
        }
    }

    /// What it cannot do without must be there.
    fn has_needs(&self, bench: &Bench<'_>) -> Result {
        let has_file = bench.file.is_some();
        match self.needs {
            Needs::File | Needs::Window if !has_file => Err(Error::lack("no --file")),
            Needs::Window => match bench.has_windows()? {
                true => Ok(()),
                false => Err(Error::lack("a device without memory windows")),
            },
            Needs::CallLimit if bench.call_limit.is_none() => Err(Error::lack("no --call-limit")),
            _ => Ok(()),
        }
    }
}

impl Bench<'_> {
    /// Connects first of all, and finds out by which version of NFS to call NULL.
    pub(super) fn first_peer(&self) -> Result<Peer> {
        let mut peer = Peer::connect(&self.target, Manners::default())?;
        if let Err(error) = peer.null() {
            rpc::null_by_version_4();
            peer.null().map_err(|_| error)?;
        }
        Ok(peer)
    }

    /// Connects as the Linux client does, and makes a Call.
    pub(super) fn peer(&self) -> Result<Peer> {
        let mut peer = Peer::connect(&self.target, Manners::default())?;
        peer.null()?;
        Ok(peer)
    }

    /// Whether this side's device has memory windows.
    fn has_windows(&self) -> Result<bool> {
        let mut peer = Peer::connect(&self.target, Manners::default())?;
        let window = peer.window(1)?;
        Ok(window.is_some())
    }

    /// Returns the path of the file.
    pub(super) fn file(&self) -> &str {
        self.file.unwrap_or_default()
    }

    /// Returns the path of the folder that the file is in: others may not be writable.
    pub(super) fn folder(&self) -> &str {
        self.file()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder)
    }
}

/// Sends `message` and returns the RPC message that answers it. Chunks that no server has to take may
/// be refused (RFC 8267, section 6.4.2), and then nothing else is known.
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
    let refusal = format!("too many chunks for the server: {refused}");
    Err(Error::lack(refusal))
}

/// Whether `message` has more than every server has to take: a position-zero Read chunk, another
/// Read chunk and a Write chunk, each of 16 segments.
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

/// Waits for ERR_CHUNK as the next message, for `xid`.
pub(super) fn expect_err_chunk(peer: &mut Peer, xid: u32) -> Result {
    match peer.receive(PATIENCE)? {
        Incoming::Answer(Answer::ErrChunk { xid: its, .. }) if its == xid => Ok(()),
        other => Err(Error::new(format!("not ERR_CHUNK but {other:?}"))),
    }
}

/// There must not have been another answer: that to a NULL Call is the next message.
pub(super) fn expect_quiet(peer: &mut Peer) -> Result {
    peer.null().map(drop)
}

/// Says what is wrong unless `met`.
pub(super) fn require(met: bool, wrong: impl Into<String>) -> Result {
    match met {
        true => Ok(()),
        false => Err(Error::new(wrong)),
    }
}

/// Returns the first bytes of a message, for people to look at.
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

    /// A message with Read segments at these positions, and Write chunks of so many segments.
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

// SPDX-License-Identifier: GPL-2.0

//! A row: a requirement of an RFC and its check.

use super::{
    messages::Props,
    seen::{self, Seen},
};
use crate::{
    error::{Error, Result},
    message::{Answer, Message, Reply},
    peer::{Incoming, Params, Peer, PATIENCE},
    rpc,
    target::Target, //
};
use std::collections::BTreeMap;

/// A requirement and its check.
pub(super) struct Row {
    /// A unique name that says what is sent or done.
    pub(super) name: &'static str,
    /// The RFC and section.
    pub(super) source: &'static str,
    pub(super) needs: Needs,
    pub(super) check: Check,
}

/// The prerequisite of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// A file that may be overwritten.
    File,
    /// The length of the longest Call that the server accepts.
    CallLimit,
    /// A file, and a device with memory windows.
    Window,
}

/// The check of a row.
pub(super) enum Check {
    /// Sends one message and accepts any of these reactions.
    Answer(&'static [Seen], fn(&Props<'_>) -> Vec<u8>),
    /// Runs a script, whose error describes the violation.
    Script(fn(&Bench<'_>) -> Result),
    /// Runs a script in which the server has a choice. Returns its reaction.
    Choice(fn(&Bench<'_>) -> Result<Seen>),
}

/// The outcome of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The requirement is met. Holds the server's reaction if it has a choice.
    Met(Option<Seen>),
    /// The requirement is violated. Holds the reason.
    Violated(String),
    /// The row was not tried. Holds the missing prerequisite.
    NotTried(String),
    /// The row could not be tried. Holds the error of this side.
    Failed(String),
}

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

impl Row {
    /// Creates a row with a script that has no prerequisite.
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

    /// Creates a row with a script that needs a file.
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

    /// Creates a row with a script that has no prerequisite and in which the server has a choice.
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

    /// Runs the check.
    pub(super) fn try_on(&self, bench: &Bench<'_>) -> Outcome {
        let result = self.has_needs(bench).and_then(|()| match self.check {
            Check::Answer(want, build) => seen::try_message(bench, want, build).map(Some),
            Check::Script(script) => script(bench).map(|()| None),
            Check::Choice(script) => script(bench).map(Some),
        });
        match result {
            Ok(seen) => Outcome::Met(seen),
            Err(error) if error.is_finding() => Outcome::Violated(error.to_string()),
            Err(error) if error.is_local() => Outcome::Failed(error.to_string()),
            Err(error) => Outcome::NotTried(error.to_string()),
        }
    }

    /// Returns an error if the prerequisite is missing.
    fn has_needs(&self, bench: &Bench<'_>) -> Result {
        let has_file = bench.file.is_some();
        match self.needs {
            Needs::File | Needs::Window if !has_file => Err(Error::unavailable("no --file")),
            Needs::Window => match bench.has_windows()? {
                true => Ok(()),
                false => Err(Error::unavailable("the device has no memory windows")),
            },
            Needs::CallLimit if bench.call_limit.is_none() => {
                Err(Error::unavailable("no --call-limit"))
            }
            _ => Ok(()),
        }
    }
}

impl Bench<'_> {
    /// Makes the first connection and determines the NFS version of NULL Calls.
    pub(super) fn first_peer(&self) -> Result<Peer> {
        let mut peer = Peer::connect(&self.target, Params::default())?;
        if let Err(error) = peer.null() {
            rpc::null_by_version_4();
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
    fn has_windows(&self) -> Result<bool> {
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
    match met {
        true => Ok(()),
        false => Err(Error::new(wrong)),
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
    use crate::ffi::Fake;
    use svcrdma_proto::chunk::{ReadSegment, Segment};

    /// Tries a row whose script ends with `result`.
    fn tried(script: fn(&Bench<'_>) -> Result) -> Outcome {
        let target = Fake::target();
        let bench = Bench {
            target,
            file: None,
            call_limit: None,
            is_quick: true,
        };
        Row::script("no RFC", "a row", script).try_on(&bench)
    }

    #[test]
    fn errors_of_this_side_violate_nothing() {
        let fake = Fake::new();
        fake.fail("ibv_reg_mr");
        let failed = tried(|bench| bench.peer().map(drop));
        assert!(matches!(&failed, Outcome::Failed(why) if why.starts_with("ibv_reg_mr: ")));
        let failed = tried(|bench| bench.peer().map(drop).map_err(|error| error.within("it")));
        assert!(matches!(&failed, Outcome::Failed(why) if why.starts_with("it: ")));
        let missing = tried(|_| Err(Error::unavailable("no file")));
        assert_eq!(missing, Outcome::NotTried("no file".to_owned()));
        let violated = tried(|_| Err(Error::new("wrong")));
        assert_eq!(violated, Outcome::Violated("wrong".to_owned()));
    }

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

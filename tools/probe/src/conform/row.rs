// SPDX-License-Identifier: GPL-2.0

//! A row: what an RFC requires of a server, and how that is tried.

use super::messages::{self, Props, Seen};
use crate::{
    error::{Error, Result},
    message::{Answer, Message, Reply},
    peer::{Incoming, Manners, Peer, PATIENCE},
};
use std::net::SocketAddr;

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
}

/// What came of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// And what the server did, if that is a choice.
    Met(Option<Seen>),
    /// And what is wrong.
    Violated(String),
    /// And what is missing.
    NotTried(&'static str),
}

/// Whom rows talk to, and what they may use.
pub(super) struct Bench<'a> {
    pub(super) target: SocketAddr,
    /// The path of a file below the root of NFS version 4.
    pub(super) file: Option<&'a str>,
    /// The most bytes of a Call that the server takes.
    pub(super) call_limit: Option<u32>,
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

    /// Tries it.
    pub(super) fn try_on(&self, bench: &Bench<'_>) -> Outcome {
        match self.needs {
            Needs::File | Needs::Window if bench.file.is_none() => {
                return Outcome::NotTried("no --file");
            }
            Needs::Window => match bench.has_windows() {
                Ok(true) => (),
                Ok(false) => return Outcome::NotTried("a device without memory windows"),
                Err(error) => return Outcome::Violated(error.to_string()),
            },
            Needs::CallLimit if bench.call_limit.is_none() => {
                return Outcome::NotTried("no --call-limit");
            }
            _ => (),
        }
        let result = match self.check {
            Check::Answer(want, build) => messages::try_message(bench, want, build).map(Some),
            Check::Script(script) => script(bench).map(|()| None),
        };
        match result {
            Ok(seen) => Outcome::Met(seen),
            Err(error) => Outcome::Violated(error.to_string()),
        }
    }
}

impl Bench<'_> {
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
}

/// Sends `message` and returns the RPC message that answers it.
pub(super) fn reply_to(peer: &mut Peer, message: &Message) -> Result<Reply> {
    match peer.exchange(message)? {
        Incoming::Answer(Answer::Reply(reply)) => Ok(reply),
        other => Err(Error::new(format!("no reply but {other:?}"))),
    }
}

/// Waits for ERR_CHUNK as the next message, for `xid`.
pub(super) fn expect_err_chunk(peer: &mut Peer, xid: u32) -> Result {
    match peer.receive(PATIENCE)? {
        Incoming::Answer(Answer::ErrChunk { xid: its, .. }) if its == xid => Ok(()),
        other => Err(Error::new(format!("not ERR_CHUNK but {other:?}"))),
    }
}

/// Makes a NULL Call whose reply must be the next message.
pub(super) fn expect_quiet(peer: &mut Peer) -> Result {
    let xid = peer.xid();
    peer.send(&Message::inline(xid, crate::rpc::null(xid)))?;
    match peer.receive(PATIENCE)? {
        Incoming::Answer(answer) if answer.xid() == Some(xid) => Ok(()),
        other => Err(Error::new(format!("answered with {other:?}"))),
    }
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

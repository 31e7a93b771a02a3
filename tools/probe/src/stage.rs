// SPDX-License-Identifier: GPL-2.0

//! The stages of a connection at which a peer can stop.

use clap::{builder::PossibleValue, ValueEnum};
use std::{fmt, iter, sync::LazyLock};

/// A stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The peer has sent its connection request.
    Request,
    /// The server's answer with its private data has arrived and is not acknowledged.
    Response,
    /// The connection is established; no message was sent.
    Established,
    /// The peer has sent its first Call.
    Call,
    /// The first reply has arrived; the connection is idle.
    Reply,
    /// The server is reading a Read chunk.
    Read,
    /// The server is about to read a Read chunk with a wrong rkey.
    ReadRkey,
    /// The server is writing a Write chunk.
    WriteChunk,
    /// The server is writing a Reply chunk.
    ReplyChunk,
    /// The server cannot send its reply, because no Receive is posted. This lasts until the
    /// connection ends, as the peer requests RNR retries without limit (see
    /// [`crate::params::offer`]).
    NoReceive,
    /// As `NoReceive`, with as many Calls as the server has granted, up to more than its send queue has
    /// room for replies.
    NoReceiveCalls,
    /// As `NoReceive`, with READs of 1 MiB, whose data the server can write.
    NoReceiveReads,
    /// As `NoReceive`, with messages of an unknown procedure, each of which requires an error
    /// answer.
    NoReceiveErrors,
    /// A Send of several packets is in flight.
    Send,
    /// The peer has sent more Calls than the server has granted credits.
    Overrun,
    /// As `Overrun`, and all Calls have arrived or the server has closed the connection.
    OverrunSeen,
    /// An RDMA Write with immediate data has consumed one of the server's Receives. If the device
    /// does not support that, the connection is idle.
    Immediate,
    /// The peer has sent many messages that a server ignores.
    Unasked,
    /// A Send has invalidated the server's memory registration with a given key.
    Invalidation,
}

impl Stage {
    /// The stages at which `all` peers stop.
    pub(crate) const ALL: &'static [Self] = &[
        Self::Request,
        Self::Response,
        Self::Established,
        Self::Call,
        Self::Reply,
        Self::Read,
        Self::ReadRkey,
        Self::WriteChunk,
        Self::ReplyChunk,
        Self::NoReceive,
        Self::NoReceiveCalls,
        Self::NoReceiveReads,
        Self::NoReceiveErrors,
        Self::Send,
        Self::Overrun,
        Self::Immediate,
    ];

    /// Stages of peers that misbehave; only chosen by name.
    const ODD: &'static [Self] = &[Self::OverrunSeen, Self::Unasked, Self::Invalidation];

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Established => "established",
            Self::Call => "call",
            Self::Reply => "reply",
            Self::Read => "read",
            Self::ReadRkey => "read-rkey",
            Self::WriteChunk => "write-chunk",
            Self::ReplyChunk => "reply-chunk",
            Self::NoReceive => "no-receive",
            Self::NoReceiveCalls => "no-receive-calls",
            Self::NoReceiveReads => "no-receive-reads",
            Self::NoReceiveErrors => "no-receive-errors",
            Self::Send => "send",
            Self::Overrun => "overrun",
            Self::OverrunSeen => "overrun-seen",
            Self::Immediate => "immediate",
            Self::Unasked => "unasked",
            Self::Invalidation => "invalidation",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One or all of the values of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    All,
    One(Stage),
}

impl Choice {
    /// Returns the chosen stages.
    pub(crate) fn stages(self) -> Vec<Stage> {
        match self {
            Self::All => Stage::ALL.to_vec(),
            Self::One(stage) => vec![stage],
        }
    }
}

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        static CHOICES: LazyLock<Vec<Choice>> = LazyLock::new(|| {
            let stages = Stage::ALL.iter().chain(Stage::ODD);
            let stages = stages.copied().map(Choice::One);
            iter::once(Choice::All).chain(stages).collect()
        });
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::All => "all",
            Self::One(stage) => stage.name(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood() {
        for &stage in Stage::ALL.iter().chain(Stage::ODD) {
            let choice = Choice::from_str(stage.name(), false);
            assert_eq!(choice, Ok(Choice::One(stage)));
        }
        assert_eq!(Choice::from_str("all", false), Ok(Choice::All));
        assert!(Choice::from_str("nowhere", false).is_err());
    }
}

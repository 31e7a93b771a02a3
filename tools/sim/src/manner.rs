// SPDX-License-Identifier: GPL-2.0

//! Manners of peers: what they do right and wrong.

/// The behaviour of a peer, beside its Calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Nothing that the protocol forbids.
    Correct,
    /// Serves Reads and takes Replies, but slowly.
    Slow,
    /// Vanishes without a word after some Calls.
    Vanishing,
    /// Vanishes without a word at any time from its request for a connection on.
    Fleeting,
    /// Makes no Call.
    Silent,
    /// Sends Calls some of which are malformed.
    Malformed,
    /// Closes its connection after some Calls, with others unanswered.
    Leaving,
    /// Serves no Reads from some Call on.
    Unserving,
    /// Takes no Replies from some Call on.
    Untaking,
    /// Sends more Calls than it has credits.
    Overrunning,
    /// Needs so long for each message and each Read that it is slower than the minimum rate.
    Trickling,
    /// Sends messages that nobody waits for.
    Chattering,
    /// Uses a Receive for an RDMA Write with immediate data.
    Writing,
    /// Invalidates memory of the server.
    Invalidating,
}

impl Manner {
    pub const ALL: [Self; 14] = [
        Self::Correct,
        Self::Slow,
        Self::Vanishing,
        Self::Fleeting,
        Self::Silent,
        Self::Malformed,
        Self::Leaving,
        Self::Unserving,
        Self::Untaking,
        Self::Overrunning,
        Self::Trickling,
        Self::Chattering,
        Self::Writing,
        Self::Invalidating,
    ];

    /// Returns true if each Call has to be answered.
    pub fn is_correct(self) -> bool {
        matches!(self, Self::Correct | Self::Slow)
    }
}

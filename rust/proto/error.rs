// SPDX-License-Identifier: GPL-2.0

//! Refused messages: the reasons, and the errors that are sent (RFC 8166, section 4.5).
//!
//! Functions that look at one part of a message return the [`Reason`]; those that know the whole
//! message add its XID and return a [`DecodeError`].

/// The reason for which a received message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The message is shorter than the 28 bytes of the shortest header, or the 20 bytes of the
    /// shortest RDMA_ERROR.
    Short,
    /// The message is longer than any Receive buffer.
    Long,
    /// A reverse-direction reply has chunks (RFC 8167, section 5.3).
    ReverseChunks,
    /// The protocol version is this one instead of 1.
    Version(u32),
    /// The procedure is obsolete or unknown.
    Procedure,
    /// A chunk list extends beyond the end of the message.
    Truncated,
    /// A list discriminator is neither 0 nor 1.
    Discriminator,
    /// The position of a Read chunk is not a multiple of 4.
    Misaligned,
    /// An RDMA_MSG has fewer inline bytes than an XID and a direction.
    ShortBody,
    /// The inline RPC message is neither a Call nor a Reply, or the one in a chunk is not a Call.
    Direction,
    /// An RDMA_NOMSG has no position-zero Read chunk.
    NoBody,
    /// An RDMA_MSG has a position-zero Read chunk.
    TwoBodies,
    /// A Read chunk begins inside another one.
    Overlap,
    /// A Read chunk begins beyond the end of the RPC message.
    Beyond,
    /// The Read list is not in the order of its positions, and has more chunks than the server
    /// accepts then.
    TooMany,
    /// The Call needs more pages than the server provides.
    TooLarge,
    /// The RPC message is too short to be a Call.
    Empty,
    /// The RPC message of a Call and its transport header have different XIDs.
    Xid,
    /// The Call has more Write chunks than the server accepts.
    TooManyWrites,
    /// A Read chunk holds an argument that is not eligible for direct data placement (RFC 8267).
    Ineligible,
    /// The chunks that each Reply to the Call repeats exceed the inline threshold.
    ReplyHeader,
}

impl Reason {
    /// Returns the error for the message `xid`, whose sender gets an answer.
    pub const fn of(self, xid: u32) -> DecodeError {
        DecodeError {
            reason: self,
            xid: Some(xid),
        }
    }

    /// Returns the error for a message that is dropped without an answer.
    pub const fn dropped(self) -> DecodeError {
        DecodeError {
            reason: self,
            xid: None,
        }
    }

    /// Returns the number of the reason in trace events. It never changes.
    pub fn code(self) -> u32 {
        match self {
            Self::Short => 1,
            Self::Long => 2,
            Self::ReverseChunks => 3,
            Self::Version(_) => 4,
            Self::Procedure => 5,
            Self::Truncated => 6,
            Self::Discriminator => 7,
            Self::Misaligned => 8,
            Self::ShortBody => 9,
            Self::Direction => 10,
            Self::NoBody => 11,
            Self::TwoBodies => 12,
            Self::Overlap => 13,
            Self::Beyond => 14,
            Self::TooMany => 15,
            Self::TooLarge => 16,
            Self::Empty => 17,
            Self::Xid => 18,
            Self::TooManyWrites => 19,
            Self::Ineligible => 20,
            Self::ReplyHeader => 21,
        }
    }
}

/// A refused message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The reason for the refusal.
    pub reason: Reason,
    /// The XID that an answer repeats, or `None` if the message is dropped.
    pub xid: Option<u32>,
}

/// The answer to a refused message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing is sent.
    Drop,
    /// RDMA_ERROR with ERR_VERS.
    Version {
        /// XID of the refused message.
        xid: u32,
        /// Protocol version of the refused message, which the answer repeats.
        version: u32,
    },
    /// RDMA_ERROR with ERR_CHUNK.
    Chunk {
        /// XID of the refused message.
        xid: u32,
    },
}

impl DecodeError {
    /// Returns the answer that the sender of the message gets.
    pub fn answer(&self) -> Answer {
        match (self.xid, self.reason) {
            (None, _) => Answer::Drop,
            (Some(xid), Reason::Version(version)) => Answer::Version { xid, version },
            (Some(xid), _) => Answer::Chunk { xid },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logs of old trace events are read with these numbers.
    #[test]
    fn codes_are_stable() {
        let all = [
            Reason::Short,
            Reason::Long,
            Reason::ReverseChunks,
            Reason::Version(2),
            Reason::Procedure,
            Reason::Truncated,
            Reason::Discriminator,
            Reason::Misaligned,
            Reason::ShortBody,
            Reason::Direction,
            Reason::NoBody,
            Reason::TwoBodies,
            Reason::Overlap,
            Reason::Beyond,
            Reason::TooMany,
            Reason::TooLarge,
            Reason::Empty,
            Reason::Xid,
            Reason::TooManyWrites,
            Reason::Ineligible,
            Reason::ReplyHeader,
        ];
        for (reason, code) in all.iter().zip(1..) {
            assert_eq!(reason.code(), code);
        }
    }

    #[test]
    fn errors_with_an_xid_are_answered() {
        let (xid, version) = (9, 2);
        let unsupported = Reason::Version(version);
        assert_eq!(
            unsupported.of(xid).answer(),
            Answer::Version { xid, version }
        );
        assert_eq!(Reason::Overlap.of(xid).answer(), Answer::Chunk { xid });
        assert_eq!(Reason::Short.dropped().answer(), Answer::Drop);
    }
}

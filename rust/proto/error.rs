// SPDX-License-Identifier: GPL-2.0

//! Why a message cannot be served, and what the client is told (RFC 8166, section 4.5).

/// Why a received message was refused; one variant per reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Fewer than the 28 bytes of the shortest header, or the 20 of an RDMA_ERROR.
    Short,
    /// More bytes than any receive buffer has.
    Long,
    /// A reverse-direction reply with chunks (RFC 8167, section 5.3): nobody waits for an answer.
    ReverseChunks,
    /// The protocol version is not 1.
    Version {
        /// XID of the refused message.
        xid: u32,
        /// Its version.
        version: u32,
    },
    /// An obsolete or unknown procedure.
    Procedure {
        /// XID of the refused message.
        xid: u32,
    },
    /// A chunk list runs past the end of the message.
    Truncated {
        /// XID of the refused message.
        xid: u32,
    },
    /// A list discriminator is neither 0 nor 1.
    Discriminator {
        /// XID of the refused message.
        xid: u32,
    },
    /// The position of a Read chunk is not a multiple of 4.
    Misaligned {
        /// XID of the refused message.
        xid: u32,
    },
    /// RDMA_MSG with fewer inline bytes than an XID and a direction.
    ShortBody {
        /// XID of the refused message.
        xid: u32,
    },
    /// The inline RPC message is neither Call nor Reply, or that of a chunk no Call.
    Direction {
        /// XID of the refused message.
        xid: u32,
    },
    /// RDMA_NOMSG without a position-zero Read chunk.
    NoBody {
        /// XID of the refused message.
        xid: u32,
    },
    /// RDMA_MSG with a position-zero Read chunk.
    TwoBodies {
        /// XID of the refused message.
        xid: u32,
    },
    /// A Read chunk lies within another one.
    Overlap {
        /// XID of the refused message.
        xid: u32,
    },
    /// A Read chunk lies beyond the end of the message.
    Beyond {
        /// XID of the refused message.
        xid: u32,
    },
    /// More Read chunks than are served.
    TooMany {
        /// XID of the refused message.
        xid: u32,
    },
    /// The Call needs more pages than are served.
    TooLarge {
        /// XID of the refused message.
        xid: u32,
    },
    /// The RPC message is too short to be a Call.
    Empty {
        /// XID of the refused message.
        xid: u32,
    },
    /// The RPC message of a Call has another XID than its header.
    Xid {
        /// XID of the refused message's header.
        xid: u32,
    },
    /// More Write chunks than are served.
    TooManyWrites {
        /// XID of the refused message.
        xid: u32,
    },
    /// A Read chunk holds an argument that is not to be taken out of its Call.
    Ineligible {
        /// XID of the refused message.
        xid: u32,
    },
    /// The chunks that each reply repeats are longer than a reply may be.
    ReplyHeader {
        /// XID of the refused message.
        xid: u32,
    },
}

/// What a refused message calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing is sent.
    Drop,
    /// RDMA_ERROR with ERR_VERS.
    Version {
        /// XID of the refused message.
        xid: u32,
        /// Its version, which the answer repeats.
        version: u32,
    },
    /// RDMA_ERROR with ERR_CHUNK.
    Chunk {
        /// XID of the refused message.
        xid: u32,
    },
}

impl DecodeError {
    /// Returns what the client is told.
    pub fn answer(&self) -> Answer {
        match *self {
            Self::Short | Self::Long | Self::ReverseChunks => Answer::Drop,
            Self::Version { xid, version } => Answer::Version { xid, version },
            Self::Procedure { xid }
            | Self::Truncated { xid }
            | Self::Discriminator { xid }
            | Self::Misaligned { xid }
            | Self::ShortBody { xid }
            | Self::Direction { xid }
            | Self::NoBody { xid }
            | Self::TwoBodies { xid }
            | Self::Overlap { xid }
            | Self::Beyond { xid }
            | Self::TooMany { xid }
            | Self::TooLarge { xid }
            | Self::Empty { xid }
            | Self::Xid { xid }
            | Self::TooManyWrites { xid }
            | Self::Ineligible { xid }
            | Self::ReplyHeader { xid } => Answer::Chunk { xid },
        }
    }

    /// Returns the reason as a small number that never changes its meaning, for trace events.
    pub fn code(&self) -> u32 {
        match self {
            Self::Short => 1,
            Self::Long => 2,
            Self::ReverseChunks => 3,
            Self::Version { .. } => 4,
            Self::Procedure { .. } => 5,
            Self::Truncated { .. } => 6,
            Self::Discriminator { .. } => 7,
            Self::Misaligned { .. } => 8,
            Self::ShortBody { .. } => 9,
            Self::Direction { .. } => 10,
            Self::NoBody { .. } => 11,
            Self::TwoBodies { .. } => 12,
            Self::Overlap { .. } => 13,
            Self::Beyond { .. } => 14,
            Self::TooMany { .. } => 15,
            Self::TooLarge { .. } => 16,
            Self::Empty { .. } => 17,
            Self::Xid { .. } => 18,
            Self::TooManyWrites { .. } => 19,
            Self::Ineligible { .. } => 20,
            Self::ReplyHeader { .. } => 21,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trace events of old logs are read with these numbers.
    #[test]
    fn codes_and_answers_are_stable() {
        let xid = 9;
        let chunk = Answer::Chunk { xid };
        let all = [
            (DecodeError::Short, Answer::Drop),
            (DecodeError::Long, Answer::Drop),
            (DecodeError::ReverseChunks, Answer::Drop),
            (
                DecodeError::Version { xid, version: 2 },
                Answer::Version { xid, version: 2 },
            ),
            (DecodeError::Procedure { xid }, chunk),
            (DecodeError::Truncated { xid }, chunk),
            (DecodeError::Discriminator { xid }, chunk),
            (DecodeError::Misaligned { xid }, chunk),
            (DecodeError::ShortBody { xid }, chunk),
            (DecodeError::Direction { xid }, chunk),
            (DecodeError::NoBody { xid }, chunk),
            (DecodeError::TwoBodies { xid }, chunk),
            (DecodeError::Overlap { xid }, chunk),
            (DecodeError::Beyond { xid }, chunk),
            (DecodeError::TooMany { xid }, chunk),
            (DecodeError::TooLarge { xid }, chunk),
            (DecodeError::Empty { xid }, chunk),
            (DecodeError::Xid { xid }, chunk),
            (DecodeError::TooManyWrites { xid }, chunk),
            (DecodeError::Ineligible { xid }, chunk),
            (DecodeError::ReplyHeader { xid }, chunk),
        ];
        for ((error, answer), code) in all.iter().zip(1..) {
            assert_eq!((error.code(), error.answer()), (code, *answer));
        }
    }
}

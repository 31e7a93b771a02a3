// SPDX-License-Identifier: GPL-2.0

//! Data Transfer messages: all messages behind the negotiation (MS-SMBD 2.2.3).

use crate::wire::{
    put,
    Reader, //
};

/// The flag by which a side asks for a message at once.
const RESPONSE_REQUESTED: u16 = 1;

/// Bytes of a header without data.
const MIN_HEADER: usize = 20;

/// Bytes from the beginning of a message to its data: the header, padded to 8 bytes.
pub const DATA_OFFSET: usize = 24;

/// Data begin at a multiple of this number of bytes.
const ALIGNMENT: u32 = 8;

/// The header of a Data Transfer message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Send credits that the sender would like to have in all.
    pub credits_requested: u16,
    /// Send credits that the sender adds to those of the receiver.
    pub credits_granted: u16,
    /// True if the receiver shall send a message at once.
    pub response_requested: bool,
    /// Bytes of the upper layer's message that follow in later Data Transfer messages.
    pub remaining: u32,
    /// Bytes of the upper layer's message in this one.
    pub len: u32,
}

/// The reason why a Data Transfer message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The message ends within its header.
    Short,
    /// The data do not begin at a multiple of 8 bytes, or in the header.
    Offset,
    /// The data end beyond the message.
    Length,
}

impl Header {
    /// Decodes a message. Returns its header and its data.
    ///
    /// # Errors
    ///
    /// See [`Malformed`]. Reserved bits are ignored, and so is the offset of data that are not there.
    pub fn decode(message: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (header, offset) = Self::fields(message).ok_or(Malformed::Short)?;
        if header.len == 0 {
            return Ok((header, &[]));
        }
        if (offset as usize) < MIN_HEADER || offset.checked_rem(ALIGNMENT) != Some(0) {
            return Err(Malformed::Offset);
        }
        let behind = message.get(offset as usize..);
        let data = behind.and_then(|data| data.get(..header.len as usize));
        Ok((header, data.ok_or(Malformed::Length)?))
    }

    /// Decodes the header, and the offset of the data.
    fn fields(message: &[u8]) -> Option<(Self, u32)> {
        let mut reader = Reader(message);
        let (credits_requested, credits_granted) = (reader.u16()?, reader.u16()?);
        let flags = reader.u16()?;
        reader.u16()?; // Reserved.
        let (remaining, offset, len) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let header = Self {
            credits_requested,
            credits_granted,
            response_requested: flags & RESPONSE_REQUESTED != 0,
            remaining,
            len,
        };
        Some((header, offset))
    }

    /// Writes the header to the beginning of `out`. Returns its length, behind which the data follow,
    /// or `None` if `out` is too short.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let flags = if self.response_requested {
            RESPONSE_REQUESTED
        } else {
            0
        };
        // CAST: A small constant.
        let (offset, padding): (_, &[u8]) = match self.len {
            0 => (0, &[]),
            _ => (DATA_OFFSET as u32, &[0; 4]),
        };
        put(
            out,
            &[
                &self.credits_requested.to_le_bytes(),
                &self.credits_granted.to_le_bytes(),
                &flags.to_le_bytes(),
                &[0; 2],
                &self.remaining.to_le_bytes(),
                &offset.to_le_bytes(),
                &self.len.to_le_bytes(),
                padding,
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        credits_requested: 255,
        credits_granted: 2,
        response_requested: true,
        remaining: 0x10203,
        len: 3,
    };

    /// As MS-SMBD 2.2.3 lays it out, with three bytes of data.
    const MESSAGE: [u8; 27] = [
        0xff, 0, 2, 0, 1, 0, 0, 0, 3, 2, 1, 0, 24, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9,
    ];

    #[test]
    fn a_message_is_laid_out_as_specified() {
        let mut out = [0xaa; 27];
        assert_eq!(HEADER.encode(&mut out), Some(DATA_OFFSET));
        out[24..].copy_from_slice(&[7, 8, 9]);
        assert_eq!(out, MESSAGE);
        assert_eq!(Header::decode(&MESSAGE), Ok((HEADER, &[7, 8, 9][..])));
        let empty = Header { len: 0, ..HEADER };
        assert_eq!(empty.encode(&mut out[..20]), Some(MIN_HEADER));
        assert_eq!(Header::decode(&out[..20]), Ok((empty, &[][..])));
    }

    #[test]
    fn bad_messages_are_refused() {
        for len in 0..20 {
            assert_eq!(Header::decode(&MESSAGE[..len]), Err(Malformed::Short));
        }
        assert_eq!(Header::decode(&MESSAGE[..26]), Err(Malformed::Length));
        let with = |at: usize, bytes: &[u8]| {
            let mut message = MESSAGE;
            message[at..at + bytes.len()].copy_from_slice(bytes);
            Header::decode(&message).map(|(header, _)| header)
        };
        for offset in [0, 8, 16, 20, 25, 28] {
            assert_eq!(with(12, &[offset]), Err(Malformed::Offset), "{offset}");
        }
        assert_eq!(with(12, &[32]), Err(Malformed::Length));
        assert_eq!(with(12, &[0xf8, 0xff, 0xff, 0xff]), Err(Malformed::Length));
        assert_eq!(with(16, &[0xff; 4]), Err(Malformed::Length));
        // Reserved bits.
        assert_eq!(with(4, &[0xff, 0xff, 0xff, 0xff]), Ok(HEADER));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The negotiation: the first message of each side (MS-SMBD 2.2.1 and 2.2.2).

use crate::wire::{
    put,
    Reader, //
};

/// The only version of the protocol.
pub const VERSION: u16 = 0x0100;

/// The smallest maximum of a message that a side may declare, in bytes (MS-SMBD 3.1.5.2).
pub const MIN_MESSAGE: u32 = 128;

/// The smallest maximum of a reassembled message that a side may declare, in bytes (MS-SMBD 3.1.5.2).
pub const MIN_REASSEMBLED: u32 = 128 * 1024;

/// The status of a response that accepts the request.
pub const SUCCESS: u32 = 0;

/// The status of a response to a request without the version of the responder.
pub const NOT_SUPPORTED: u32 = 0xc000_00bb;

/// A Negotiate Request, the first message of the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The lowest version that the requester supports.
    pub min_version: u16,
    /// The highest version that the requester supports.
    pub max_version: u16,
    /// Send credits that the requester asks for.
    pub credits_requested: u16,
    /// The size in bytes that the requester would like to send in one message.
    pub preferred_send: u32,
    /// The largest message that the requester receives, in bytes.
    pub max_receive: u32,
    /// The largest reassembled message that the requester receives, in bytes.
    pub max_reassembled: u32,
}

impl Request {
    /// Bytes of the message.
    pub const LEN: usize = 20;

    /// Decodes a request. Returns `None` if it is too short. Bytes behind it are ignored.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let mut reader = Reader(message);
        let (min_version, max_version) = (reader.u16()?, reader.u16()?);
        reader.u16()?; // Reserved.
        Some(Self {
            min_version,
            max_version,
            credits_requested: reader.u16()?,
            preferred_send: reader.u32()?,
            max_receive: reader.u32()?,
            max_reassembled: reader.u32()?,
        })
    }

    /// Writes the request to the beginning of `out`. Returns its length, or `None` if `out` is too
    /// short.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        put(
            out,
            &[
                &self.min_version.to_le_bytes(),
                &self.max_version.to_le_bytes(),
                &[0; 2],
                &self.credits_requested.to_le_bytes(),
                &self.preferred_send.to_le_bytes(),
                &self.max_receive.to_le_bytes(),
                &self.max_reassembled.to_le_bytes(),
            ],
        )
    }
}

/// A Negotiate Response, the first message of the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The lowest version that the responder supports.
    pub min_version: u16,
    /// The highest version that the responder supports.
    pub max_version: u16,
    /// The version that the connection uses.
    pub version: u16,
    /// Send credits that the responder asks for.
    pub credits_requested: u16,
    /// Send credits that the responder grants.
    pub credits_granted: u16,
    /// [`SUCCESS`], or the reason why the responder closes the connection.
    pub status: u32,
    /// The most bytes that the responder moves by RDMA Reads or RDMA Writes for one request.
    pub max_read_write: u32,
    /// The size in bytes that the responder would like to send in one message.
    pub preferred_send: u32,
    /// The largest message that the responder receives, in bytes.
    pub max_receive: u32,
    /// The largest reassembled message that the responder receives, in bytes.
    pub max_reassembled: u32,
}

impl Response {
    /// Bytes of the message.
    pub const LEN: usize = 32;

    /// Decodes a response. Returns `None` if it is too short. Bytes behind it are ignored.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let mut reader = Reader(message);
        let (min_version, max_version) = (reader.u16()?, reader.u16()?);
        let version = reader.u16()?;
        reader.u16()?; // Reserved.
        Some(Self {
            min_version,
            max_version,
            version,
            credits_requested: reader.u16()?,
            credits_granted: reader.u16()?,
            status: reader.u32()?,
            max_read_write: reader.u32()?,
            preferred_send: reader.u32()?,
            max_receive: reader.u32()?,
            max_reassembled: reader.u32()?,
        })
    }

    /// Writes the response to the beginning of `out`. Returns its length, or `None` if `out` is too
    /// short.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        put(
            out,
            &[
                &self.min_version.to_le_bytes(),
                &self.max_version.to_le_bytes(),
                &self.version.to_le_bytes(),
                &[0; 2],
                &self.credits_requested.to_le_bytes(),
                &self.credits_granted.to_le_bytes(),
                &self.status.to_le_bytes(),
                &self.max_read_write.to_le_bytes(),
                &self.preferred_send.to_le_bytes(),
                &self.max_receive.to_le_bytes(),
                &self.max_reassembled.to_le_bytes(),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As MS-SMBD 2.2.1 lays it out.
    const REQUEST: [u8; 20] = [
        0x00, 0x01, 0x00, 0x01, 0x00, 0x00, 0xff, 0x00, 0x54, 0x05, 0x00, 0x00, 0x00, 0x20, 0x00,
        0x00, 0x00, 0x00, 0x10, 0x00,
    ];

    #[test]
    fn a_request_is_laid_out_as_specified() {
        let request = Request {
            min_version: VERSION,
            max_version: VERSION,
            credits_requested: 255,
            preferred_send: 1364,
            max_receive: 8192,
            max_reassembled: 1 << 20,
        };
        assert_eq!(Request::decode(&REQUEST), Some(request));
        assert_eq!(Request::decode(&REQUEST[..19]), None);
        let mut out = [0xaa; 20];
        assert_eq!(request.encode(&mut out), Some(Request::LEN));
        assert_eq!(out, REQUEST);
        assert_eq!(request.encode(&mut out[..19]), None);
    }

    #[test]
    fn a_response_is_laid_out_as_specified() {
        let response = Response {
            min_version: VERSION,
            max_version: VERSION,
            version: VERSION,
            credits_requested: 255,
            credits_granted: 10,
            status: NOT_SUPPORTED,
            max_read_write: 1 << 23,
            preferred_send: 4096,
            max_receive: 1024,
            max_reassembled: MIN_REASSEMBLED,
        };
        let mut out = [0xaa; 40];
        assert_eq!(response.encode(&mut out), Some(Response::LEN));
        let expected = [
            0x00, 0x01, 0x00, 0x01, 0x00, 0x01, 0x00, 0x00, 0xff, 0x00, 0x0a, 0x00, 0xbb, 0x00,
            0x00, 0xc0, 0x00, 0x00, 0x80, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00,
            0x00, 0x00, 0x02, 0x00,
        ];
        assert_eq!(out[..32], expected);
        assert_eq!(Response::decode(&out), Some(response));
        assert_eq!(Response::decode(&out[..31]), None);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Buffer descriptors: memory of one side that the other reads or writes by RDMA (MS-SMBD 2.2.3.1).

use crate::wire::{
    put,
    Reader, //
};

/// A Buffer Descriptor V1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The address of the first byte, as its owner has registered it.
    pub offset: u64,
    /// The remote key.
    pub token: u32,
    /// The length in bytes.
    pub length: u32,
}

impl Descriptor {
    /// Bytes of a descriptor.
    pub const LEN: usize = 16;

    /// Decodes a descriptor. Returns `None` if there are too few bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        Some(Self {
            offset: reader.u64()?,
            token: reader.u32()?,
            length: reader.u32()?,
        })
    }

    /// Writes the descriptor to the beginning of `out`. Returns its length, or `None` if `out` is too
    /// short.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        put(
            out,
            &[
                &self.offset.to_le_bytes(),
                &self.token.to_le_bytes(),
                &self.length.to_le_bytes(),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_laid_out_as_specified() {
        let descriptor = Descriptor {
            offset: 0x0102_0304_0506_0708,
            token: 0x1112_1314,
            length: 0x2122_2324,
        };
        let mut out = [0; 16];
        assert_eq!(descriptor.encode(&mut out), Some(Descriptor::LEN));
        let expected = [
            8, 7, 6, 5, 4, 3, 2, 1, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21,
        ];
        assert_eq!(out, expected);
        assert_eq!(Descriptor::decode(&out), Some(descriptor));
        assert_eq!(Descriptor::decode(&out[..15]), None);
    }
}

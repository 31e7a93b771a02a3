// SPDX-License-Identifier: GPL-2.0

//! Reading and writing of little-endian integers.

/// Reads successive integers.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    /// Reads the next `N` bytes.
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// Reads 2 bytes.
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    /// Reads 4 bytes.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    /// Reads 8 bytes.
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }
}

/// Writes `fields` one behind another to the beginning of `out`. Returns their length, or `None` if
/// `out` is shorter.
pub(crate) fn put(out: &mut [u8], fields: &[&[u8]]) -> Option<usize> {
    let (mut rest, mut len) = (out, 0usize);
    for field in fields {
        let (place, behind) = rest.split_at_mut_checked(field.len())?;
        place.copy_from_slice(field);
        len = len.saturating_add(field.len());
        rest = behind;
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_within_the_message_only() {
        let mut reader = Reader(&[1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(reader.u64(), None);
        assert_eq!(reader.u16(), Some(0x201));
        assert_eq!(reader.u32(), Some(0x6050403));
        assert_eq!((reader.u16(), reader.0), (None, &[7][..]));
    }

    #[test]
    fn writes_within_the_buffer_only() {
        let mut out = [9; 4];
        assert_eq!(put(&mut out, &[&[1, 2], &[3]]), Some(3));
        assert_eq!(out, [1, 2, 3, 9]);
        assert_eq!(put(&mut out, &[&[1, 2], &[3, 4, 5]]), None);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Reading, writing and padding of XDR words (RFC 4506).

/// Returns the number of pad bytes that follow an XDR item of `len` bytes: 0 to 3.
pub(crate) const fn pad(len: u32) -> u32 {
    len.wrapping_neg() & 3
}

/// Returns the number of bytes of an XDR item of `len` bytes with its pad.
pub(crate) const fn padded(len: u32) -> Option<u32> {
    len.checked_add(pad(len))
}

/// Returns the `N` bytes of `msg` that begin at byte `at`.
pub(crate) fn bytes<const N: usize>(msg: &[u8], at: u32) -> Option<&[u8; N]> {
    let (_, rest) = msg.split_at_checked(at as usize)?;
    rest.first_chunk()
}

/// Returns the XDR word at byte `at` of `msg`.
pub(crate) fn word(msg: &[u8], at: u32) -> Option<u32> {
    bytes(msg, at).map(|word| u32::from_be_bytes(*word))
}

/// Reads successive words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    msg: &'a [u8],
    at: u32,
}

impl<'a> Reader<'a> {
    /// Returns a reader at the beginning of `msg`.
    pub(crate) fn new(msg: &'a [u8]) -> Self {
        Self { msg, at: 0 }
    }

    /// Returns the offset of the next word, in bytes.
    pub(crate) fn at(&self) -> u32 {
        self.at
    }

    /// Reads the next word.
    pub(crate) fn word(&mut self) -> Option<u32> {
        let value = word(self.msg, self.at)?;
        self.at = self.at.checked_add(4)?;
        Some(value)
    }

    /// Skips `count` items of `size` bytes each. Returns `None` if the message ends before their
    /// end.
    pub(crate) fn skip(&mut self, count: u32, size: u32) -> Option<()> {
        let at = self.at.checked_add(count.checked_mul(size)?)?;
        if at as usize > self.msg.len() {
            return None;
        }
        self.at = at;
        Some(())
    }
}

/// Writes successive words.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    at: u32,
}

impl<'a> Writer<'a> {
    /// Returns a writer at the beginning of `out`.
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0 }
    }

    /// Returns the number of bytes that were written.
    pub(crate) fn len(&self) -> usize {
        self.at as usize
    }

    /// Appends a word. Returns `None` if `out` has no room for it.
    pub(crate) fn word(&mut self, value: u32) -> Option<()> {
        let (_, rest) = self.out.split_at_mut_checked(self.at as usize)?;
        *rest.first_chunk_mut()? = value.to_be_bytes();
        self.at = self.at.checked_add(4)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_to_words() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(pad), [0, 3, 2, 1, 0, 3]);
        assert_eq!(padded(u32::MAX - 3), Some(u32::MAX - 3));
        assert_eq!(padded(u32::MAX - 2), None);
    }

    #[test]
    fn reads_within_the_message_only() {
        let msg = [0, 0, 0, 7, 1];
        assert_eq!(word(&msg, 0), Some(7));
        assert_eq!(word(&msg, 1), Some(0x701));
        assert_eq!(word(&msg, 2), None);
        assert_eq!(word(&msg, u32::MAX), None);
        let mut reader = Reader::new(&msg);
        assert_eq!(reader.skip(2, 4), None);
        assert_eq!(reader.skip(u32::MAX, 16), None);
        assert_eq!(reader.word(), Some(7));
        assert_eq!((reader.word(), reader.at()), (None, 4));
        assert_eq!((reader.skip(1, 1), reader.at()), (Some(()), 5));
    }

    #[test]
    fn writes_within_the_buffer_only() {
        let mut out = [9; 7];
        let mut writer = Writer::new(&mut out);
        assert_eq!(writer.word(0x0102_0304), Some(()));
        assert_eq!((writer.word(5), writer.len()), (None, 4));
        assert_eq!(out, [1, 2, 3, 4, 9, 9, 9]);
    }
}

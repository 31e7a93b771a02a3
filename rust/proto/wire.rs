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
pub(crate) fn bytes<const N: usize>(msg: &[u8], at: usize) -> Option<&[u8; N]> {
    msg.get(at..)?.first_chunk()
}

/// Returns the XDR word at byte `at` of `msg`.
pub(crate) fn word(msg: &[u8], at: u32) -> Option<u32> {
    bytes(msg, at as usize).map(|word| u32::from_be_bytes(*word))
}

/// Returns the `N` XDR words that begin at byte `at` of `msg`.
pub(crate) fn words<const N: usize>(msg: &[u8], at: u32) -> Option<[u32; N]> {
    let raw = msg.get(at as usize..)?.get(..N.checked_mul(4)?)?;
    let mut words = [0; N];
    for (word, raw) in words.iter_mut().zip(raw.chunks_exact(4)) {
        *word = u32::from_be_bytes(*raw.first_chunk()?);
    }
    Some(words)
}

/// Reads successive words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    msg: &'a [u8],
    /// The bytes of `msg` that were not read.
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader at the beginning of `msg`.
    pub(crate) fn new(msg: &'a [u8]) -> Self {
        Self { msg, rest: msg }
    }

    /// Returns the offset of the next word, in bytes.
    pub(crate) fn at(&self) -> u32 {
        // No message that is decoded is longer than MAX_MESSAGE.
        self.msg.len().saturating_sub(self.rest.len()) as u32
    }

    /// Returns the bytes that were not read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads the next `N` bytes.
    pub(crate) fn bytes<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(bytes)
    }

    /// Reads the next `N` words.
    pub(crate) fn words<const N: usize>(&mut self) -> Option<[u32; N]> {
        let words = words(self.rest, 0)?;
        self.skip(N as u32, 4)?;
        Some(words)
    }

    /// Reads the next word.
    pub(crate) fn word(&mut self) -> Option<u32> {
        self.bytes().map(|word| u32::from_be_bytes(*word))
    }

    /// Skips `count` items of `size` bytes each. Returns `None` if the message ends before their
    /// end.
    pub(crate) fn skip(&mut self, count: u32, size: usize) -> Option<()> {
        let len = (count as usize).checked_mul(size)?;
        self.rest = self.rest.get(len..)?;
        Some(())
    }
}

/// Writes `words` to the beginning of `out`. Returns their length in bytes, or `None` if `out` is
/// shorter.
pub(crate) fn put<const N: usize>(out: &mut [u8], words: [u32; N]) -> Option<usize> {
    let len = N.checked_mul(4)?;
    let out = out.get_mut(..len)?;
    for (bytes, word) in out.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    Some(len)
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
        assert_eq!(put(&mut out, [5, 6]), None);
        assert_eq!(out, [9; 7]);
        assert_eq!(put(&mut out, [0x0102_0304]), Some(4));
        assert_eq!(out, [1, 2, 3, 4, 9, 9, 9]);
    }
}

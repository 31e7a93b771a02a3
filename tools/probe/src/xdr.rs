// SPDX-License-Identifier: GPL-2.0

//! Builds and parses XDR (RFC 4506).

/// An XDR stream under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Xdr(Vec<u8>);

impl Xdr {
    /// Creates an empty stream.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Appends a word.
    pub(crate) fn word(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// Appends several words.
    pub(crate) fn words(self, values: &[u32]) -> Self {
        values.iter().fold(self, |xdr, &value| xdr.word(value))
    }

    /// Appends a 64-bit number.
    pub(crate) fn hyper(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// Appends a counted byte string with its padding.
    pub(crate) fn opaque(self, bytes: &[u8]) -> Self {
        self.word(bytes.len() as u32).padded(bytes)
    }

    /// Appends bytes without a length or padding.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// Appends bytes and zeroes up to the next word.
    fn padded(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Returns the length so far.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// A reader that takes words off the front of a byte string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// Creates a reader at the beginning of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Takes a word.
    pub(crate) fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    /// Takes a 64-bit number.
    pub(crate) fn hyper(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }

    /// Takes a counted byte string with its padding.
    pub(crate) fn opaque(&mut self) -> Option<&'a [u8]> {
        let len = self.word()? as usize;
        let bytes = self.0.get(..len)?;
        self.0 = self.0.get(len.checked_next_multiple_of(4)?..)?;
        Some(bytes)
    }

    /// Skips `count` words.
    pub(crate) fn skip(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count.checked_mul(4)?..)?;
        Some(())
    }

    /// Returns the bytes that were not taken yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }
}

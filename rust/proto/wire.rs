// SPDX-License-Identifier: GPL-2.0

//! XDR words of a message: reading, writing, padding (RFC 4506).

/// Returns how many bytes of padding follow an XDR item of `len` bytes: 0..=3.
pub(crate) const fn pad(len: u32) -> u32 {
    len.wrapping_neg() & 3
}

/// Returns `len` with its XDR padding, in bytes.
pub(crate) const fn padded(len: u32) -> Option<u32> {
    len.checked_add(pad(len))
}

/// Returns the bytes of `msg` from `at` on, `N` of them.
pub(crate) fn bytes<const N: usize>(msg: &[u8], at: u32) -> Option<&[u8; N]> {
    let (_, rest) = msg.split_at_checked(at as usize)?;
    rest.first_chunk()
}

/// Returns the XDR word at byte `at` of `msg`.
pub(crate) fn word(msg: &[u8], at: u32) -> Option<u32> {
    bytes(msg, at).map(|word| u32::from_be_bytes(*word))
}

/// Reads words one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    msg: &'a [u8],
    at: u32,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `msg`.
    pub(crate) fn new(msg: &'a [u8]) -> Self {
        Self { msg, at: 0 }
    }

    /// Returns the offset of the next word, in bytes.
    pub(crate) fn at(&self) -> u32 {
        self.at
    }

    /// Takes the next word.
    pub(crate) fn word(&mut self) -> Option<u32> {
        let value = word(self.msg, self.at)?;
        self.at = self.at.checked_add(4)?;
        Some(value)
    }

    /// Skips `count` items of `size` bytes each, all of which must be there.
    pub(crate) fn skip(&mut self, count: u32, size: u32) -> Option<()> {
        let at = self.at.checked_add(count.checked_mul(size)?)?;
        if at as usize > self.msg.len() {
            return None;
        }
        self.at = at;
        Some(())
    }
}

/// Writes words one after the other.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    at: u32,
}

impl<'a> Writer<'a> {
    /// Starts at the beginning of `out`.
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0 }
    }

    /// Returns how many bytes were written.
    pub(crate) fn len(&self) -> usize {
        self.at as usize
    }

    /// Appends a word; `None` when there is no room for it.
    pub(crate) fn word(&mut self, value: u32) -> Option<()> {
        let (_, rest) = self.out.split_at_mut_checked(self.at as usize)?;
        *rest.first_chunk_mut()? = value.to_be_bytes();
        self.at = self.at.checked_add(4)?;
        Some(())
    }
}

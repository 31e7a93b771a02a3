// SPDX-License-Identifier: GPL-2.0

//! Fragments: a message of the upper layer is divided into Data Transfer messages, and put together
//! again (MS-SMBD 3.1.5.1, 3.1.5.8).

use crate::data::{
    Header,
    DATA_OFFSET, //
};
use core::ops::Range;

/// The reason why a fragment is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The message is longer than this side has declared.
    TooLong,
    /// The fragment does not continue the message that has begun.
    Order,
}

/// The position of a fragment in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first byte.
    pub at: u32,
    /// True if the message is complete with this fragment.
    pub is_last: bool,
}

/// The message that is being received. The caller has the bytes.
///
/// # Invariants
///
/// `at` is less than `len`, or both are 0; `len` is at most `max`.
#[derive(Clone, Copy, Debug)]
pub struct Reassembly {
    /// Bytes that have arrived.
    at: u32,
    /// Bytes of the message.
    len: u32,
    max: u32,
}

impl Reassembly {
    /// Returns the state before any message, which have at most `max` bytes.
    pub fn new(max: u32) -> Self {
        // INVARIANT: Both are 0.
        Self { at: 0, len: 0, max }
    }

    /// Adds the data of a message. Returns their place, or `None` if there are none.
    ///
    /// # Errors
    ///
    /// See [`Misfit`]. The connection cannot be used any more.
    pub fn add(&mut self, header: &Header) -> Result<Option<Place>, Misfit> {
        if header.len == 0 {
            return match header.remaining {
                0 => Ok(None),
                _ => Err(Misfit::Order),
            };
        }
        let rest = header.len.checked_add(header.remaining);
        let rest = rest.ok_or(Misfit::TooLong)?;
        if self.at == 0 {
            if rest > self.max {
                return Err(Misfit::TooLong);
            }
            // INVARIANT: At most `max`, and more than 0.
            self.len = rest;
        }
        let at = self.at;
        if self.len.checked_sub(at) != Some(rest) {
            return Err(Misfit::Order);
        }
        let is_last = header.remaining == 0;
        // INVARIANT: Less than `len` by `remaining`, or both are 0.
        if is_last {
            (self.at, self.len) = (0, 0);
        } else {
            self.at = at.saturating_add(header.len);
        }
        Ok(Some(Place { at, is_last }))
    }
}

/// A message of the upper layer that is being sent. The caller has the bytes.
///
/// # Invariants
///
/// `sent` is at most `len`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    sent: u32,
    len: u32,
}

impl Outgoing {
    /// Returns a message of `len` bytes.
    pub fn new(len: u32) -> Self {
        // INVARIANT: Nothing is sent.
        Self { sent: 0, len }
    }

    /// Returns true if all bytes are sent.
    pub fn is_done(&self) -> bool {
        self.sent == self.len
    }

    /// Takes the next fragment, for a Data Transfer message of up to `max` bytes. Returns its place in
    /// the message, and the bytes behind it.
    pub(crate) fn next(&mut self, max: u32) -> (Range<usize>, u32) {
        let left = self.len.saturating_sub(self.sent);
        // CAST: A small constant.
        let len = left.min(max.saturating_sub(DATA_OFFSET as u32));
        let start = self.sent;
        // INVARIANT: `len` is at most what is left.
        self.sent = start.saturating_add(len);
        let behind = left.saturating_sub(len);
        (start as usize..self.sent as usize, behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(len: u32, remaining: u32) -> Header {
        Header {
            len,
            remaining,
            ..Header::default()
        }
    }

    fn place(at: u32, is_last: bool) -> Result<Option<Place>, Misfit> {
        Ok(Some(Place { at, is_last }))
    }

    #[test]
    fn fragments_are_put_together() {
        let mut reassembly = Reassembly::new(10);
        for _ in 0..2 {
            assert_eq!(reassembly.add(&data(4, 6)), place(0, false));
            assert_eq!(reassembly.add(&data(0, 0)), Ok(None));
            assert_eq!(reassembly.add(&data(5, 1)), place(4, false));
            assert_eq!(reassembly.add(&data(1, 0)), place(9, true));
            assert_eq!(reassembly.add(&data(7, 0)), place(0, true));
        }
    }

    #[test]
    fn long_messages_are_refused() {
        for (len, remaining) in [(11, 0), (1, 10), (1, u32::MAX), (u32::MAX, u32::MAX)] {
            let mut reassembly = Reassembly::new(10);
            assert_eq!(reassembly.add(&data(len, remaining)), Err(Misfit::TooLong));
        }
    }

    #[test]
    fn fragments_must_continue_the_message() {
        for (len, remaining) in [(4, 6), (6, 0), (2, 2), (4, 0), (0, 5), (10, 0)] {
            let mut reassembly = Reassembly::new(10);
            assert_eq!(reassembly.add(&data(5, 5)), place(0, false));
            let result = reassembly.add(&data(len, remaining));
            assert_eq!(result, Err(Misfit::Order), "{len} {remaining}");
        }
    }

    #[test]
    fn a_message_is_divided() {
        let mut outgoing = Outgoing::new(250);
        assert_eq!(outgoing.next(124), (0..100, 150));
        assert_eq!(outgoing.next(124), (100..200, 50));
        assert!(!outgoing.is_done());
        assert_eq!(outgoing.next(124), (200..250, 0));
        assert!(outgoing.is_done());
        assert_eq!(outgoing.next(124), (250..250, 0));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Registered memory that is handed out in pieces.

use crate::{
    error::Result,
    ffi::Region,
    peer::Peer, //
};
use svcrdma_proto::chunk::Segment;

/// The size in bytes; enough for each row.
const SIZE: usize = 1 << 20;

/// The value of bytes that were not written.
const UNTOUCHED: u8 = 0x5a;

/// The gap between two pieces, in bytes.
const GAP: usize = 64;

/// The size in bytes of a page of the devices' memory.
const PAGE: u64 = 4096;

/// The size in bytes of the longest piece that lies within one page.
///
/// siw cuts the payload of a short packet at the wrong byte where it crosses a page, and sends other
/// bytes (`siw_try_1seg()` in drivers/infiniband/sw/siw/siw_qp_tx.c).
const SHORT: u32 = 64;

/// The memory of one connection.
pub(super) struct Memory {
    region: Region,
    used: usize,
}

impl Memory {
    /// Allocates and registers memory for `peer`.
    pub(super) fn of(peer: &Peer) -> Result<Self> {
        let region = peer.region(SIZE)?;
        region.write(0, &[UNTOUCHED; SIZE])?;
        Ok(Self { region, used: 0 })
    }

    /// Allocates segments of these lengths, none of which is adjacent to another.
    pub(super) fn segments(&mut self, lengths: &[u32]) -> Vec<Segment> {
        lengths.iter().map(|&length| self.segment(length)).collect()
    }

    /// Allocates a segment.
    fn segment(&mut self, length: u32) -> Segment {
        let room = PAGE - (self.region.address() + self.used as u64) % PAGE;
        if length <= SHORT && room < u64::from(length) {
            self.used += room as usize;
        }
        let offset = self.region.address() + self.used as u64;
        // An odd distance, as clients' buffers may be unaligned.
        self.used += length as usize + GAP + 1;
        Segment {
            handle: self.region.rkey(),
            length,
            offset,
        }
    }

    /// Allocates segments of these lengths and fills them with `data`, one after the other.
    pub(super) fn filled(&mut self, data: &[u8], lengths: &[u32]) -> Result<Vec<Segment>> {
        let segments = self.segments(lengths);
        let mut rest = data;
        for segment in &segments {
            let (now, later) = rest.split_at(rest.len().min(segment.length as usize));
            self.region.write(self.place(segment), now)?;
            rest = later;
        }
        Ok(segments)
    }

    /// Returns the concatenated contents of `segments`.
    pub(super) fn content(&self, segments: &[Segment]) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        for segment in segments {
            let bytes = self
                .region
                .read(self.place(segment), segment.length as usize);
            content.extend(bytes?);
        }
        Ok(content)
    }

    /// Returns true if nothing was written behind the first `written` bytes of `segment`.
    pub(super) fn is_untouched_behind(&self, segment: &Segment, written: u32) -> Result<bool> {
        let len = (segment.length - written) as usize + GAP;
        let bytes = self
            .region
            .read(self.place(segment) + written as usize, len)?;
        Ok(bytes.iter().all(|&byte| byte == UNTOUCHED))
    }

    /// Returns the offset of `segment` in the region.
    fn place(&self, segment: &Segment) -> usize {
        (segment.offset - self.region.address()) as usize
    }
}

/// Returns `len` pseudo-random bytes that depend on `seed`.
pub(super) fn pattern(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::Fake;

    #[test]
    fn short_pieces_lie_within_a_page() {
        let fake = Fake::new();
        let mut memory = Memory {
            region: fake.region(SIZE),
            used: 0,
        };
        for length in (0..=SHORT).cycle().take(2_000) {
            let piece = memory.segment(length);
            assert!(piece.offset % PAGE + u64::from(length) <= PAGE);
        }
        assert!(memory.used <= SIZE);
    }
}

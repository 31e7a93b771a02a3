// SPDX-License-Identifier: GPL-2.0

//! Memory that the server may read and write, given out piece by piece.

use crate::{
    error::Result,
    ffi::Region,
    peer::Peer, //
};
use svcrdma_proto::chunk::Segment;

/// Room for all that a row needs.
const SIZE: usize = 1 << 20;

/// What lies where nobody has written.
const UNTOUCHED: u8 = 0x5a;

/// Bytes between two pieces.
const GAP: usize = 64;

/// Memory of one connection.
pub(super) struct Memory {
    region: Region,
    used: usize,
}

impl Memory {
    /// Registers it.
    pub(super) fn of(peer: &Peer) -> Result<Self> {
        let region = peer.region(SIZE)?;
        region.write(0, &[UNTOUCHED; SIZE])?;
        Ok(Self { region, used: 0 })
    }

    /// Gives out segments of these lengths, none of which begins where another ends.
    pub(super) fn segments(&mut self, lengths: &[u32]) -> Vec<Segment> {
        lengths.iter().map(|&length| self.segment(length)).collect()
    }

    /// Gives out a segment.
    fn segment(&mut self, length: u32) -> Segment {
        let offset = self.region.address() + self.used as u64;
        // Odd, as clients' buffers may be.
        self.used += length as usize + GAP + 1;
        Segment {
            handle: self.region.rkey(),
            length,
            offset,
        }
    }

    /// Gives out segments of these lengths that hold `data`, one after the other.
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

    /// Returns what is in `segments`, as far as their lengths say, one after the other.
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

    /// Whether nothing was written behind the `written` bytes of `segment`.
    pub(super) fn is_untouched_behind(&self, segment: &Segment, written: u32) -> Result<bool> {
        let len = (segment.length - written) as usize + GAP;
        let bytes = self
            .region
            .read(self.place(segment) + written as usize, len)?;
        Ok(bytes.iter().all(|&byte| byte == UNTOUCHED))
    }

    /// Returns where `segment` is in the region.
    fn place(&self, segment: &Segment) -> usize {
        (segment.offset - self.region.address()) as usize
    }
}

/// Returns `len` bytes that differ from those of another `seed`.
pub(super) fn pattern(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

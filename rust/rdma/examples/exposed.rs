// SPDX-License-Identifier: GPL-2.0

//! The memory that the example exposes: one page region for each connection, which its peer asks for.
//!
//! Two messages are commands. `expose`, a letter (`r`, `w` or `b` for both) and a number of bytes in 4
//! bytes fills the memory with [`PATTERN`], exposes the first bytes of it, and is answered with
//! `exposed`, key, address and length. `revoke` takes the memory back, and is answered with the bytes
//! that it has then. So is any message that invalidates the key. Numbers are big-endian. A command
//! that cannot be followed comes back as it is.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    device::Pd,
    mem::{
        exposure::{
            Exposure,
            RemoteRead,
            RemoteReadWrite,
            RemoteWrite,
            Segment,
            Unexposed, //
        },
        page_region::PageRegion, //
    },
    send::chain::Chain,
};

/// Pages of the memory.
pub(crate) const PAGES: usize = 4;

/// The bytes that the memory is filled with, again and again: each is its address modulo 256.
const PATTERN: [u8; 256] = {
    let mut pattern = [0; 256];
    let mut at = 0;
    while at < 256 {
        pattern[at] = at as u8;
        at += 1;
    }
    pattern
};

/// A command of the peer.
pub(crate) enum Command {
    Expose { access: u8, len: usize },
    Revoke,
}

impl Command {
    /// Returns the command in a message, or `None` if it is to be sent back.
    pub(crate) fn of(message: &[u8]) -> Option<Self> {
        if message == b"revoke" {
            return Some(Self::Revoke);
        }
        let [access @ (b'r' | b'w' | b'b'), a, b, c, d] = *message.strip_prefix(b"expose")? else {
            return None;
        };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        Some(Self::Expose { access, len })
    }
}

/// An exposure of any kind.
pub(crate) enum Exposed {
    Read(Exposure<RemoteRead>),
    Write(Exposure<RemoteWrite>),
    Both(Exposure<RemoteReadWrite>),
}

impl Exposed {
    /// Fills `region`, and maps it to expose `len` bytes.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        mut region: KBox<PageRegion>,
        access: u8,
        len: usize,
    ) -> Result<Self, Unexposed> {
        let stream = region.stream_mut();
        for at in (0..stream.len() * support::page::PAGE_SIZE).step_by(PATTERN.len()) {
            stream.fill(at, &PATTERN);
        }
        match access {
            b'r' => Exposure::new(pd, region, len).map(Self::Read),
            b'w' => Exposure::new(pd, region, len).map(Self::Write),
            _ => Exposure::new(pd, region, len).map(Self::Both),
        }
    }

    /// Returns the first segment, which is the only one of so few pages.
    pub(crate) fn segment(&self) -> Option<Segment> {
        match self {
            Self::Read(exposure) => exposure.segments().next(),
            Self::Write(exposure) => exposure.segments().next(),
            Self::Both(exposure) => exposure.segments().next(),
        }
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Read(exposure) => exposure.len(),
            Self::Write(exposure) => exposure.len(),
            Self::Both(exposure) => exposure.len(),
        }
    }

    /// Adds the registration.
    pub(crate) fn expose<'m>(&'m self, chain: &mut Chain<'_, 'm>, room: usize) -> bool {
        match self {
            Self::Read(exposure) => chain.expose(exposure, room),
            Self::Write(exposure) => chain.expose(exposure, room),
            Self::Both(exposure) => chain.expose(exposure, room),
        }
    }

    /// Adds the invalidation.
    pub(crate) fn revoke<'m>(&'m self, chain: &mut Chain<'_, 'm>, room: usize) -> bool {
        match self {
            Self::Read(exposure) => chain.revoke(exposure, room),
            Self::Write(exposure) => chain.revoke(exposure, room),
            Self::Both(exposure) => chain.revoke(exposure, room),
        }
    }

    /// Returns the pages if no peer can reach them.
    pub(crate) fn into_region(self) -> Result<KBox<PageRegion>, Self> {
        match self {
            Self::Read(exposure) => exposure.into_region().map_err(Self::Read),
            Self::Write(exposure) => exposure.into_region().map_err(Self::Write),
            Self::Both(exposure) => exposure.into_region().map_err(Self::Both),
        }
    }
}

/// The memory of a connection. Dropping it sleeps.
#[derive(Default)]
pub(crate) struct Memory {
    /// The pages, while they are not exposed.
    pub(crate) region: Option<KBox<PageRegion>>,
    /// The exposure, unless work has it.
    pub(crate) exposed: Option<Exposed>,
    /// The key, while the pages are exposed.
    pub(crate) key: Option<u32>,
    /// True if the peer has asked for the end of the exposure before its work was completed.
    pub(crate) is_ending: bool,
}

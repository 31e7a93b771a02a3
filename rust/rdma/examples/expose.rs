// SPDX-License-Identifier: GPL-2.0

//! A ULP that exposes memory to its peers. It listens on port 20051 of all IPv4 addresses.
//!
//! | message | answer |
//! |---|---|
//! | `expose`, `r`, `w` or `b`, and a length of 4 bytes | `exposed`, the key, the address (8 bytes) and the length |
//! | `revoke` | the bytes that the memory has, a page at most |
//! | anything else, and a command that cannot be followed | the message |
//!
//! Integers are big-endian. The memory is filled with its addresses modulo 256 before.

use kernel::prelude::*;
use rdma::mem::{
    exposure::{
        Any,
        Exposure,
        RemoteRead,
        RemoteReadWrite,
        RemoteWrite,
        Segment, //
    },
    page_region::PageRegion, //
};
use rdma::send::buffer::SendBuffer;
use rdma::service::{
    job::Completed,
    peer::Peer,
    server::Server,
    service::{
        Capacity,
        Outcome,
        Service,
        Session, //
    },
};
use support::page::{Effort, PAGE_SIZE};

/// Pages of the memory of a connection.
const PAGES: usize = 4;

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

/// The memory of a connection.
enum Memory {
    Idle(KBox<PageRegion>),
    /// A job exposes the memory. `is_ending` is true if the peer has given it up meanwhile.
    Exposing {
        is_ending: bool,
    },
    Exposed(Exposure<Any>),
    /// A job revokes the memory.
    Revoking,
}

/// The service.
struct Exposer;

/// A connection: its idle send buffers, its memory, and what is exposed of that.
struct ExposerSession {
    idle: KVec<SendBuffer>,
    memory: Memory,
    segment: Option<Segment>,
}

impl Service for Exposer {
    type Session = ExposerSession;

    fn capacity(&self) -> Capacity {
        Capacity {
            connections: 64,
            messages: 16,
            jobs: 33,
        }
    }

    fn accept(&self, peer: &Peer<()>) -> Result<ExposerSession> {
        let mut idle = KVec::new();
        for _ in 0..32 {
            idle.push(SendBuffer::new(peer.pd(), Effort::Full)?, GFP_KERNEL)?;
        }
        let memory = Memory::Idle(PageRegion::for_exposure(peer.pd(), PAGES)?);
        Ok(ExposerSession {
            idle,
            memory,
            segment: None,
        })
    }
}

impl ExposerSession {
    /// Sends `parts`, one behind the other.
    fn answer(&mut self, peer: &mut Peer<()>, parts: &[&[u8]]) -> Outcome {
        let mut buffer = self.idle.pop().ok_or("answers are not taken")?;
        let mut len = 0;
        for part in parts {
            let out = buffer.bytes_mut().get_mut(len..len + part.len());
            out.ok_or("answer too long")?.copy_from_slice(part);
            len += part.len();
        }
        peer.send(buffer, len)
    }

    /// Fills the memory, exposes `len` bytes of it, and answers. The answer is `command` if that is not
    /// possible.
    fn expose(&mut self, peer: &mut Peer<()>, command: &[u8], access: u8, len: usize) -> Outcome {
        let exposing = Memory::Exposing { is_ending: false };
        let mut region = match core::mem::replace(&mut self.memory, exposing) {
            Memory::Idle(region) => region,
            other => {
                self.memory = other;
                return self.answer(peer, &[command]);
            }
        };
        let stream = region.stream_mut();
        for at in (0..stream.len() * PAGE_SIZE).step_by(PATTERN.len()) {
            stream.fill(at, &PATTERN);
        }
        let exposure = match access {
            b'r' => Exposure::<RemoteRead>::new(peer.pd(), region, len).map(Exposure::any),
            b'w' => Exposure::<RemoteWrite>::new(peer.pd(), region, len).map(Exposure::any),
            _ => Exposure::<RemoteReadWrite>::new(peer.pd(), region, len).map(Exposure::any),
        };
        let exposure = match exposure {
            Ok(exposure) => exposure,
            Err(unexposed) => {
                self.memory = Memory::Idle(unexposed.region);
                return self.answer(peer, &[command]);
            }
        };
        // So few pages have one segment.
        let segment = exposure.segments().next().ok_or("no segment")?;
        self.segment = Some(segment);
        peer.expose(exposure, ())?;
        let (key, addr) = (segment.key.to_be_bytes(), segment.addr.to_be_bytes());
        self.answer(peer, &[b"exposed", &key, &addr, &segment.len.to_be_bytes()])
    }

    /// Takes the memory back. The answer is `command` if it is not exposed.
    fn revoke(&mut self, peer: &mut Peer<()>, command: &[u8]) -> Outcome {
        match core::mem::replace(&mut self.memory, Memory::Revoking) {
            Memory::Exposed(exposure) => peer.revoke(exposure, ()),
            // The peer may use the memory before the job that exposes it has completed.
            Memory::Exposing { is_ending: false } => {
                self.memory = Memory::Exposing { is_ending: true };
                Ok(())
            }
            other => {
                self.memory = other;
                self.answer(peer, &[command])
            }
        }
    }
}

impl Session for ExposerSession {
    type Tag = ();

    fn received(&mut self, message: &[u8], peer: &mut Peer<()>) -> Outcome {
        match message {
            b"revoke" => self.revoke(peer, message),
            [b'e', b'x', b'p', b'o', b's', b'e', access @ (b'r' | b'w' | b'b'), a, b, c, d] => {
                let len = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
                self.expose(peer, message, *access, len)
            }
            other => self.answer(peer, &[other]),
        }
    }

    fn invalidated(&mut self, _message: &[u8], key: u32, peer: &mut Peer<()>) -> Outcome {
        if self.segment.is_none_or(|segment| segment.key != key) {
            return Err("another key was invalidated");
        }
        self.revoke(peer, &[])
    }

    fn completed(&mut self, job: Completed<()>, peer: &mut Peer<()>) -> Outcome {
        match job {
            Completed::Sent(buffer) => {
                let returned = self.idle.push_within_capacity(buffer);
                returned.map_err(|_| "too many buffers")
            }
            Completed::Exposed(exposure, ()) => {
                let is_ending = matches!(self.memory, Memory::Exposing { is_ending: true });
                self.memory = Memory::Exposed(exposure);
                if is_ending {
                    return self.revoke(peer, &[]);
                }
                Ok(())
            }
            Completed::Revoked(mut region, ()) => {
                let mut buffer = self.idle.pop().ok_or("answers are not taken")?;
                let len = self
                    .segment
                    .take()
                    .map_or(0, |segment| segment.len as usize);
                let out = buffer.bytes_mut();
                let most = len.min(out.len());
                let len = region
                    .stream_mut()
                    .read(0, out.get_mut(..most).unwrap_or_default());
                self.memory = Memory::Idle(region);
                peer.send(buffer, len)
            }
            Completed::Read(..) | Completed::Written(..) => Ok(()),
        }
    }
}

#[pin_data]
struct Module {
    #[pin]
    server: Server<Exposer>,
}

impl kernel::InPlaceModule for Module {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self { server <- Server::new(c"rdma_expose", 20051, Ok(Exposer)) }? Error)
    }
}

module! {
    type: Module,
    name: "rdma_expose",
    authors: ["The svcrdma developers"],
    description: "Exposes memory to peers over RDMA",
    license: "GPL",
}

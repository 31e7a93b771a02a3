// SPDX-License-Identifier: GPL-2.0

//! A ULP that sends each message back. It listens on port 20050 of all IPv4 addresses.

use kernel::prelude::*;
use rdma::send::buffer::SendBuffer;
use rdma::service::job::Completed;
use rdma::service::peer::Peer;
use rdma::service::server::Server;
use rdma::service::service::{Capacity, Outcome, Service, Session};
use support::page::Effort;

/// The service. It needs no data.
struct Echo;

/// A connection: its idle send buffers.
struct EchoSession(KVec<SendBuffer>);

impl Service for Echo {
    type Session = EchoSession;

    fn capacity(&self) -> Capacity {
        Capacity {
            connections: 64,
            messages: 16,
            jobs: 32,
        }
    }

    fn accept(&self, peer: &Peer<()>) -> Result<EchoSession> {
        let mut idle = KVec::new();
        for _ in 0..self.capacity().jobs {
            idle.push(SendBuffer::new(peer.pd(), Effort::Full)?, GFP_KERNEL)?;
        }
        Ok(EchoSession(idle))
    }
}

impl Session for EchoSession {
    type Tag = ();

    fn received(&mut self, message: &[u8], peer: &mut Peer<()>) -> Outcome {
        let mut buffer = self.0.pop().ok_or("answers are not taken")?;
        let out = buffer.bytes_mut().get_mut(..message.len());
        out.ok_or("message too long")?.copy_from_slice(message);
        peer.send(buffer, message.len())
    }

    fn completed(&mut self, job: Completed<()>, _peer: &mut Peer<()>) -> Outcome {
        let Completed::Sent(buffer) = job else {
            return Ok(());
        };
        let returned = self.0.push_within_capacity(buffer);
        returned.map_err(|_| "too many buffers")
    }
}

#[pin_data]
struct Module {
    #[pin]
    server: Server<Echo>,
}

impl kernel::InPlaceModule for Module {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self { server <- Server::new(c"rdma_echo", 20050, Ok(Echo)) }? Error)
    }
}

module! {
    type: Module,
    name: "rdma_echo",
    authors: ["The svcrdma developers"],
    description: "Sends messages back over RDMA",
    license: "GPL",
}

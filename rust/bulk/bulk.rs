// SPDX-License-Identifier: GPL-2.0

//! `rdma_bulk`: a ULP on the crate `rdma` that serves the bulk protocol of the crate `smbdirect` over
//! SMB Direct.
//!
//! It shows what a second ULP needs beside the crate, and measures a fabric without NFS. It has no
//! unsafe code.

#![forbid(unsafe_code)]

use core::borrow::Borrow;
use kernel::{
    error::Error,
    prelude::*,
    sync::Arc, //
};
use rdma::service::{
    peer::Peer,
    server::Server,
    service::{
        Capacity,
        Service, //
    },
};
use support::{
    addr::{
        Addr,
        Net, //
    },
    page::PAGE_SIZE,
    pernet::PerNet,
    RateLimit, //
};
use svcrdma_proto::source::Origin;

#[path = "../svc/accept_from.rs"]
mod accept_from;
mod host;
mod regions;
mod session;

use host::Host;
use module_parameters as parameters;
use session::{
    BulkSession,
    BUFFERS, //
};

/// The most regions of a connection.
const MAX_REGIONS: u8 = 16;

/// Returns a module parameter. Older kernels return a reference to it.
fn value<T: Copy>(parameter: impl Borrow<T>) -> T {
    *parameter.borrow()
}

/// The service.
#[pin_data]
struct Bulk {
    #[pin]
    hosts: PerNet<Host>,
}

impl Bulk {
    /// Returns the directory. The module listens in the initial network namespace alone.
    fn host(&self) -> Arc<Host> {
        self.hosts.get(Net::initial())
    }
}

impl Service for Bulk {
    type Session = BulkSession;

    fn capacity(&self) -> Capacity {
        Capacity {
            connections: value::<u8>(parameters::max_peers.value()).min(64).into(),
            messages: BUFFERS,
            jobs: BUFFERS + u16::from(MAX_REGIONS),
        }
    }

    fn admits(&self, origin: &Origin) -> bool {
        self.host().accept_from.missing(origin).is_none()
    }

    fn accept(&self, peer: &Peer<session::Head>) -> Result<BulkSession> {
        let count = value::<u8>(parameters::regions.value()).min(MAX_REGIONS);
        let kib = value::<u32>(parameters::region_kib.value()).clamp(4, 16 * 1024);
        let pages = kib as usize * 1024 / PAGE_SIZE;
        let interval = value::<u16>(parameters::keepalive.value()).max(1);
        BulkSession::new(peer, self.host(), count.into(), pages, interval.into())
    }

    fn accepted(&self, _peer: &Addr) {
        self.host().accepted.inc();
    }

    fn rejected(&self, peer: &Addr, error: Error) {
        self.host().refused.inc();
        if RateLimit::Refusals.allows() {
            pr_warn!("{}: rejecting: {:?}\n", peer, error);
        }
    }

    fn closed(&self, peer: &Addr, reason: &'static str) {
        self.host().closed.inc();
        if RateLimit::Closes.allows() {
            pr_info!("{}: closing: {}\n", peer, reason);
        }
    }
}

/// The module.
#[pin_data]
struct Module {
    #[pin]
    server: Server<Bulk>,
}

impl kernel::InPlaceModule for Module {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let port = value::<u16>(parameters::port.value());
        let bulk = try_pin_init!(Bulk { hosts <- PerNet::register() }? Error);
        try_pin_init!(Self { server <- Server::new(c"rdma_bulk", port, bulk) }? Error)
    }
}

module! {
    type: Module,
    name: "rdma_bulk",
    authors: ["The svcrdma developers"],
    description: "Bulk transfers over SMB Direct",
    license: "GPL",
    params: {
        port: u16 {
            default: 5445,
            description: "TCP port or RDMA service to listen on (default: 5445)",
        },
        max_peers: u8 {
            default: 16,
            description: "Connections at a time, 64 at most (default: 16)",
        },
        regions: u8 {
            default: 4,
            description: "Regions of a connection, 16 at most (default: 4)",
        },
        region_kib: u32 {
            default: 1024,
            description: "KiB of a region, from 4 to 16384 (default: 1024)",
        },
        keepalive: u16 {
            default: 60,
            description: "Seconds of silence after which a peer is asked for a sign of life (default: 60)",
        },
    },
}

// SPDX-License-Identifier: GPL-2.0

//! `rdma_bulk`: a ULP on the crate `rdma` that serves the bulk protocol of the crate `smbdirect` over
//! SMB Direct.
//!
//! It shows what a second ULP needs beside the crate, and measures a fabric without NFS. It has no
//! unsafe code.

#![forbid(unsafe_code)]

use core::{
    borrow::Borrow,
    net::{Ipv4Addr, SocketAddrV4},
};
use kernel::{prelude::*, sync::Arc};
use rdma::{client::Registration, cm::CmId};
use support::{
    addr::{Addr, Net},
    workqueue::{OwnedQueue, Periodic},
};

#[path = "../svc/accept_from.rs"]
mod accept_from;
mod connection;
mod devices;
mod job;
mod state;

use devices::{Devices, Listener};

/// Returns a module parameter. Older kernels return a reference to it.
fn value<T: Copy>(parameter: impl Borrow<T>) -> T {
    *parameter.borrow()
}

/// The last reference to the devices: waits for the work that tears connections down.
struct Flush(Arc<Devices>);

impl Drop for Flush {
    fn drop(&mut self) {
        self.0.queue.flush();
    }
}

/// The module. The fields are dropped in this order: no peer connects any more, then all connections
/// end, then their work has ended.
#[pin_data]
struct Module {
    listening: CmId<Listener>,
    timer: Pin<KBox<Periodic<Devices>>>,
    #[pin]
    client: Registration<Devices>,
    flush: Flush,
}

impl kernel::InPlaceModule for Module {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(move || {
            let queue = Arc::new(OwnedQueue::new()?, GFP_KERNEL)?;
            let devices = Devices::new(queue.clone())?;
            let port = value::<u16>(module_parameters::port.value());
            let addr = Addr::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
            let listener = Arc::new(Listener(devices.clone()), GFP_KERNEL)?;
            Ok(try_pin_init!(Self {
                flush: Flush(devices.clone()),
                client <- Registration::new(c"rdma_bulk", devices.clone()),
                timer: Periodic::new(queue, devices)?,
                listening: CmId::listen(Net::initial(), &addr, listener)?,
            }? Error))
        })
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

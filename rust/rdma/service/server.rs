// SPDX-License-Identifier: GPL-2.0

//! Servers: what a module has to run a service.

use crate::{
    client::Registration,
    cm::CmId,
    service::{
        devices::{
            Devices,
            Listener, //
        },
        service::Service, //
    },
};
use core::net::{
    Ipv4Addr,
    SocketAddrV4, //
};
use kernel::{
    prelude::*,
    str::CStr,
    sync::Arc, //
};
use support::{
    addr::{
        Addr,
        Net, //
    },
    workqueue::{
        OwnedQueue,
        Periodic, //
    },
};

/// A running service. A module has it as a field; there is at most one in a module.
///
/// Dropping it ends all connections and sleeps.
#[pin_data]
pub struct Server<S: Service> {
    // The fields are dropped in this order: no peer connects any more, no tick follows, all connections
    // end, and then their work has ended.
    _listening: CmId<Listener<S>>,
    _timer: Pin<KBox<Periodic<Devices<S>>>>,
    #[pin]
    _client: Registration<Devices<S>>,
    _flush: Flush<S>,
}

impl<S: Service> Server<S> {
    /// Starts `service` under the name `name` on all devices: it listens on `port` of all IPv4 addresses
    /// of the initial network namespace. The port is a TCP port on iWARP, and an RDMA service on
    /// InfiniBand and RoCE. May sleep.
    ///
    /// # Errors
    ///
    /// The error of `service`, `EBUSY` if the module has a server, `ENOMEM`, or the error of the RDMA
    /// core, such as `EADDRINUSE`.
    pub fn new(
        name: &'static CStr,
        port: u16,
        service: impl PinInit<S, Error>,
    ) -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(move || {
            let queue = Arc::new(OwnedQueue::new()?, GFP_KERNEL)?;
            let devices = Devices::new(service, queue.clone())?;
            let addr = Addr::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
            let listener = Arc::new(Listener(devices.clone()), GFP_KERNEL)?;
            Ok(try_pin_init!(Self {
                _flush: Flush(devices.clone()),
                _client <- Registration::new(name, devices.clone()),
                _timer: Periodic::new(queue, devices)?,
                _listening: CmId::listen(Net::initial(), &addr, listener)?,
            }? Error))
        })
    }
}

/// The last reference to the devices: waits for the work that tears connections down.
struct Flush<S: Service>(Arc<Devices<S>>);

impl<S: Service> Drop for Flush<S> {
    fn drop(&mut self) {
        self.0.queue.flush();
        // The first flush may have run work that has queued a teardown.
        self.0.queue.flush();
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The server: the state of the module.

use super::{
    port::{
        Incoming,
        Port, //
    },
    ports::Ports, //
};
use crate::svc::{
    close_reason::CloseReason,
    counters::Counters,
    device::{
        capabilities::ReadsInto,
        devices::Devices, //
    },
    settings,
    watchdog::SECONDS, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use sunrpc::inbox::Inbox;
use support::{
    addr::Net,
    pernet::PerNet,
    workqueue::{
        OwnedQueue,
        Tick, //
    },
};

/// Module-wide state. The module's fields and all listeners share it.
#[pin_data]
pub(crate) struct Server {
    /// The devices and their connections.
    pub(crate) devices: Arc<Devices>,
    /// The ports of all listeners.
    #[pin]
    pub(crate) ports: Ports,
    /// The counters of each network namespace.
    #[pin]
    namespaces: PerNet<Counters>,
}

impl Server {
    /// Creates the state of a server without devices and listeners. May sleep.
    pub(crate) fn new(reads_into: ReadsInto) -> Result<Arc<Self>> {
        let queue = Arc::new(OwnedQueue::new()?, GFP_KERNEL)?;
        let devices = Devices::new(queue, reads_into)?;
        Arc::pin_init(
            try_pin_init!(Self {
                devices,
                ports <- Ports::new(),
                namespaces <- PerNet::register(),
            }),
            GFP_KERNEL,
        )
    }

    /// Creates a port in `net` that does not listen yet. May sleep.
    pub(super) fn new_port(&self, net: Net<'_>, inbox: Arc<Inbox<Incoming>>) -> Result<Arc<Port>> {
        let counters = self.namespaces.get(net);
        Port::new(self.devices.clone(), net.keep(), counters, inbox)
    }

    /// Closes the listeners, and then all connections. The connections wait for the listeners, so
    /// that clients cannot connect again to a listener that is about to close. May sleep.
    pub(super) fn release(&self) {
        if self.ports.release() {
            self.devices
                .for_each(|device| device.close_all(CloseReason::Released));
        }
    }
}

impl Tick for Server {
    const MSECS: u32 = SECONDS * 1000;

    fn tick(self: &Arc<Self>) {
        if settings::is_released() {
            self.release();
        } else {
            self.ports.tick();
        }
    }
}

/// The last reference to the server. Dropping it waits for all queued work of the module, then
/// drops the server.
///
/// The order matters: dropping the server removes the folders of network namespaces. That waits for
/// threads that create or destroy a namespace, and these threads may wait for queued work.
pub(crate) struct Flush(pub(crate) Arc<Server>);

impl Drop for Flush {
    fn drop(&mut self) {
        let queue = &self.0.devices.queue;
        queue.flush();
        // The first flush may have run work that has queued the refill of a pool.
        queue.flush();
    }
}

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
        devices::Devices,
        hardware::ReadsInto, //
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

/// Module-wide state.
#[pin_data]
pub(crate) struct Server {
    /// Devices and their connections.
    pub(crate) devices: Arc<Devices>,
    #[pin]
    pub(crate) ports: Ports,
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

    /// Closes the listeners, and the connections once no listener is left that is worth waiting for: clients
    /// cannot connect again until all are back. May sleep.
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

/// Waits until all queued work has run when it is dropped: no work of the module is left after that. It is
/// the last to hold the server, because removing the folders of network namespaces waits for others who
/// create or destroy one, and they may wait for queued work.
pub(crate) struct Flush(pub(crate) Arc<Server>);

impl Drop for Flush {
    fn drop(&mut self) {
        let queue = &self.0.devices.queue;
        queue.flush();
        // The work may have queued the refill of a pool.
        queue.flush();
    }
}

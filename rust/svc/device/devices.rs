// SPDX-License-Identifier: GPL-2.0

//! The list of RDMA devices. The RDMA core adds and removes its entries.

use super::{
    capabilities::ReadsInto,
    device::Device, //
};
use crate::svc::watchdog::{
    self,
    Watchdog, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};
use rdma::{
    client::Client,
    device::IbDevice, //
};
use support::workqueue::OwnedQueue;

/// A device and its watchdog. Dropping the watchdog stops it, which sleeps.
struct Watched {
    device: Arc<Device>,
    watchdog: Watchdog<Device>,
}

/// All devices. The module's `Server` and all ports share it.
///
/// # Locking
///
/// A mutex protects the list. No function of a [`Device`] is called under it but [`Device::is`].
#[pin_data]
pub(crate) struct Devices {
    #[pin]
    list: Mutex<KVec<Watched>>,
    /// The memory that RDMA Reads of all devices go to.
    reads_into: ReadsInto,
    /// The module's workqueue: it tears down connections, refills pools, and runs the watchdogs.
    pub(crate) queue: Arc<OwnedQueue>,
    /// The next number of a connection or port.
    next_number: Atomic<u64>,
}

impl Devices {
    /// Creates an empty list. `reads_into` applies to all devices that are added. May sleep.
    pub(crate) fn new(queue: Arc<OwnedQueue>, reads_into: ReadsInto) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                list <- new_mutex!(KVec::new(), "svcrdma devices"),
                reads_into,
                queue,
                next_number: Atomic::new(1),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns a number for a new connection or port. No number is used twice.
    pub(crate) fn new_number(&self) -> u64 {
        self.next_number.fetch_add(1, Relaxed)
    }

    /// Returns the entry of the device `ib`. May sleep.
    pub(crate) fn find(&self, ib: &IbDevice) -> Option<Arc<Device>> {
        let list = self.list.lock();
        let mut devices = list.iter().map(|watched| &watched.device);
        devices.find(|device| device.is(ib)).cloned()
    }

    /// Calls `f` for each device. May sleep.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<Device>)) {
        let mut i: usize = 0;
        loop {
            // `f` runs without the mutex, because it may wait for the device.
            let device = self
                .list
                .lock()
                .get(i)
                .map(|watched| watched.device.clone());
            let Some(device) = device else {
                return;
            };
            f(&device);
            i = i.saturating_add(1);
        }
    }

    /// Removes the device `ib` from the list, and returns its entry. May sleep.
    fn take(&self, ib: &IbDevice) -> Option<Watched> {
        let mut list = self.list.lock();
        let i = list.iter().position(|watched| watched.device.is(ib))?;
        list.remove(i).ok()
    }
}

impl Client for Devices {
    fn add(&self, ib: IbDevice) -> Result {
        let device = Device::new(ib, self.reads_into, self.queue.clone())?;
        let watched = Watched {
            watchdog: watchdog::start(&self.queue, &device)?,
            device,
        };
        self.list.lock().push(watched, GFP_KERNEL)?;
        Ok(())
    }

    fn remove(&self, ib: &IbDevice) {
        if let Some(Watched { device, watchdog }) = self.take(ib) {
            drop(watchdog);
            device.remove();
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The list of all RDMA devices, which follows the RDMA core's.

use super::{
    hardware::ReadsInto,
    Device, //
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

/// A device that is looked after until this is dropped, which sleeps.
struct Watched {
    device: Arc<Device>,
    watchdog: Watchdog<Device>,
}

/// All devices.
#[pin_data]
pub(crate) struct Devices {
    #[pin]
    list: Mutex<KVec<Watched>>,
    reads_into: ReadsInto,
    /// Tears connections down, refills pools, and looks after devices.
    pub(crate) queue: Arc<OwnedQueue>,
    next_number: Atomic<u64>,
}

impl Devices {
    /// Creates an empty list; `reads_into` is for all devices that are added. May sleep.
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

    /// Returns the number of a new connection or port. No number is used twice.
    pub(crate) fn new_number(&self) -> u64 {
        self.next_number.fetch_add(1, Relaxed)
    }

    /// The device that is `ib`. May sleep.
    pub(crate) fn find(&self, ib: &IbDevice) -> Option<Arc<Device>> {
        let list = self.list.lock();
        let mut devices = list.iter().map(|watched| &watched.device);
        devices.find(|device| device.is(ib)).cloned()
    }

    /// Calls `f` for each device. May sleep.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<Device>)) {
        let mut i: usize = 0;
        loop {
            // Not under the lock: a device may be waiting for its hardware.
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

    /// Takes the device that is `ib` out of the list. May sleep.
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

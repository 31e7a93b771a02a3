// SPDX-License-Identifier: GPL-2.0

//! The watchdogs: each looks after a device, or after the listeners. They close what makes no
//! progress, or everything if an admin wants the module to be released, and adjust what is pooled.

use super::{
    close_reason::CloseReason,
    device::{
        shortage,
        Device, //
    },
    settings,
    Server, //
};
use core::pin::Pin;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use support::workqueue::{
    OwnedQueue,
    Periodic,
    Tick, //
};

/// Seconds between two looks.
const SECONDS: u32 = 2;

/// Looks for a shortage between them.
const SHORTAGE_LOOKS: u32 = SECONDS * 1000 / shortage::INTERVAL;

/// Looks after `T` until dropped.
pub(crate) type Watchdog<T> = Pin<KBox<Periodic<T>>>;

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

impl Server {
    /// Closes the listeners, and the connections when no listener is left that takes its time: until
    /// all are back clients cannot connect again. May sleep.
    pub(crate) fn release(&self) {
        if self.ports.release() {
            self.devices
                .for_each(|device| device.close_all(CloseReason::Released));
        }
    }
}

impl Tick for Device {
    const MSECS: u32 = shortage::INTERVAL;

    fn tick(self: &Arc<Self>) {
        let look = self.pool.number_look();
        self.end_shortages(look);
        if look % SHORTAGE_LOOKS == 0 {
            self.look(SECONDS);
        }
    }
}

/// Starts to look after `target`. May sleep.
pub(crate) fn start<T: Tick + 'static>(
    queue: &Arc<OwnedQueue>,
    target: &Arc<T>,
) -> Result<Watchdog<T>> {
    Periodic::new(queue.clone(), target.clone())
}

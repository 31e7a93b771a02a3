// SPDX-License-Identifier: GPL-2.0

//! The watchdog: closes what makes no progress, and adjusts what is pooled.

use super::{
    device::Devices,
    Server,
    Watchdog, //
};
use crate::abstractions::workqueue::{
    Periodic,
    Tick, //
};
use kernel::prelude::*;

/// Seconds between two looks.
const SECONDS: u32 = 2;

impl Tick for Devices {
    fn tick(&self) {
        Devices::tick(self, SECONDS);
    }
}

/// Starts to look after the server's devices. May sleep.
pub(crate) fn start(server: &Server) -> Result<Watchdog> {
    Periodic::new(server.queue.clone(), server.devices.clone(), SECONDS * 1000)
}

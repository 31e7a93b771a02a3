// SPDX-License-Identifier: GPL-2.0

//! The watchdog: closes what makes no progress, or everything if an admin wants the module to be
//! released, and adjusts what is pooled.

use super::{
    stats,
    Server,
    Watchdog, //
};
use crate::abstractions::workqueue::{
    Periodic,
    Tick, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Seconds between two looks.
const SECONDS: u32 = 2;

impl Tick for Server {
    fn tick(&self) {
        if stats::RELEASE.get() != 0 {
            self.ports.release();
            self.devices.release();
        } else {
            self.ports.tick();
        }
        self.devices.tick(SECONDS);
    }
}

/// Starts to look after the server's devices. May sleep.
pub(crate) fn start(server: &Arc<Server>) -> Result<Watchdog> {
    Periodic::new(server.queue.clone(), server.clone(), SECONDS * 1000)
}

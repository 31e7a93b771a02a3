// SPDX-License-Identifier: GPL-2.0

//! The watchdog: closes what makes no progress, and adjusts what is pooled.

use super::{
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
        self.devices.tick(SECONDS);
        self.ports.tick();
    }
}

/// Starts to look after the server's devices. May sleep.
pub(crate) fn start(server: &Arc<Server>) -> Result<Watchdog> {
    Periodic::new(server.queue.clone(), server.clone(), SECONDS * 1000)
}

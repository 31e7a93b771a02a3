// SPDX-License-Identifier: GPL-2.0

//! Watchdogs: periodic work for a device or for the listeners.

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

/// Seconds between two ticks for connections and listeners.
pub(crate) const SECONDS: u32 = 2;

/// Milliseconds between two looks for a shortage of pages.
pub(crate) const SHORTAGE_MSECS: u32 = 500;

/// The number of looks for a shortage in one tick of the connections.
pub(crate) const SHORTAGE_LOOKS: u32 = SECONDS * 1000 / SHORTAGE_MSECS;

/// A watchdog: calls [`Tick::tick`] of `T` periodically until it is dropped, which sleeps.
pub(crate) type Watchdog<T> = Pin<KBox<Periodic<T>>>;

/// Starts a watchdog for `target` on `queue`. May sleep.
pub(crate) fn start<T: Tick + 'static>(
    queue: &Arc<OwnedQueue>,
    target: &Arc<T>,
) -> Result<Watchdog<T>> {
    Periodic::new(queue.clone(), target.clone())
}

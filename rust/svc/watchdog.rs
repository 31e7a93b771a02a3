// SPDX-License-Identifier: GPL-2.0

//! Watchdogs: periodic work that looks after a device, or after the listeners.

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

/// Seconds between two looks at connections and listeners.
pub(crate) const SECONDS: u32 = 2;

/// Milliseconds between two looks for a shortage of pages.
pub(crate) const SHORTAGE_MSECS: u32 = 500;

/// Looks for a shortage from one look at connections to the next.
pub(crate) const SHORTAGE_LOOKS: u32 = SECONDS * 1000 / SHORTAGE_MSECS;

/// Looks after `T` until dropped, which sleeps.
pub(crate) type Watchdog<T> = Pin<KBox<Periodic<T>>>;

/// Starts to look after `target`. May sleep.
pub(crate) fn start<T: Tick + 'static>(
    queue: &Arc<OwnedQueue>,
    target: &Arc<T>,
) -> Result<Watchdog<T>> {
    Periodic::new(queue.clone(), target.clone())
}

// SPDX-License-Identifier: GPL-2.0

//! The table of the ports of all listeners.
//!
//! # Context
//!
//! Process context; everything here may sleep.

use super::port::Port;
use crate::svc::{
    counters,
    history::seconds_since, //
};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{
        Arc,
        Mutex, //
    },
    time::{
        Instant,
        Monotonic, //
    },
};

/// The time that sunrpc needs to complete a new listener.
const NEW_SECONDS: i64 = 2;

/// The time that [`Ports::release`] waits for listeners to close before the connections are closed.
/// A listener may never close: its network namespace may have no nfsd thread, or the thread may
/// hang.
const CLOSING_SECONDS: i64 = 10;

/// An entry of the table.
struct Entry {
    port: Arc<Port>,
    /// The time at which the entry was added.
    since: Instant<Monotonic>,
    /// The time since which nfsd is to close the listener.
    closing_since: Option<Instant<Monotonic>>,
}

impl Entry {
    /// Returns true if sunrpc may not have completed the listener yet.
    fn is_new(&self) -> bool {
        seconds_since(self.since) < NEW_SECONDS
    }

    /// Makes nfsd close the listener. Returns true while the caller should wait for that.
    fn release(&mut self) -> bool {
        if !self.port.release() {
            return false;
        }
        let since = self.closing_since.get_or_insert(Instant::now());
        seconds_since(*since) < CLOSING_SECONDS
    }
}

/// The ports of all listeners. The [`Server`](super::server::Server) owns it.
///
/// # Locking
///
/// A mutex protects the table. The mutexes of ports are taken under it.
#[pin_data]
pub(crate) struct Ports {
    #[pin]
    table: Mutex<RBTree<u64, Entry>>,
}

impl Ports {
    /// Creates an empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            table <- new_mutex!(RBTree::new(), "svcrdma ports"),
        })
    }

    /// Adds `port`, which listens.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(&self, port: &Arc<Port>) -> Result {
        let mut table = self.table.lock();
        let entry = Entry {
            port: port.clone(),
            since: Instant::now(),
            closing_since: None,
        };
        table.try_create_and_insert(port.number, entry, GFP_KERNEL)?;
        port.counters.listeners.inc();
        counters::HOST_LISTENERS.inc();
        Ok(())
    }

    /// Removes `port`, whose listener is gone. Does nothing if the port is not in the table.
    pub(crate) fn remove(&self, port: &Port) {
        let entry = self.table.lock().remove(&port.number);
        if let Some(Entry { port, .. }) = entry {
            port.counters.listeners.dec();
            counters::HOST_LISTENERS.dec();
        }
    }

    /// Makes nfsd close all listeners that can be closed. Returns true when each of them is closed
    /// or had [`CLOSING_SECONDS`] to close.
    ///
    /// Closes nothing while a listener is new: sunrpc does not expect a listener to close before it
    /// is complete.
    pub(crate) fn release(&self) -> bool {
        let mut table = self.table.lock();
        if table.values().any(Entry::is_new) {
            return false;
        }
        let mut is_done = true;
        for entry in table.values_mut() {
            is_done &= !entry.release();
        }
        is_done
    }

    /// Makes ports listen again whose address was lost and is back.
    pub(crate) fn tick(&self) {
        self.for_each(Port::listen_again);
    }

    /// Calls `f` for each port, under the mutex of the table.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<Port>)) {
        for Entry { port, .. } in self.table.lock().values() {
            f(port);
        }
    }
}

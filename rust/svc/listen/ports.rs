// SPDX-License-Identifier: GPL-2.0

//! The table of the ports of all listeners. Contexts: process, and may sleep.

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

/// For so long a listener may still be in the making.
const NEW_SECONDS: i64 = 2;

/// For so long listeners that go are waited for with the connections. One may never go: nfsd has no
/// thread in its network namespace, or that which has it hangs.
const GOING_SECONDS: i64 = 10;

/// A port that listens, or has.
struct Open {
    port: Arc<Port>,
    since: Instant<Monotonic>,
    /// Since when nfsd is to close it.
    going: Option<Instant<Monotonic>>,
}

impl Open {
    fn is_new(&self) -> bool {
        seconds_since(self.since) < NEW_SECONDS
    }

    /// Has nfsd close it; whether it is worth waiting for.
    fn release(&mut self) -> bool {
        let goes = self.port.release();
        goes && seconds_since(*self.going.get_or_insert(Instant::now())) < GOING_SECONDS
    }
}

/// The ports of all listeners.
#[pin_data]
pub(crate) struct Ports {
    #[pin]
    table: Mutex<RBTree<u64, Open>>,
}

impl Ports {
    /// Makes an empty table.
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
        let open = Open {
            port: port.clone(),
            since: Instant::now(),
            going: None,
        };
        table.try_create_and_insert(port.number, open, GFP_KERNEL)?;
        port.counters.listeners.inc();
        counters::HOST_LISTENERS.inc();
        Ok(())
    }

    /// Takes `port` out, if it is in: nothing is left of its listener.
    pub(crate) fn remove(&self, port: &Port) {
        let open = self.table.lock().remove(&port.number);
        if let Some(Open { port, .. }) = open {
            port.counters.listeners.dec();
            counters::HOST_LISTENERS.dec();
        }
    }

    /// Has nfsd close all listeners, but none while one is being made: sunrpc does not expect it to go
    /// before it is complete. Whether those that can go have gone, or have had time enough.
    pub(crate) fn release(&self) -> bool {
        let mut table = self.table.lock();
        if table.values().any(Open::is_new) {
            return false;
        }
        let mut have_gone = true;
        for open in table.values_mut() {
            have_gone &= !open.release();
        }
        have_gone
    }

    /// Has ports listen again whose device is back.
    pub(crate) fn tick(&self) {
        self.for_each(Port::listen_again);
    }

    /// Calls `f` for each port.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<Port>)) {
        for Open { port, .. } in self.table.lock().values() {
            f(port);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Devices: the RDMA devices, their shared objects, their watchdogs and their removal.
//!
//! No verbs object is created on a device before its first connection. One mutex serializes the
//! creation of these objects, each accept, and their destruction. So a removal sees a connection
//! either complete or not at all.
//!
//! The removal never waits for nfsd: memory that Calls in nfsd still use (Receive buffers, pool)
//! outlives it. One device never waits for another device, which may hang: each device has a
//! separate watchdog.

pub(crate) mod devices;
pub(crate) mod hardware;
mod shortage;

use super::{
    close_reason::CloseReason,
    conn::connection::Connection,
    lane::domain::Domain,
    watchdog::{
        SECONDS,
        SHORTAGE_LOOKS,
        SHORTAGE_MSECS, //
    },
};
use core::pin::Pin;
use hardware::{
    Hardware,
    ReadsInto, //
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
    time::{
        delay::fsleep,
        Delta, //
    },
};
use rdma::{
    device::{
        IbDevice,
        Name, //
    },
    fatal::FatalErrors, //
};
use support::workqueue::{
    OwnedQueue,
    Tick, //
};

/// The interval at which a removal checks if all connections are torn down.
const REMOVAL_POLL: Delta = Delta::from_millis(2);

/// The state of the verbs objects of a device.
enum State {
    /// The objects were not created yet.
    Unused,
    /// The objects exist.
    Used(Arc<Hardware>),
    /// The device is being removed or is gone.
    Removed,
}

/// An RDMA device. [`Devices`](devices::Devices) owns it; each connection that waits to be accepted
/// refers to it.
///
/// # Locking
///
/// The mutex of the state may be held for a long time: an accept holds it while it waits for the
/// RDMA core. The table of connections has another mutex, in the domain.
#[pin_data]
pub(crate) struct Device {
    /// The device of the RDMA core.
    ib: IbDevice,
    /// The fatal errors that the device reports.
    errors: Pin<KBox<FatalErrors>>,
    /// The memory that RDMA Reads go to.
    reads_into: ReadsInto,
    /// The verbs objects.
    #[pin]
    state: Mutex<State>,
    /// The objects that its connections share on the path of a Call.
    pub(crate) domain: Arc<Domain<Connection>>,
    /// The number of Calls without a posted Reply at the last tick.
    unanswered: Atomic<u32>,
}

impl Device {
    /// Creates a device without connections. May sleep.
    fn new(ib: IbDevice, reads_into: ReadsInto, queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        // With iWARP, destroying the queue pair ends the connection, so there is no confirmation of
        // a disconnect to wait for.
        let domain = Domain::new(queue, !ib.limits().iwarp)?;
        let errors = FatalErrors::of(&ib)?;
        Arc::pin_init(
            pin_init!(Self {
                ib,
                errors,
                reads_into,
                state <- new_mutex!(State::Unused, "svcrdma device"),
                domain,
                unanswered: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns true if this is the device `ib`.
    fn is(&self, ib: &IbDevice) -> bool {
        self.ib.same(ib)
    }

    /// Calls `f` with the hardware of the device, and creates the hardware at first use. May sleep.
    ///
    /// # Locking
    ///
    /// `f` runs under the mutex of the state, so a removal waits for `f`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed, and those of [`Hardware::new`], of the pool and of
    /// `f`.
    pub(crate) fn with_hardware<R>(
        &self,
        f: impl FnOnce(&Arc<Hardware>) -> Result<R>,
    ) -> Result<R> {
        let mut state = self.state.lock();
        if matches!(*state, State::Unused) {
            *state = State::Used(self.new_hardware()?);
        }
        match &*state {
            State::Used(hardware) => f(hardware),
            _ => Err(ENODEV),
        }
    }

    /// Creates the hardware, and fills the pool. May sleep.
    // Out of line: rarely needed, and its frame is large.
    #[inline(never)]
    fn new_hardware(&self) -> Result<Arc<Hardware>> {
        let hardware = Hardware::new(&self.ib, self.reads_into)?;
        self.domain.pool.open(&hardware.pd, hardware.registers)?;
        Ok(hardware)
    }

    /// Returns the number of connections, and the number of leaving connections, whose peers have
    /// not confirmed the disconnect yet. May sleep.
    pub(crate) fn connection_counts(&self) -> (usize, usize) {
        let (mut connections, mut leaving) = (0usize, 0usize);
        self.domain.for_each(|connection| {
            let count = if connection.is_leaving() {
                &mut leaving
            } else {
                &mut connections
            };
            *count = count.saturating_add(1);
        });
        (connections, leaving)
    }

    /// Returns the name of the device.
    pub(crate) fn name(&self) -> Name {
        self.ib.name()
    }

    /// Returns true if the verbs objects exist, because a connection was accepted on the device.
    /// May sleep.
    pub(crate) fn is_used(&self) -> bool {
        matches!(&*self.state.lock(), State::Used(_))
    }

    /// Closes connections that make no progress, and refills or trims the pool. `seconds` seconds
    /// have passed since the last call. May sleep.
    pub(crate) fn look(self: &Arc<Self>, seconds: u32) {
        if self.errors.take() {
            pr_err!(
                "{}: the device reported a fatal error, closing its connections\n",
                self.ib.name()
            );
            self.close_all(CloseReason::DeviceFatal);
        }
        let mut unanswered = 0u32;
        self.domain.for_each(|connection| {
            connection.tick(seconds);
            unanswered = unanswered.saturating_add(connection.snapshot().credit_state.unanswered);
        });
        self.unanswered.store(unanswered, Relaxed);
        if self.domain.pool.check_reserve() {
            self.domain.want_refill()
        } else {
            self.domain.pool.trim()
        }
        // An accept may hold the mutex for a long time. The watchdog must not wait for it.
        if let Some(state) = self.state.try_lock() {
            if let State::Used(_) = &*state {
                self.domain.trim_lanes();
            }
        }
    }

    /// Returns the number of Calls without a posted Reply at the last tick. Any context.
    pub(crate) fn unanswered(&self) -> u32 {
        self.unanswered.load(Relaxed)
    }

    /// Closes all connections for `reason`. May sleep.
    pub(crate) fn close_all(&self, reason: CloseReason) {
        self.domain.for_each(|connection| connection.close(reason));
    }

    /// Closes all connections, waits until they are torn down, and drops the hardware. Sleeps.
    ///
    /// Running work and nfsd threads may use some objects of the device a little longer. Each of
    /// these objects holds a reference to the `Pd`, and the RDMA core waits for the last reference.
    fn remove(&self) {
        self.domain.close();
        let hardware = core::mem::replace(&mut *self.state.lock(), State::Removed);
        self.domain.for_each(|connection| {
            connection.close(CloseReason::DeviceRemoved);
            connection.hang_up();
        });
        while !self.domain.is_empty() {
            fsleep(REMOVAL_POLL);
        }
        self.domain.close_lanes();
        self.domain.pool.close();
        drop(hardware);
    }
}

impl Tick for Device {
    const MSECS: u32 = SHORTAGE_MSECS;

    fn tick(self: &Arc<Self>) {
        let look = self.domain.begin_look();
        self.end_shortages(look);
        if look % SHORTAGE_LOOKS == 0 {
            self.look(SECONDS);
        }
    }
}

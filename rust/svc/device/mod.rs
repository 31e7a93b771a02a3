// SPDX-License-Identifier: GPL-2.0

//! Devices: what the connections of one RDMA device share.
//!
//! Nothing is made on a device before its first connection. Its hardware objects are made and
//! taken away under one mutex, which accepting holds too: so removal sees either no connection or
//! a complete one. Memory that Calls with nfsd still use (Receive buffers, pool) outlives the
//! removal, which never waits for nfsd. Nor does one device wait for another, which may hang: each
//! has a watchdog of its own.

pub(crate) mod devices;
pub(crate) mod hardware;
mod shortage;

use super::{
    close_reason::CloseReason,
    conn::connection::Connection,
    lane::Lane,
    watchdog::{
        SECONDS,
        SHORTAGE_LOOKS,
        SHORTAGE_MSECS, //
    },
};
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
use rdma::device::{
    IbDevice,
    Name, //
};
use support::workqueue::{
    OwnedQueue,
    Tick, //
};

/// How long removal waits before it looks again whether all connections are taken down.
const LOOK_AGAIN: Delta = Delta::from_millis(2);

/// The state of a device's hardware objects.
enum State {
    /// Not made yet, or not any more.
    Unused,
    /// Made.
    Used(Arc<Hardware>),
    /// The device is gone.
    Removed,
}

/// A device.
///
/// # Locking
///
/// The mutex of the state may be held for long: accepting and removal hold it while they wait for the RDMA
/// core. The table of connections has a mutex of its own in the lane.
#[pin_data]
pub(crate) struct Device {
    ib: IbDevice,
    reads_into: ReadsInto,
    #[pin]
    state: Mutex<State>,
    /// What its connections share.
    pub(crate) lane: Arc<Lane<Connection>>,
    /// Calls without a posted Reply at the last tick.
    under_way: Atomic<u32>,
}

impl Device {
    fn new(ib: IbDevice, reads_into: ReadsInto, queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        // A peer may confirm a disconnect after its queue pair is gone, but not with iWARP, which ends the
        // connection with the queue pair.
        let lane = Lane::new(queue, !ib.limits().iwarp)?;
        Arc::pin_init(
            pin_init!(Self {
                ib,
                reads_into,
                state <- new_mutex!(State::Unused, "svcrdma device"),
                lane,
                under_way: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Whether this is `ib`.
    fn is(&self, ib: &IbDevice) -> bool {
        self.ib.same(ib)
    }

    /// Calls `f` with the device's hardware, which stays while `f` runs; makes it at first use.
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

    /// Makes the hardware. May sleep.
    // Out of line: rarely needed, and its frame is large.
    #[inline(never)]
    fn new_hardware(&self) -> Result<Arc<Hardware>> {
        let hardware = Hardware::new(&self.ib, self.reads_into)?;
        self.lane.pool.open(&hardware.pd, hardware.registers)?;
        Ok(hardware)
    }

    /// Returns the number of its connections, and that of those that only wait for their peers to confirm
    /// the disconnect. May sleep.
    pub(crate) fn connection_counts(&self) -> (usize, usize) {
        let (mut connections, mut leaving) = (0usize, 0usize);
        self.lane.for_each(|connection| {
            let count = match connection.is_leaving() {
                true => &mut leaving,
                false => &mut connections,
            };
            *count = count.saturating_add(1);
        });
        (connections, leaving)
    }

    /// Its name.
    pub(crate) fn name(&self) -> Name {
        self.ib.name()
    }

    /// Returns true if it has had a connection. May sleep.
    pub(crate) fn is_used(&self) -> bool {
        matches!(&*self.state.lock(), State::Used(_))
    }

    /// Closes what makes no progress, and adjusts the pool. `seconds` have passed.
    pub(crate) fn look(self: &Arc<Self>, seconds: u32) {
        let mut under_way = 0u32;
        self.lane.for_each(|connection| {
            connection.tick(seconds);
            under_way = under_way.saturating_add(connection.credits.balance().unanswered);
        });
        self.under_way.store(under_way, Relaxed);
        match self.lane.pool.look() {
            true => self.lane.want_refill(),
            false => self.lane.pool.trim(),
        }
        // While one is being accepted, which may take long, connections are looked after.
        if let Some(state) = self.state.try_lock() {
            if let State::Used(hardware) = &*state {
                hardware.trim();
            }
        }
    }

    /// Calls without a posted reply, at the last tick.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way.load(Relaxed)
    }

    /// Closes all connections. May sleep.
    pub(crate) fn close_all(&self, reason: CloseReason) {
        self.lane.for_each(|connection| connection.close(reason));
    }

    /// Closes all connections and gives the hardware back; sleeps until connections are gone. Work
    /// that is at it, and nfsd threads, may have some of the rest for a while: what they have holds a
    /// `Pd`, and the RDMA core waits for that.
    fn remove(&self) {
        self.lane.close();
        let hardware = core::mem::replace(&mut *self.state.lock(), State::Removed);
        self.lane.for_each(|connection| {
            connection.close(CloseReason::DeviceRemoved);
            connection.hang_up();
        });
        while !self.lane.is_empty() {
            fsleep(LOOK_AGAIN);
        }
        self.lane.pool.close();
        drop(hardware);
    }
}

impl Tick for Device {
    const MSECS: u32 = SHORTAGE_MSECS;

    fn tick(self: &Arc<Self>) {
        let look = self.lane.pool.number_look();
        self.end_shortages(look);
        if look % SHORTAGE_LOOKS == 0 {
            self.look(SECONDS);
        }
    }
}

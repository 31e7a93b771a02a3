// SPDX-License-Identifier: GPL-2.0

//! Devices: what the connections of one RDMA device share.
//!
//! Nothing is made on a device before its first connection. Its hardware objects are made and
//! taken away under one mutex, which accepting holds too: so removal sees either no connection or
//! a complete one. Memory that Calls with nfsd still use (Receive buffers, pool) outlives the
//! removal, which never waits for nfsd. Nor does one device wait for another, which may hang: each
//! has a watchdog of its own.

pub(crate) mod hardware;
pub(crate) mod shortage;

use super::{
    close_reason::CloseReason,
    conn::{
        connection::Connection,
        space::Held, //
    },
    history::History,
    lane::{
        pool::Pool,
        table::Connections, //
    },
    watchdog::{
        self,
        Watchdog, //
    },
};
use hardware::Hardware;
use kernel::{
    impl_has_work, new_mutex, new_work,
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
    workqueue::{
        Work,
        WorkItem, //
    },
};
use rdma::{
    client::Client,
    device::{
        IbDevice,
        Name,
        Pd, //
    },
    receive_budget::Budget, //
};
use support::workqueue::OwnedQueue;

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
#[pin_data]
pub(crate) struct Device {
    ib: IbDevice,
    #[pin]
    state: Mutex<State>,
    #[pin]
    connections: Mutex<Connections>,
    /// Calls without a posted reply at the last tick.
    under_way: Atomic<u32>,
    /// Receive buffers of all connections.
    pub(crate) receives: Arc<Budget>,
    pub(crate) pool: Pool,
    /// Pages of replies.
    pub(crate) held: Held,
    pub(crate) history: History,
    queue: Arc<OwnedQueue>,
    #[pin]
    refill: Work<Device>,
}

impl_has_work! {
    impl HasWork<Self> for Device { self.refill }
}

impl WorkItem for Device {
    type Pointer = Arc<Device>;

    fn run(this: Arc<Device>) {
        this.pool.refill();
    }
}

impl Device {
    fn new(ib: IbDevice, queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        let pool = Pool::new()?;
        let history = History::new()?;
        let connections = Connections::new()?;
        let receives = Arc::new(Budget::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                ib,
                state <- new_mutex!(State::Unused, "svcrdma device"),
                connections <- new_mutex!(connections, "svcrdma connections"),
                under_way: Atomic::new(0),
                receives,
                pool,
                held: Held::new(),
                history,
                queue,
                refill <- new_work!("svcrdma refill"),
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
        let hardware = Hardware::new(&self.ib)?;
        self.pool.open(&hardware.pd, hardware.registers)?;
        Ok(hardware)
    }

    /// Calls `f` with the device's protection domain. In any process context.
    pub(crate) fn with_pd<R>(&self, f: impl FnOnce(&Arc<Pd>) -> Result<R>) -> Result<R> {
        f(&self.pool.pd().ok_or(ENODEV)?)
    }

    /// Has the pool refilled, as a Call waits for pages. From any process context.
    pub(crate) fn want_refill(self: &Arc<Self>) {
        // An error means that it is queued already.
        let _ = self.queue.enqueue(self.clone());
    }

    /// Keeps `connection` in the table of connections until [`Self::forget`]. May sleep.
    pub(crate) fn remember(&self, connection: &Arc<Connection>) -> Result {
        self.connections.lock().add(connection)
    }

    /// Notes that the connection with this number waits for its peer to confirm the disconnect. Hangs up
    /// the one that has waited longest if there are too many, or this one if the device is being
    /// removed. May sleep.
    pub(crate) fn leave(&self, number: u64) {
        let late = self.connections.lock().leave(number);
        if let Some(connection) = late {
            connection.hang_up();
        }
    }

    /// Takes the connection out of the table. May sleep.
    pub(crate) fn forget(&self, number: u64) {
        let connection = self.connections.lock().take(number);
        drop(connection);
    }

    /// Calls `f` for each connection, which must not come back to the table. May sleep.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<Connection>)) {
        for connection in self.connections.lock().iter() {
            f(connection);
        }
    }

    /// Returns true if a peer may confirm a disconnect after its queue pair is gone: not with iWARP, which
    /// ends the connection with the queue pair. May sleep.
    pub(crate) fn has_confirmations(&self) -> bool {
        !self.ib.limits().iwarp
    }

    /// Returns the number of its connections, and that of those that only wait for their peers to confirm
    /// the disconnect. May sleep.
    pub(crate) fn connection_counts(&self) -> (usize, usize) {
        let (mut connections, mut leaving) = (0usize, 0usize);
        self.for_each(|connection| {
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
        self.for_each(|connection| {
            connection.tick(seconds);
            under_way = under_way.saturating_add(connection.unanswered());
        });
        self.under_way.store(under_way, Relaxed);
        match self.pool.look() {
            true => self.want_refill(),
            false => self.pool.trim(),
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
        self.for_each(|connection| connection.close(reason));
    }

    /// Closes all connections and gives the hardware back; sleeps until connections are gone. Work
    /// that is at it, and nfsd threads, may have some of the rest for a while: what they have holds a
    /// `Pd`, and the RDMA core waits for that.
    fn remove(&self) {
        self.connections.lock().close();
        let hardware = core::mem::replace(&mut *self.state.lock(), State::Removed);
        self.for_each(|connection| {
            connection.close(CloseReason::DeviceRemoved);
            connection.hang_up();
        });
        while !self.connections.lock().is_empty() {
            fsleep(LOOK_AGAIN);
        }
        self.pool.close();
        drop(hardware);
    }
}

/// A device that is looked after until this is dropped, which sleeps.
struct Watched {
    device: Arc<Device>,
    watchdog: Watchdog<Device>,
}

/// All devices.
#[pin_data]
pub(crate) struct Devices {
    #[pin]
    list: Mutex<KVec<Watched>>,
    queue: Arc<OwnedQueue>,
}

impl Devices {
    /// Makes an empty list.
    pub(crate) fn new(queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                list <- new_mutex!(KVec::new(), "svcrdma devices"),
                queue,
            }),
            GFP_KERNEL,
        )
    }

    /// The device that is `ib`. May sleep.
    pub(crate) fn find(&self, ib: &IbDevice) -> Option<Arc<Device>> {
        let list = self.list.lock();
        let mut devices = list.iter().map(|watched| &watched.device);
        devices.find(|device| device.is(ib)).cloned()
    }

    /// Calls `f` for each device. May sleep.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<Device>)) {
        let mut i: usize = 0;
        loop {
            // Not under the lock: a device may be waiting for its hardware.
            let device = self
                .list
                .lock()
                .get(i)
                .map(|watched| watched.device.clone());
            let Some(device) = device else {
                return;
            };
            f(&device);
            i = i.saturating_add(1);
        }
    }

    /// Takes the device that is `ib` out of the list. May sleep.
    fn take(&self, ib: &IbDevice) -> Option<Watched> {
        let mut list = self.list.lock();
        let i = list.iter().position(|watched| watched.device.is(ib))?;
        list.remove(i).ok()
    }
}

impl Client for Devices {
    fn add(&self, ib: IbDevice) -> Result {
        let device = Device::new(ib, self.queue.clone())?;
        let watched = Watched {
            watchdog: watchdog::start(&self.queue, &device)?,
            device,
        };
        self.list.lock().push(watched, GFP_KERNEL)?;
        Ok(())
    }

    fn remove(&self, ib: &IbDevice) {
        if let Some(Watched { device, watchdog }) = self.take(ib) {
            drop(watchdog);
            device.remove();
        }
    }
}

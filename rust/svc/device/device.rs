// SPDX-License-Identifier: GPL-2.0

//! A device: the objects that its connections share.

use super::{
    capabilities::{
        Capabilities,
        ReadsInto, //
    },
    lane::Lane,
    lanes::Lanes,
    table::Table, //
};
use crate::svc::{
    close_reason::CloseReason,
    conn::connection::Connection,
    history::History,
    pages::{
        held::Held,
        host::Hosts,
        pool::Pool, //
    },
    watchdog::{
        SECONDS,
        SHORTAGE_LOOKS,
        SHORTAGE_MSECS, //
    },
};
use core::pin::Pin;
use kernel::{
    impl_has_work,
    new_mutex,
    new_work,
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
    workqueue::Work, //
};
use rdma::{
    cq::CqReservation,
    device::{
        IbDevice,
        Name,
        Pd, //
    },
    fatal::FatalErrors,
    recv::budget::Budget, //
};
use support::{
    compat,
    trace,
    workqueue::{
        OwnedQueue,
        Tick, //
    },
    RateLimit, //
};

/// The interval at which a removal checks if all connections are torn down.
const REMOVAL_POLL: Delta = Delta::from_millis(2);

/// The state of the verbs objects of a device.
enum State {
    /// The objects were not created yet.
    Unused,
    /// The objects exist.
    Used(Arc<Pd>),
    /// The device is being removed or is gone.
    Removed,
}

/// An RDMA device. [`Devices`](super::devices::Devices) and each connection refer to it.
///
/// # Locking
///
/// The mutex of the state may be held for a long time: an accept holds it while it waits for the
/// RDMA core. The mutex of the table is taken in process context only, and only spinlocks are taken
/// under it. The pool has a spinlock, a leaf.
#[pin_data]
pub(crate) struct Device {
    /// The device of the RDMA core.
    ib: IbDevice,
    /// The limits of the device, and what follows from them.
    pub(crate) capabilities: Capabilities,
    /// The fatal errors that the device reports.
    errors: Pin<KBox<FatalErrors>>,
    /// The verbs objects.
    #[pin]
    state: Mutex<State>,
    /// The connections.
    #[pin]
    table: Mutex<Table>,
    /// The live lanes.
    pub(super) lanes: Lanes,
    /// The pages, page regions and reply contexts.
    pub(crate) pool: Pool,
    /// The budget of Receive buffers.
    pub(crate) receives: Arc<Budget>,
    /// The number of pages in Replies.
    pub(crate) held: Arc<Held>,
    /// The hosts that have connections.
    pub(crate) hosts: Arc<Hosts>,
    /// The connections that closed last.
    pub(crate) history: History,
    /// The number of Calls without a posted Reply at the last tick.
    unanswered: Atomic<u32>,
    /// The module's workqueue.
    pub(crate) queue: Arc<OwnedQueue>,
    /// The refill of the pool.
    #[pin]
    refill: Work<Device>,
}

impl_has_work! {
    impl HasWork<Self> for Device { self.refill }
}

impl Device {
    /// Creates a device without connections. May sleep.
    pub(super) fn new(
        ib: IbDevice,
        reads_into: ReadsInto,
        queue: Arc<OwnedQueue>,
    ) -> Result<Arc<Self>> {
        let capabilities = Capabilities::new(ib.limits(), reads_into);
        let errors = FatalErrors::of(&ib)?;
        let table = Table::new()?;
        let (lanes, pool) = (Lanes::new()?, Pool::new()?);
        let history = History::new()?;
        let receives = Arc::new(Budget::new(), GFP_KERNEL)?;
        let held = Arc::new(Held::new(), GFP_KERNEL)?;
        let hosts = Hosts::new(held.clone(), receives.clone())?;
        Arc::pin_init(
            pin_init!(Self {
                ib,
                capabilities,
                errors,
                state <- new_mutex!(State::Unused, "svcrdma device"),
                table <- new_mutex!(table, "svcrdma connections"),
                lanes,
                pool,
                receives,
                held,
                hosts,
                history,
                unanswered: Atomic::new(0),
                queue,
                refill <- new_work!("svcrdma refill work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns true if this is the device `ib`.
    pub(super) fn is(&self, ib: &IbDevice) -> bool {
        self.ib.same(ib)
    }

    /// Returns the name of the device.
    pub(crate) fn name(&self) -> Name {
        self.ib.name()
    }

    /// Returns true if a peer may confirm a disconnect after the queue pair is destroyed. With iWARP,
    /// destroying the queue pair ends the connection.
    pub(crate) fn has_confirmations(&self) -> bool {
        !self.capabilities.limits.iwarp
    }

    /// Calls `f` with the protection domain of the device, which the first call creates. May sleep.
    ///
    /// # Locking
    ///
    /// `f` runs under the mutex of the state, so a removal waits for `f`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed, those of [`Self::start`] and of `f`.
    pub(crate) fn with_pd<R>(&self, f: impl FnOnce(&Arc<Pd>) -> Result<R>) -> Result<R> {
        let mut state = self.state.lock();
        if matches!(*state, State::Unused) {
            *state = State::Used(self.start()?);
        }
        match &*state {
            State::Used(pd) => f(pd),
            _ => Err(ENODEV),
        }
    }

    /// Creates the protection domain, and fills the pool. May sleep.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP` if the device lacks a capability that the server needs; the log names it.
    /// - Those of creating the objects.
    // Out of line: rarely needed, and its frame is large.
    #[inline(never)]
    fn start(&self) -> Result<Arc<Pd>> {
        if let Some(lacking) = self.capabilities.lacking {
            if RateLimit::Others.allows() {
                pr_err!(
                    "{}: cannot serve clients: the device lacks {}\n",
                    self.ib.name(),
                    lacking
                );
            }
            return Err(compat::eopnotsupp());
        }
        let pd = Pd::new(&self.ib)?;
        self.pool.open(&pd, self.capabilities.registers)?;
        Ok(pd)
    }

    /// Returns true if the verbs objects exist, because a connection was accepted on the device.
    /// May sleep.
    pub(crate) fn is_used(&self) -> bool {
        matches!(&*self.state.lock(), State::Used(_))
    }

    /// Returns the lane of a new connection, see [`Lanes::choose`]. May sleep.
    pub(crate) fn choose_lane(&self, pd: &Arc<Pd>) -> Result<Arc<Lane>> {
        let keeps_sinks = self.capabilities.registers.is_none();
        self.lanes
            .choose(pd, &self.capabilities.limits, keeps_sinks)
    }

    /// Reserves completion queue entries of `lane` for a connection with up to `max` Receive
    /// buffers: for these, for the work that it can have posted, and for the markers of
    /// its drains. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`Lane::reserve`].
    pub(crate) fn reserve_cqs(
        &self,
        lane: &Lane,
        max: usize,
    ) -> Result<(CqReservation, CqReservation)> {
        let receives = u32::try_from(max).unwrap_or(u32::MAX).saturating_add(1);
        let sends = self.capabilities.send_depth.saturating_add(1);
        lane.reserve(receives, sends, self.capabilities.limits.max_cqe)
    }

    /// Adds a connection to the table, until [`Self::forget`]. May sleep.
    ///
    /// # Errors
    ///
    /// - `ENODEV` if the device is being removed.
    /// - `ENOMEM`.
    pub(crate) fn remember(&self, connection: &Arc<Connection>) -> Result {
        self.table.lock().add(connection)
    }

    /// Records that connection `number` waits for its peer to confirm the disconnect. If too many
    /// connections wait, hangs up the one that has waited longest; if the device is being removed,
    /// this one. May sleep.
    pub(crate) fn leave(&self, number: u64) {
        let late = self.table.lock().leave(number);
        if let Some(connection) = late {
            connection.hang_up();
        }
    }

    /// Removes connection `number` from the table. May sleep.
    pub(crate) fn forget(&self, number: u64) {
        let connection = self.table.lock().take(number);
        drop(connection);
    }

    /// Calls `f` for each connection, under the mutex of the table, which `f` must not take. May
    /// sleep.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<Connection>)) {
        for connection in self.table.lock().iter() {
            f(connection);
        }
    }

    /// Returns the number of connections, and the number of leaving connections, whose peers have
    /// not confirmed the disconnect yet. May sleep.
    pub(crate) fn connection_counts(&self) -> (usize, usize) {
        let (mut connections, mut leaving) = (0usize, 0usize);
        self.for_each(|connection| {
            let count = if connection.is_leaving() {
                &mut leaving
            } else {
                &mut connections
            };
            *count = count.saturating_add(1);
        });
        (connections, leaving)
    }

    /// Returns the number of Calls without a posted Reply at the last tick. Any context.
    pub(crate) fn unanswered(&self) -> u32 {
        self.unanswered.load(Relaxed)
    }

    /// Closes all connections for `reason`. May sleep.
    pub(crate) fn close_all(&self, reason: CloseReason) {
        self.for_each(|connection| connection.close(reason));
    }

    /// Closes connections that make no progress, and refills or trims the pool. `seconds` seconds
    /// have passed since the last call. May sleep.
    fn look(self: &Arc<Self>, seconds: u32) {
        if self.errors.take() {
            pr_err!(
                "{}: the device reported a fatal error, closing its connections\n",
                self.ib.name()
            );
            self.close_all(CloseReason::DeviceFatal);
        }
        let mut unanswered = 0u32;
        self.for_each(|connection| {
            connection.tick(seconds);
            unanswered = unanswered.saturating_add(connection.snapshot().credit_state.unanswered);
        });
        self.unanswered.store(unanswered, Relaxed);
        if self.pool.check_reserve() {
            self.want_refill()
        }
        self.pool.trim();
        // An accept may hold the mutex for a long time. The watchdog must not wait for it. While the
        // mutex is held, no connection chooses its lane.
        if let Some(state) = self.state.try_lock() {
            if let State::Used(_) = &*state {
                self.lanes.trim(&self.pool, |lane| self.retire(lane));
            }
        }
        // Lanes have returned pages without starting Calls.
        self.pool.unpark();
    }

    /// Closes all connections, waits until they are torn down, and drops the verbs objects. Sleeps.
    ///
    /// Running work and nfsd threads may use some objects of the device a little longer. Each of
    /// these objects holds a reference to the `Pd`, and the RDMA core waits for the last reference.
    pub(super) fn remove(&self) {
        self.table.lock().close();
        let state = core::mem::replace(&mut *self.state.lock(), State::Removed);
        self.for_each(|connection| {
            connection.close(CloseReason::DeviceRemoved);
            connection.hang_up();
        });
        while !self.table.lock().is_empty() {
            fsleep(REMOVAL_POLL);
        }
        // No Call waits any more, and no look follows.
        self.end_shortages(0);
        self.lanes.close(|lane| self.retire(lane));
        self.pool.close();
        drop(state);
    }

    /// Retires a lane. May sleep.
    fn retire(&self, lane: &Lane) {
        let failed = u32::from(lane.is_broken());
        trace::lane_retired(lane.index(), failed, &self.name());
        lane.retire(&self.pool);
    }

    /// Queues the refill of the pool, because a Call waits. In any process context.
    pub(crate) fn want_refill(self: &Arc<Self>) {
        // An error means that the refill is queued already.
        let _ = self.queue.enqueue(self.clone());
    }
}

impl Tick for Device {
    const MSECS: u32 = SHORTAGE_MSECS;

    fn tick(self: &Arc<Self>) {
        let look = self.begin_look();
        self.end_shortages(look);
        if look % SHORTAGE_LOOKS == 0 {
            self.look(SECONDS);
        }
    }
}

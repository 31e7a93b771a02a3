// SPDX-License-Identifier: GPL-2.0

//! Devices: what the connections of one RDMA device share.
//!
//! Nothing is made on a device before its first connection. Its hardware objects are made and
//! taken away under one mutex, which accepting holds too: so removal sees either no connection or
//! a complete one. Memory that Calls with nfsd still use (Receive buffers, pools) outlives the
//! removal, which never waits for nfsd.

use super::{
    conn::{
        Cause,
        Shared, //
    },
    endpoint::Endpoint,
    pool::Pools,
    stats, //
};
use crate::{
    abstractions::{
        ratelimit,
        rdma::{
            client::Client,
            cq::{
                Cq,
                Share, //
            },
            device::{
                IbDevice,
                Limits,
                Pd, //
            },
            receive::ReceivePool, //
        },
        workqueue::OwnedQueue,
    },
    compat,
};
use core::pin::Pin;
use kernel::{
    impl_has_work, new_mutex, new_work, pr_warn_once,
    prelude::*,
    rbtree::RBTree,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

/// The most pieces that a work request of ours has: 32 pages are 128 KiB.
const MAX_SGE: u32 = 32;

/// Pieces that a Send needs, which carries at most two ranges of the results: the header, and 4 KiB
/// in two ranges that go through head, pages and tail.
const MIN_SGE: u32 = 8;

/// Work requests that a connection can have posted. With the marker of `ib_drain_sq` and the entry
/// that a ring leaves empty it is a power of two, as drivers round up.
const SEND_DEPTH: u32 = 62;

/// The most Receive completion queues of a device.
const MAX_RECEIVE_CQS: u32 = 4;

/// Entries of a send completion queue: those of 65 connections.
const SEND_CQ: u32 = 4096;

/// How far the buffers of the shared receive queue may grow when some are lost.
const RECEIVES_GROWTH: usize = 4;

/// The hardware objects of a device, which its connections use. Dropped by the device's removal.
pub(super) struct Hardware {
    pub(super) pd: Arc<Pd>,
    pub(super) receives: Arc<ReceivePool<Endpoint>>,
    receive_cqs: KVec<Arc<Cq>>,
    next_cq: Atomic<u32>,
    /// Made as connections need them; each serves many.
    send_cqs: Pin<KBox<Mutex<KVec<Arc<Cq>>>>>,
    pub(super) limits: Limits,
    /// Work requests that a connection can have posted.
    pub(super) send_depth: u32,
    /// Pieces of a work request.
    pub(super) max_sge: u32,
    /// Pieces of an RDMA Read.
    pub(super) max_read_sge: u32,
}

impl Hardware {
    fn new(ib: &IbDevice) -> Result<Arc<Self>> {
        let limits = ib.limits();
        Self::check(ib, &limits)?;
        let pd = Pd::new(ib)?;
        let count = stats::RECEIVES.get().min(limits.max_srq_wr) as usize;
        let max = count
            .saturating_mul(RECEIVES_GROWTH)
            .min(limits.max_srq_wr as usize);
        // A completion queue has to take the completions of all buffers at once.
        let entries = u32::try_from(max).unwrap_or(u32::MAX).min(limits.max_cqe);
        let max = max.min(entries as usize);
        let mut receive_cqs = KVec::new();
        for vector in 0..limits.num_comp_vectors.clamp(1, MAX_RECEIVE_CQS) {
            receive_cqs.push(Cq::new(&pd, entries, vector)?, GFP_KERNEL)?;
        }
        let receives = ReceivePool::new(&pd, count.min(max), max)?;
        let hardware = Self {
            receives,
            receive_cqs,
            next_cq: Atomic::new(0),
            send_cqs: KBox::pin_init(new_mutex!(KVec::new(), "svcrdma send CQs"), GFP_KERNEL)?,
            send_depth: SEND_DEPTH.min(limits.max_qp_wr.saturating_sub(1)),
            max_sge: MAX_SGE.min(limits.max_send_sge),
            max_read_sge: MAX_SGE.min(limits.max_send_sge).min(limits.max_sge_rd),
            limits,
            pd,
        };
        hardware.watch_receives();
        Ok(Arc::new(hardware, GFP_KERNEL)?)
    }

    /// Whether the device is one that we can serve.
    fn check(ib: &IbDevice, limits: &Limits) -> Result {
        let lacking = if limits.iwarp {
            "a Read chunk needs no memory registration (iWARP is not supported yet)"
        } else if limits.max_srq == 0 || limits.max_srq_wr < 16 {
            "shared receive queues"
        } else if limits.max_send_sge < MIN_SGE || limits.max_sge_rd == 0 {
            "work requests of 8 pieces"
        } else {
            return Ok(());
        };
        if ratelimit() {
            pr_err!(
                "{}: cannot serve, the device lacks: {}\n",
                ib.name(),
                lacking
            );
        }
        Err(compat::eopnotsupp())
    }

    /// The vector and the Receive completion queue for the next connection.
    pub(super) fn next_cq(&self) -> Option<(u32, &Arc<Cq>)> {
        let count = u32::try_from(self.receive_cqs.len()).ok()?;
        let vector = self.next_cq.fetch_add(1, Relaxed).checked_rem(count)?;
        Some((vector, self.receive_cqs.get(vector as usize)?))
    }

    /// Entries of a completion queue for the work that a connection can have posted, and for the
    /// marker that ends it. May sleep.
    pub(super) fn send_cq(&self, vector: u32) -> Result<Share> {
        let entries = self.send_depth.saturating_add(1);
        let mut cqs = self.send_cqs.lock();
        if let Some(share) = cqs.iter().find_map(|cq| cq.share(entries)) {
            return Ok(share);
        }
        let size = SEND_CQ.min(self.limits.max_cqe).max(entries);
        let cq = Cq::new(&self.pd, size, vector)?;
        let share = cq.share(entries).ok_or(ENOSPC)?;
        cqs.push(cq, GFP_KERNEL)?;
        Ok(share)
    }

    /// Asks to be told when less than an eighth of the Receive buffers are on the queue.
    fn watch_receives(&self) {
        let (count, _) = self.receives.counts();
        let limit = u32::try_from(count / 8).unwrap_or(0).max(1);
        // A device that cannot say it only loses what peers that vanish in a Send take with them.
        if self.receives.watch(limit).is_err() {
            pr_warn_once!("the device does not say when Receive buffers run low\n");
        }
    }

    /// Adds Receive buffers when the device has said that it runs low. May sleep.
    fn top_up_receives(&self) {
        self.receives.repost();
        if !self.receives.take_low() {
            return;
        }
        let (before, _) = self.receives.counts();
        // Running low because all buffers are with nfsd is no loss, but more of them help then
        // as well; the pool's maximum bounds it.
        if self.receives.grow((before / 8).max(1)).is_err() {
            pr_warn_once!("no memory for more Receive buffers\n");
        }
        let (after, _) = self.receives.counts();
        stats::RECEIVES_ADDED.add(u32::try_from(after.saturating_sub(before)).unwrap_or(0));
        self.watch_receives();
    }
}

/// The state of a device's hardware objects.
enum State {
    /// Not made yet.
    Unused,
    /// Made.
    Used(Arc<Hardware>),
    /// The device is gone.
    Removed,
}

/// The connections of a device, pending ones included.
struct Connections {
    table: RBTree<u64, Arc<Shared>>,
    /// Whether more may come.
    is_open: bool,
}

impl Connections {
    fn new() -> Self {
        Self {
            table: RBTree::new(),
            is_open: true,
        }
    }
}

/// A device.
#[pin_data]
pub(crate) struct Device {
    ib: IbDevice,
    #[pin]
    state: Mutex<State>,
    #[pin]
    connections: Mutex<Connections>,
    pub(super) pools: Pools,
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
        this.pools.refill();
    }
}

impl Device {
    fn new(ib: IbDevice, queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        let pools = Pools::new()?;
        Arc::pin_init(
            pin_init!(Self {
                ib,
                state <- new_mutex!(State::Unused, "svcrdma device"),
                connections <- new_mutex!(Connections::new(), "svcrdma connections"),
                pools,
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
    pub(super) fn with_hardware<R>(
        &self,
        f: impl FnOnce(&Arc<Hardware>) -> Result<R>,
    ) -> Result<R> {
        let mut state = self.state.lock();
        if matches!(*state, State::Unused) {
            let hardware = Hardware::new(&self.ib)?;
            self.pools.open(&hardware.pd)?;
            *state = State::Used(hardware);
        }
        match &*state {
            State::Used(hardware) => f(hardware),
            _ => Err(ENODEV),
        }
    }

    /// Calls `f` with the device's protection domain. In any context but hard interrupts.
    pub(super) fn with_pd<R>(&self, f: impl FnOnce(&Arc<Pd>) -> Result<R>) -> Result<R> {
        f(&self.pools.pd().ok_or(ENODEV)?)
    }

    /// Has the pools refilled, as a Call waits for pages. From any context but hard interrupts.
    pub(super) fn want_refill(self: &Arc<Self>) {
        // An error means that it is queued already.
        let _ = self.queue.enqueue(self.clone());
    }

    /// Keeps `shared` in the table of connections until [`Self::forget`]. May sleep.
    pub(super) fn remember(&self, shared: &Arc<Shared>) -> Result {
        let mut connections = self.connections.lock();
        if !connections.is_open {
            return Err(ENODEV);
        }
        let (number, shared) = (shared.number(), shared.clone());
        connections
            .table
            .try_create_and_insert(number, shared, GFP_KERNEL)?;
        Ok(())
    }

    /// Takes the connection out of the table. May sleep.
    pub(super) fn forget(&self, number: u64) {
        let shared = self.connections.lock().table.remove(&number);
        drop(shared);
    }

    /// Calls `f` for each connection, which must not come back to the table. May sleep.
    fn for_each(&self, mut f: impl FnMut(&Arc<Shared>)) {
        for shared in self.connections.lock().table.values() {
            f(shared);
        }
    }

    /// Closes what makes no progress, and adjusts the pools. `seconds` have passed.
    fn tick(self: &Arc<Self>, seconds: u32) {
        self.for_each(|shared| shared.tick(seconds));
        match self.pools.is_waited_for() {
            true => self.want_refill(),
            false => self.pools.trim(),
        }
        if let State::Used(hardware) = &*self.state.lock() {
            hardware.top_up_receives();
        }
    }

    /// Closes all connections and gives the hardware back; sleeps until that is done.
    fn remove(&self) {
        self.connections.lock().is_open = false;
        let hardware = core::mem::replace(&mut *self.state.lock(), State::Removed);
        self.for_each(|shared| shared.close(Cause::DeviceRemoved));
        self.queue.flush();
        self.pools.close();
        if let State::Used(hardware) = hardware {
            hardware.receives.destroy_srq();
        }
    }
}

/// All devices.
#[pin_data]
pub(crate) struct Devices {
    #[pin]
    list: Mutex<KVec<Arc<Device>>>,
    queue: Arc<OwnedQueue>,
}

impl Devices {
    /// Makes an empty list.
    pub(super) fn new(queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                list <- new_mutex!(KVec::new(), "svcrdma devices"),
                queue,
            }),
            GFP_KERNEL,
        )
    }

    /// The device that is `ib`. May sleep.
    pub(super) fn find(&self, ib: &IbDevice) -> Option<Arc<Device>> {
        let list = self.list.lock();
        list.iter().find(|device| device.is(ib)).cloned()
    }

    /// Does what is to be done every `seconds`. May sleep.
    pub(super) fn tick(&self, seconds: u32) {
        let mut i: usize = 0;
        loop {
            // Not under the lock: a device may be waiting for its hardware.
            let device = self.list.lock().get(i).cloned();
            let Some(device) = device else {
                return;
            };
            device.tick(seconds);
            i = i.saturating_add(1);
        }
    }
}

impl Client for Devices {
    fn add(&self, ib: IbDevice) -> Result {
        let device = Device::new(ib, self.queue.clone())?;
        self.list.lock().push(device, GFP_KERNEL)?;
        Ok(())
    }

    fn remove(&self, ib: &IbDevice) {
        let Some(device) = self.find(ib) else {
            return;
        };
        self.list.lock().retain(|other| !other.is(ib));
        device.remove();
    }
}

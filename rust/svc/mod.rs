// SPDX-License-Identifier: GPL-2.0

//! The transport: the way of a Call from the wire to nfsd and back.
//!
//! | step | file |
//! |---|---|
//! | a peer asks to connect | `listen` |
//! | nfsd accepts it | `accept`, which makes a `conn` and its `endpoint` |
//! | a message arrives | `call`; Read chunks by `read` |
//! | nfsd takes the Call | `call` |
//! | nfsd sends the results | `reply` |
//! | `work` is posted and completes | `endpoint` |
//! | nfsd calls the client back | `backchannel` |
//! | the connection ends | `conn` says why, `teardown` takes it through its last `phase`s |
//!
//! `device` has what connections share, the table of `connections`, its `hardware` and the `pool`s
//! they borrow from, whose `stock` `refill` fills; a connection's `quota` of pages for Read chunks and
//! `space` for replies bound what it keeps from others. `credits` counts its Calls, and `receives` has
//! the Receive buffers for them. Calls wait for pages in the `line` that their peer's `standing` puts
//! them into; `shortage` closes connections that keep pages others wait for.
//! `watchdog` closes what makes no progress and looks after the table of `ports` that listen,
//! `stats` counts in each network namespace, and `view` shows what there is; `history` remembers
//! what has ended, and `reason` says why.

mod close_reason;
mod conn;
mod counters;
pub(crate) mod debugfs;
mod device;
mod flow;
mod history;
mod lane;
mod listen;
mod settings;
mod watchdog;

use counters::Counters;
use kernel::{
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};
use listen::ports::Ports;
use support::{
    pernet::PerNet,
    workqueue::OwnedQueue, //
};

pub(crate) use device::Devices;
pub(crate) use listen::listener::Listener;
pub(crate) use watchdog::{
    start as start_watchdog,
    Watchdog, //
};

/// The name that `portlist`, nfsd netlink and the RDMA core know us by.
pub(crate) const CLASS: &CStr = c"rdma";

/// Tells nfsd which transport carries callbacks over our connections: "RS", a number of our own,
/// as `XPRT_TRANSPORT_RDMA` is rpcrdma's.
pub(crate) const IDENT: c_int = 0x5253;

/// What there is one of.
#[pin_data]
pub(crate) struct Server {
    /// Devices and their connections.
    pub(crate) devices: Arc<Devices>,
    /// Where connections are torn down and pool refilled.
    pub(crate) queue: Arc<OwnedQueue>,
    #[pin]
    ports: Ports,
    #[pin]
    namespaces: PerNet<Counters>,
    next_number: Atomic<u64>,
}

impl Server {
    /// Makes it. May sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let queue = Arc::new(OwnedQueue::new()?, GFP_KERNEL)?;
        let devices = Devices::new(queue.clone())?;
        Arc::pin_init(
            try_pin_init!(Self {
                devices,
                queue,
                ports <- Ports::new(),
                namespaces <- PerNet::register(),
                next_number: Atomic::new(1),
            }),
            GFP_KERNEL,
        )
    }

    /// A number for a new connection or port: they are never used again.
    fn number(&self) -> u64 {
        self.next_number.fetch_add(1, Relaxed)
    }
}

/// Waits, when dropped, until what is queued has run: after it nothing of ours is on the way. So
/// it is the last to have the server: taking the folders of namespaces off waits for others who
/// make or destroy one, and they may wait for what is queued.
pub(crate) struct Flush(pub(crate) Arc<Server>);

impl Drop for Flush {
    fn drop(&mut self) {
        self.0.queue.flush();
        // What ran may have queued the refill of a device's pool.
        self.0.queue.flush();
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Ports: what listens for connect requests.
//!
//! The connection manager calls a [`Port`] with the listener's own lock held, so slow work is left to the
//! accept. The inbox bounds how many connections wait to be accepted, and [`PENDING_PER_ADDRESS`] how many of
//! one address: a flood from one address leaves room for all others.
//!
//! A listener that is bound to an address goes with the device that has it. Its [`Port`] stays, and the
//! watchdog listens again as soon as a device has that address.

use crate::svc::{
    close_reason::CloseReason,
    conn::connection::{
        Connection,
        Offer, //
    },
    counters::Counters,
    device::{
        devices::Devices,
        Device, //
    },
    settings, //
};
use kernel::{
    fmt, impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        ArcBorrow,
        Mutex, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};
use rdma::cm::{
    CmId,
    Event,
    Events,
    NewId,
    Request, //
};
use sunrpc::inbox::Inbox;
use support::{
    addr::{
        Addr,
        OwnedNet, //
    },
    ratelimit, //
};
use svcrdma_proto::cm::Peer;

/// Connections that can wait to be accepted, per listener.
pub(super) const PENDING: usize = 128;

/// Connections of one address among them.
const PENDING_PER_ADDRESS: usize = 16;

/// The reason why a connect request is refused.
enum Refusal {
    /// As many of its address as may wait do.
    Flood,
    /// The connection cannot be made.
    Error(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flood => write!(f, ", {PENDING_PER_ADDRESS} of its address wait already"),
            Self::Error(e) => write!(f, " (error {})", e.to_errno()),
        }
    }
}

/// Whether there is an id that listens.
enum Binding {
    /// Yes.
    Listening(CmId<Port>),
    /// The device that had this address is gone, or has another one.
    Lost(Addr),
    /// Not yet, or not any more.
    Closed,
}

/// A connection that waits to be accepted, with its device.
pub(crate) struct Incoming {
    pub(crate) connection: Arc<Connection>,
    pub(crate) device: Arc<Device>,
}

/// What a listening id calls.
#[pin_data]
pub(crate) struct Port {
    pub(crate) number: u64,
    devices: Arc<Devices>,
    net: OwnedNet,
    pub(crate) counters: Arc<Counters>,
    pub(super) inbox: Arc<Inbox<Incoming>>,
    #[pin]
    binding: Mutex<Binding>,
    /// Whether it was closed while nfsd runs.
    pub(super) is_released: AtomicFlag,
    /// Whether the log has said that it was to be, and stays.
    stays: AtomicFlag,
    #[pin]
    work: Work<Port>,
}

impl_has_work! {
    impl HasWork<Self> for Port { self.work }
}

impl WorkItem for Port {
    type Pointer = Arc<Port>;

    /// Destroys the id, which its own handler must not do. Sleeps.
    fn run(this: Arc<Port>) {
        this.lose();
    }
}

impl Port {
    /// Creates a port that does not listen yet. May sleep.
    pub(super) fn new(
        devices: Arc<Devices>,
        net: OwnedNet,
        counters: Arc<Counters>,
        inbox: Arc<Inbox<Incoming>>,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                number: devices.new_number(),
                devices,
                net,
                counters,
                inbox,
                binding <- new_mutex!(Binding::Closed, "svcrdma listener"),
                is_released: AtomicFlag::new(false),
                stays: AtomicFlag::new(false),
                work <- new_work!("svcrdma listener"),
            }),
            GFP_KERNEL,
        )
    }

    /// Listens; returns the address with the port that was chosen.
    pub(super) fn listen(self: &Arc<Self>, addr: &Addr) -> Result<Addr> {
        // Under the lock, or a removal of the device could come before the id is here.
        let mut binding = self.binding.lock();
        let id = CmId::listen(self.net.get(), addr, self.clone())?;
        let local = id.local();
        *binding = Binding::Listening(id);
        Ok(local)
    }

    /// Its address, if it has one now, and whether it listens. May sleep.
    pub(crate) fn state(&self) -> (Option<Addr>, &'static str) {
        match &*self.binding.lock() {
            Binding::Listening(id) => (Some(id.local()), "listening"),
            Binding::Lost(addr) => (Some(*addr), "lost"),
            Binding::Closed => (None, "closed"),
        }
    }

    /// Has nfsd close it, which does not expect to have no listener at all while it runs: `false` where
    /// there is none of another transport, and it stays. May sleep.
    pub(crate) fn release(&self) -> bool {
        let can_go = self.inbox.is_replaceable();
        if can_go {
            self.is_released.store(true, Relaxed);
            self.inbox.close();
        } else if !self.stays.xchg(true, Relaxed) && ratelimit() {
            pr_warn!("a listener stays: nfsd has none but for rdma, and needs one\n");
        }
        can_go
    }

    /// Whether it takes no more connections, since its own are being closed.
    fn is_leaving(&self) -> bool {
        settings::is_released() && (self.is_released.load(Relaxed) || self.stays.load(Relaxed))
    }

    /// Listens again if the device was lost and one has its address; nobody wants it released. May
    /// sleep.
    pub(crate) fn listen_again(self: &Arc<Self>) {
        self.stays.store(false, Relaxed);
        let mut binding = self.binding.lock();
        let Binding::Lost(addr) = &*binding else {
            return;
        };
        let addr = *addr;
        if let Ok(id) = CmId::listen(self.net.get(), &addr, self.clone()) {
            *binding = Binding::Listening(id);
            pr_info!("listening on {} again\n", addr);
        }
    }

    /// The device of the id goes, or changes its address. Sleeps.
    fn lose(&self) {
        let mut binding = self.binding.lock();
        let id = match core::mem::replace(&mut *binding, Binding::Closed) {
            Binding::Listening(id) => id,
            other => {
                *binding = other;
                return;
            }
        };
        *binding = Binding::Lost(id.local());
        drop(binding);
        pr_warn!(
            "not listening on {}: its device was removed or changed\n",
            id.local()
        );
    }

    /// Listens no more. Sleeps.
    pub(super) fn close(&self) {
        let binding = core::mem::replace(&mut *self.binding.lock(), Binding::Closed);
        drop(binding);
    }

    /// Returns true if as many connections of this address wait as may. Requests that come over
    /// several devices at once may exceed that by one for each device.
    fn is_flooded(&self, peer: &Addr) -> bool {
        let is_same = |waiting: &Incoming| waiting.connection.peer().is_same_host(peer);
        self.inbox.count(is_same) >= PENDING_PER_ADDRESS
    }

    /// Makes a connection of a connect request.
    fn new_connection(&self, new: &NewId<'_>, request: &Request<'_>) -> Result<Incoming, Refusal> {
        if self.is_leaving() {
            return Err(EBUSY.into());
        }
        if request.reads == 0 {
            // The peer would never serve an RDMA Read.
            return Err(EINVAL.into());
        }
        let peer = new.peer();
        // Before anything is made, so that a request too many costs little.
        if self.is_flooded(&peer) {
            return Err(Refusal::Flood);
        }
        let device = new.device().ok_or(ENODEV)?;
        let device = self.devices.find(&device).ok_or(ENODEV)?;
        let offer = Offer {
            peer: Peer::parse(request.private),
            reads: request.reads,
        };
        let connection = Connection::new(
            self.devices.new_number(),
            peer,
            offer,
            device.lane.clone(),
            self.counters.clone(),
            self.devices.queue.clone(),
        )?;
        Ok(Incoming { connection, device })
    }

    /// Queues the connection for nfsd to accept, or closes it.
    fn queue(&self, new: NewId<'_>, incoming: Incoming) -> Result {
        let connection = &incoming.connection;
        // From here on the id belongs to the connection, which destroys it when it closes. This handler
        // must not.
        connection.set_pending(new.adopt(connection.clone()));
        if let Err(e) = connection.lane.remember(connection) {
            connection.close(CloseReason::Accept(e.to_errno()));
            return Err(e);
        }
        self.inbox.push(incoming).map_err(|refused| {
            refused.into_inner().connection.close(CloseReason::Busy);
            EBUSY
        })
    }
}

impl Events for Port {
    fn connect_request(this: ArcBorrow<'_, Self>, new: NewId<'_>, request: &Request<'_>) {
        let is_queued = match this.new_connection(&new, request) {
            Ok(incoming) => this.queue(new, incoming).is_ok(),
            Err(refusal) => {
                if ratelimit() {
                    pr_warn!("connect request of {} refused{}\n", new.peer(), refusal);
                }
                false
            }
        };
        if !is_queued {
            this.counters.rejected.inc();
        }
    }

    /// Also if its address is gone: a bond has failed over.
    fn event(this: ArcBorrow<'_, Self>, _event: Event) {
        let port: Arc<Port> = this.into();
        // An error means that it is queued already.
        let _ = port.devices.queue.clone().enqueue(port);
    }
}

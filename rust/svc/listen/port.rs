// SPDX-License-Identifier: GPL-2.0

//! Ports: the half of a listener that the connection manager calls for each connect request.
//!
//! The connection manager calls a [`Port`] with the lock of the listening id held, so the accept
//! does all slow work. [`admission`] decides which connections may wait to be accepted.
//!
//! The listening id of one address is destroyed when the device with this address is removed. The
//! [`Port`] stays, and the watchdog listens again as soon as a device has the address.

use super::admission::{
    self,
    Refusal, //
};
use crate::svc::{
    close_reason::CloseReason,
    conn::{
        connection::Connection,
        offer::Offer, //
    },
    counters::Counters,
    device::devices::Devices,
    settings, //
};
use kernel::{
    impl_has_work, new_mutex, new_work,
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
    trace,
    RateLimit, //
};
use svcrdma_proto::{
    cm::Peer,
    source::Source, //
};

/// The state of the listening id.
enum Binding {
    /// The id listens.
    Listening(CmId<Port>),
    /// The device with this address was removed, or has another address now. The watchdog tries to
    /// listen again.
    Lost(Addr),
    /// The port does not listen yet, or nfsd has closed it.
    Closed,
}

/// A connection that waits to be accepted.
pub(crate) struct Incoming {
    pub(super) source: Source,
    pub(crate) connection: Arc<Connection>,
}

/// The context of a listening id. A [`Listener`](super::listener::Listener) owns it, the table of
/// ports and the id refer to it.
///
/// # Locking
///
/// A mutex protects the binding. It is held while an id is created, and never while an id that listens
/// is destroyed: destroying an id waits for its event handler. An id that could not listen is
/// destroyed under it.
#[pin_data]
pub(crate) struct Port {
    /// The key in the table of ports.
    pub(crate) number: u64,
    devices: Arc<Devices>,
    /// The network namespace.
    net: OwnedNet,
    /// The counters of the network namespace.
    pub(crate) counters: Arc<Counters>,
    /// The connections that wait to be accepted.
    pub(super) inbox: Arc<Inbox<Incoming>>,
    #[pin]
    binding: Mutex<Binding>,
    /// True if [`Self::release`] has made nfsd close the listener.
    pub(super) is_released: AtomicFlag,
    /// True if [`Self::release`] has kept the listener, because nfsd has no other transport.
    is_kept: AtomicFlag,
    /// The work that destroys a lost id.
    #[pin]
    work: Work<Port>,
}

impl_has_work! {
    impl HasWork<Self> for Port { self.work }
}

impl WorkItem for Port {
    type Pointer = Arc<Port>;

    /// Destroys the lost id. The event handler of the id must not do so. Sleeps.
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
                is_kept: AtomicFlag::new(false),
                work <- new_work!("svcrdma listener work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Listens on `addr`. Returns the address, with the port number that was chosen if `addr` has
    /// none. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`CmId::listen`].
    pub(super) fn listen(self: &Arc<Self>, addr: &Addr) -> Result<Addr> {
        // Under the lock, so that `lose()` finds the id if the device is removed at once.
        let mut binding = self.binding.lock();
        let id = CmId::listen(self.net.get(), addr, self.clone())?;
        let local = id.local();
        *binding = Binding::Listening(id);
        Ok(local)
    }

    /// Returns the address, if the port has one, and the name of the state, for debugfs. May sleep.
    pub(crate) fn state(&self) -> (Option<Addr>, &'static str) {
        match &*self.binding.lock() {
            Binding::Listening(id) => (Some(id.local()), "listening"),
            Binding::Lost(addr) => (Some(*addr), "lost"),
            Binding::Closed => (None, "closed"),
        }
    }

    /// Makes nfsd close the listener. Returns false, and keeps the listener, if nfsd has no
    /// listener of another transport: a running nfsd needs at least one. May sleep.
    pub(crate) fn release(&self) -> bool {
        let can_go = self.inbox.is_replaceable();
        if can_go {
            self.is_released.store(true, Relaxed);
            self.inbox.close();
        } else if !self.is_kept.xchg(true, Relaxed) && RateLimit::Others.allows() {
            self.warn_kept();
        }
        can_go
    }

    /// Logs that the listener stays. May sleep.
    // Out of line: rarely needed, and an address is large.
    #[inline(never)]
    fn warn_kept(&self) {
        let warn = |addr: &Addr| {
            pr_warn!(
                "listener {}: not released: nfsd has no other transport\n",
                addr
            );
        };
        match &*self.binding.lock() {
            Binding::Listening(id) => warn(&id.local()),
            Binding::Lost(addr) => warn(addr),
            Binding::Closed => {}
        }
    }

    /// Returns true if the port refuses connections, because [`Self::release`] was called and the
    /// setting `release` is still 1.
    pub(super) fn is_refusing(&self) -> bool {
        settings::is_released() && (self.is_released.load(Relaxed) || self.is_kept.load(Relaxed))
    }

    /// Listens again on the address of a lost id, if a device has this address. The watchdog calls
    /// this while the setting `release` is 0. May sleep.
    pub(crate) fn listen_again(self: &Arc<Self>) {
        self.is_kept.store(false, Relaxed);
        let mut binding = self.binding.lock();
        let Binding::Lost(addr) = &*binding else {
            return;
        };
        let addr = *addr;
        if let Ok(id) = CmId::listen(self.net.get(), &addr, self.clone()) {
            *binding = Binding::Listening(id);
            trace::listener(1, self.counters.namespace.number, &addr);
            pr_info!("listener {}: listening again\n", addr);
        }
    }

    /// Destroys the id, whose device is being removed or has changed its address. Keeps the address
    /// for [`Self::listen_again`]. Sleeps.
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
        // Under the lock, so that the event precedes that of the listener's return.
        trace::listener(0, self.counters.namespace.number, &id.local());
        drop(binding);
        pr_warn!(
            "listener {}: device removed or its address changed, waiting for it to return\n",
            id.local()
        );
    }

    /// Stops listening for good. Sleeps.
    pub(super) fn close(&self) {
        let binding = core::mem::replace(&mut *self.binding.lock(), Binding::Closed);
        drop(binding);
    }

    /// Creates a connection for a connect request. May sleep.
    fn new_connection(&self, new: &NewId<'_>, request: &Request<'_>) -> Result<Incoming, Refusal> {
        let origin = new.origin();
        admission::check(self, &origin)?;
        let device = new.device().ok_or(ENODEV)?;
        let device = self.devices.find(&device).ok_or(ENODEV)?;
        let offer = Offer {
            origin,
            peer: Peer::parse(request.private),
            reads: request.reads,
            path: new.path(),
        };
        let connection = Connection::new(
            self.devices.new_number(),
            new.peer(),
            offer,
            device,
            self.counters.clone(),
        )?;
        Ok(Incoming {
            source: origin.source(),
            connection,
        })
    }

    /// Queues the connection for nfsd to accept, or closes it. May sleep.
    fn queue(&self, new: NewId<'_>, incoming: Incoming) {
        let connection = &incoming.connection;
        // The connection owns the id from here on. Its teardown destroys the id, because this
        // handler, which the id has called, must not.
        connection.set_pending(new.adopt(connection.clone()));
        if let Err(e) = connection.device.remember(connection) {
            connection.close(CloseReason::Accept(e.to_errno()));
            self.counters.rejected.inc();
        } else if let Some(gone) = admission::queue(&self.inbox, incoming) {
            if !gone.connection.is_closing() {
                self.counters.rejected.inc();
            }
            gone.connection.close(CloseReason::Busy);
        }
    }
}

impl Events for Port {
    fn connect_request(this: ArcBorrow<'_, Self>, new: NewId<'_>, request: &Request<'_>) {
        match this.new_connection(&new, request) {
            Ok(incoming) => this.queue(new, incoming),
            Err(refusal) => {
                refusal.count(&this.counters);
                if RateLimit::Refusals.allows() {
                    pr_warn!("connect request of {}: refused: {}\n", new.peer(), refusal);
                }
            }
        }
    }

    /// Queues the destruction of the listening id: its device is being removed, or has another
    /// address, for example after a failover of a bond.
    fn event(this: ArcBorrow<'_, Self>, _event: Event) {
        let port: Arc<Port> = this.into();
        // An error means that the work is queued already.
        let _ = port.devices.queue.clone().enqueue(port);
    }
}

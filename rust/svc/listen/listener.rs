// SPDX-License-Identifier: GPL-2.0

//! Listeners: from a connect request to the queue of connections that wait to be accepted.
//!
//! The connection manager calls [`Port`] with the listener's own lock held, so what is slow is left
//! to whoever accepts. How many connections wait is bounded by the inbox, and for each address of
//! peers by [`PENDING_PER_ADDRESS`]: a flood from one address leaves room for all others.
//!
//! A listener that is bound to an address goes with the device that has it. Its [`Port`] stays, and
//! the watchdog listens again as soon as a device has that address.

use super::accept;
use crate::svc::{
    close_reason::CloseReason,
    conn::connection::{
        Connection, //
        Offer,
    },
    counters::{
        Counters, //
    },
    flow::receive::Xprt,
    settings,
    Server, //
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
use sunrpc::{
    self,
    inbox::{
        Flag,
        Inbox, //
    },
    xprt::{
        Listen,
        New,
        Transport, //
    },
};
use support::{
    addr::{
        Addr,
        Net,
        OwnedNet, //
    },
    ratelimit, //
};
use svcrdma_proto::cm::Peer;

/// Connections that can wait to be accepted, per listener.
const PENDING: usize = 128;

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

/// What a listening id calls.
#[pin_data]
pub(crate) struct Port {
    pub(crate) number: u64,
    server: Arc<Server>,
    net: OwnedNet,
    pub(crate) counters: Arc<Counters>,
    inbox: Arc<Inbox<Arc<Connection>>>,
    #[pin]
    binding: Mutex<Binding>,
    /// Whether it was closed while nfsd runs.
    is_released: AtomicFlag,
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
    /// Listens; returns the address with the port that was chosen.
    fn listen(self: &Arc<Self>, addr: &Addr) -> Result<Addr> {
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
    fn close(&self) {
        let binding = core::mem::replace(&mut *self.binding.lock(), Binding::Closed);
        drop(binding);
    }

    /// Returns true if as many connections of this address wait as may. Requests that come over
    /// several devices at once may exceed that by one for each device.
    fn is_flooded(&self, peer: &Addr) -> bool {
        let is_same = |waiting: &Arc<Connection>| waiting.peer().is_same_host(peer);
        self.inbox.count(is_same) >= PENDING_PER_ADDRESS
    }

    /// Makes a connection of a connect request.
    fn new_connection(
        &self,
        new: &NewId<'_>,
        request: &Request<'_>,
    ) -> Result<Arc<Connection>, Refusal> {
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
        let device = self.server.devices.find(&device).ok_or(ENODEV)?;
        let offer = Offer {
            peer: Peer::parse(request.private),
            reads: request.reads,
        };
        let connection = Connection::new(
            self.server.number(),
            peer,
            offer,
            device,
            self.counters.clone(),
            self.server.queue.clone(),
        )?;
        Ok(connection)
    }

    /// Lets nfsd accept it, or closes it.
    fn queue(&self, new: NewId<'_>, connection: Arc<Connection>) -> Result {
        // From here on the id belongs to `connection`, whose closing destroys it: this handler must
        // not.
        connection.set_pending(new.adopt(connection.clone()));
        if let Err(e) = connection.device.remember(&connection) {
            connection.close(CloseReason::Accept(e.to_errno()));
            return Err(e);
        }
        self.inbox.push(connection).map_err(|refused| {
            refused.into_inner().close(CloseReason::Busy);
            EBUSY
        })
    }
}

impl Events for Port {
    fn connect_request(this: ArcBorrow<'_, Self>, new: NewId<'_>, request: &Request<'_>) {
        let is_queued = match this.new_connection(&new, request) {
            Ok(connection) => this.queue(new, connection).is_ok(),
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
        let _ = port.server.queue.clone().enqueue(port);
    }
}

/// nfsd's side of a listener.
pub(crate) struct Listener {
    port: Arc<Port>,
}

impl Listen for Listener {
    type Context = Server;
    type Item = Arc<Connection>;
    type Connection = Xprt;

    fn create(
        server: &Arc<Server>,
        net: Net<'_>,
        addr: &Addr,
    ) -> Result<(Self, Arc<Inbox<Arc<Connection>>>, Addr)> {
        refuse_while_released()?;
        let inbox = Inbox::new(PENDING, Flag::Conn)?;
        let ports_inbox = inbox.clone();
        let port = Arc::pin_init(
            pin_init!(Port {
                number: server.number(),
                server: server.clone(),
                counters: server.namespaces.get(net),
                net: net.keep(),
                inbox: ports_inbox,
                binding <- new_mutex!(Binding::Closed, "svcrdma listener"),
                is_released: AtomicFlag::new(false),
                stays: AtomicFlag::new(false),
                work <- new_work!("svcrdma listener"),
            }),
            GFP_KERNEL,
        )?;
        // On an error dropping it takes it off again.
        let listener = Self { port };
        let local = listener.port.listen(addr)?;
        // That may have taken its time, and sunrpc needs some more.
        server.ports.add(&listener.port)?;
        refuse_while_released()?;
        Ok((listener, inbox, local))
    }

    fn accept(
        &self,
        listener: &Transport<Self, Arc<Connection>>,
        connection: Arc<Connection>,
    ) -> Option<New<Xprt>> {
        accept::accept(listener, &connection)
    }

    fn discard(&self, connection: Arc<Connection>) {
        connection.close(CloseReason::ListenerGone);
    }

    fn detach(&self) {
        self.port.close();
    }
}

impl Drop for Listener {
    /// Sleeps.
    fn drop(&mut self) {
        self.detach();
        // Who has come before sunrpc took it.
        while let Some(connection) = self.port.inbox.pop() {
            self.discard(connection);
        }
        if self.port.is_released.load(Relaxed) {
            sunrpc::wait_for_new_threads();
        }
        let server = &self.port.server;
        server.ports.remove(&self.port);
        if settings::is_released() {
            server.release();
        }
    }
}

fn refuse_while_released() -> Result {
    if !settings::is_released() {
        return Ok(());
    }
    pr_err!("no listener while sunrpc/svcrdma/release is 1\n");
    Err(EBUSY)
}

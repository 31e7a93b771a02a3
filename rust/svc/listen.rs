// SPDX-License-Identifier: GPL-2.0

//! Listeners: from a connect request to the queue of connections that wait to be accepted.
//!
//! The connection manager calls [`Port`] with the listener's own lock held, so what is slow is left
//! to whoever accepts. How many connections wait is bounded by the inbox.

use super::{
    accept,
    call::Connection,
    conn::{
        Cause,
        Offer,
        Shared, //
    },
    stats,
    Server, //
};
use crate::abstractions::{
    addr::{
        Addr,
        Net, //
    },
    rdma::cm::{
        CmId,
        Event,
        Events,
        NewId,
        Request, //
    },
    sunrpc::{
        inbox::Inbox,
        xprt::{
            Listen,
            New,
            Transport, //
        },
    },
};
use kernel::{
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow,
        Mutex, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};
use svcrdma_proto::cm::Peer;

/// Connections that can wait to be accepted, per listener.
const PENDING: usize = 128;

/// What a listening id calls.
#[pin_data]
pub(crate) struct Port {
    server: Arc<Server>,
    inbox: Arc<Inbox<Arc<Shared>>>,
    /// Gone when the listener is, or when the device it was bound to is.
    #[pin]
    id: Mutex<Option<CmId<Port>>>,
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
        this.close();
    }
}

impl Port {
    /// Listens; returns the address with the port that was chosen.
    fn listen(self: &Arc<Self>, net: Net<'_>, addr: &Addr) -> Result<Addr> {
        // Under the lock, or a removal of the device could come before the id is here.
        let mut slot = self.id.lock();
        let id = CmId::listen(net, addr, self.clone())?;
        let local = id.local();
        *slot = Some(id);
        Ok(local)
    }

    fn close(&self) {
        let id = self.id.lock().take();
        drop(id);
    }

    /// Makes a connection of a connect request, and lets nfsd accept it.
    fn queue(&self, new: NewId<'_>, request: &Request) -> Result {
        if request.reads == 0 {
            // The peer would never serve an RDMA Read.
            return Err(EINVAL);
        }
        let device = new.device().ok_or(ENODEV)?;
        let device = self.server.devices.find(&device).ok_or(ENODEV)?;
        let offer = Offer {
            peer: Peer::parse(request.private_data()),
            reads: request.reads,
        };
        let shared = Shared::new(
            self.server.number(),
            new.peer(),
            offer,
            device,
            self.server.queue.clone(),
        )?;
        // From here on the id belongs to `shared`, whose closing destroys it: this handler must not.
        shared.set_pending(new.adopt(shared.clone()));
        if let Err(e) = shared.device.remember(&shared) {
            shared.close(Cause::Accept(e.to_errno()));
            return Err(e);
        }
        self.inbox.push(shared).map_err(|shared| {
            shared.close(Cause::Busy);
            EBUSY
        })
    }
}

impl Events for Port {
    fn connect_request(this: ArcBorrow<'_, Self>, new: NewId<'_>, request: &Request) {
        if this.queue(new, request).is_err() {
            stats::REJECTED.inc();
        }
    }

    fn event(this: ArcBorrow<'_, Self>, event: Event) {
        if let Event::DeviceRemoval = event {
            let port: Arc<Port> = this.into();
            // An error means that it is queued already.
            let _ = port.server.queue.clone().enqueue(port);
        }
    }
}

/// nfsd's side of a listener.
pub(crate) struct Listener {
    port: Arc<Port>,
}

impl Listen for Listener {
    type Context = Server;
    type Item = Arc<Shared>;
    type Connection = Connection;

    fn create(
        server: &Arc<Server>,
        net: Net<'_>,
        addr: &Addr,
    ) -> Result<(Self, Arc<Inbox<Arc<Shared>>>, Addr)> {
        let inbox = Inbox::new(PENDING)?;
        let ports_inbox = inbox.clone();
        let port = Arc::pin_init(
            pin_init!(Port {
                server: server.clone(),
                inbox: ports_inbox,
                id <- new_mutex!(None, "svcrdma listener"),
                work <- new_work!("svcrdma listener"),
            }),
            GFP_KERNEL,
        )?;
        let local = port.listen(net, addr)?;
        Ok((Self { port }, inbox, local))
    }

    fn accept(
        &self,
        listener: &Transport<Self, Arc<Shared>>,
        shared: Arc<Shared>,
    ) -> Option<New<Connection>> {
        accept::accept(listener, &shared)
    }

    fn discard(&self, shared: Arc<Shared>) {
        shared.close(Cause::ListenerGone);
    }

    fn detach(&self) {
        self.port.close();
    }
}

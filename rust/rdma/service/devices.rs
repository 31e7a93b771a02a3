// SPDX-License-Identifier: GPL-2.0

//! Devices and connections of a server, and its listener.

use crate::{
    client::Client,
    cm::{
        Event,
        Events,
        NewId,
        Request, //
    },
    cq::{
        Completes,
        Cq, //
    },
    device::{
        IbDevice,
        Pd, //
    },
    recv::budget::Budget,
    service::{
        connection::Connection,
        service::Service, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};
use support::workqueue::{
    OwnedQueue,
    Tick, //
};

/// Entries of a completion queue. Connections reserve theirs; a peer for which none are left is rejected.
const CQ_ENTRIES: u32 = 4096;

/// The completion queues for Receives and for Sends.
type Cqs = (Arc<Cq>, Arc<Cq>);

/// A device: the objects that its connections share.
#[pin_data]
pub(super) struct Device {
    pub(super) ib: IbDevice,
    /// The completion queues for Receives and for Sends, until the device is removed: a queue that a
    /// queue pair could not be drained from keeps its connection, which refers to the device.
    #[pin]
    cqs: Mutex<Option<Cqs>>,
    pub(super) budget: Arc<Budget>,
}

impl Device {
    /// Returns the completion queues for Receives and for Sends. Makes new ones if one of the last ones gets
    /// no more queue pairs. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device was removed, `ENOMEM`, or the driver's error.
    pub(super) fn cqs(&self) -> Result<Cqs> {
        let mut cqs = self.cqs.lock();
        let (receives, sends) = cqs.as_ref().ok_or(ENODEV)?;
        if !receives.is_retired() && !sends.is_retired() {
            return Ok((receives.clone(), sends.clone()));
        }
        let new = make_cqs(&self.ib)?;
        let retired = cqs.replace(new.clone());
        drop(cqs);
        // Without the mutex: the last reference frees what is left of connections.
        drop(retired);
        Ok(new)
    }
}

/// Makes the completion queues of a device. May sleep.
fn make_cqs(ib: &IbDevice) -> Result<Cqs> {
    let pd = Pd::new(ib)?;
    let entries = CQ_ENTRIES.min(ib.limits().max_cqe);
    let receives = Cq::new(&pd, Completes::Receives, entries, 0)?;
    let sends = Cq::new(&pd, Completes::Sends, entries, 0)?;
    Ok((receives, sends))
}

/// All devices and connections of a server.
///
/// # Locking
///
/// The mutex `connections` is taken before `list`. No function of a connection that sleeps is called
/// under them.
#[pin_data]
pub(super) struct Devices<S: Service> {
    #[pin]
    pub(super) service: S,
    #[pin]
    list: Mutex<KVec<Arc<Device>>>,
    #[pin]
    connections: Mutex<KVec<Arc<Connection<S>>>>,
    pub(super) queue: Arc<OwnedQueue>,
}

impl<S: Service> Devices<S> {
    /// Creates empty lists. May sleep.
    pub(super) fn new(
        service: impl PinInit<S, Error>,
        queue: Arc<OwnedQueue>,
    ) -> Result<Arc<Self>> {
        let this = try_pin_init!(Self {
            service <- service,
            list <- new_mutex!(KVec::new(), "rdma service devices"),
            connections <- new_mutex!(KVec::new(), "rdma service connections"),
            queue,
        }? Error);
        Arc::pin_init(this, GFP_KERNEL)
    }

    fn find(&self, ib: &IbDevice) -> Option<Arc<Device>> {
        let list = self.list.lock();
        list.iter().find(|device| device.ib.same(ib)).cloned()
    }

    /// Adds a connection.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there are as many as there may be, `ENODEV` if its device was removed, or `ENOMEM`.
    fn add(&self, connection: &Arc<Connection<S>>) -> Result {
        let most = self.service.capacity().connections;
        let mut connections = self.connections.lock();
        // Under the lock, so that the removal of the device finds the connection.
        let list = self.list.lock();
        if !list.iter().any(|one| Arc::ptr_eq(one, &connection.device)) {
            return Err(ENODEV);
        }
        drop(list);
        if connections.len() >= most {
            return Err(EBUSY);
        }
        Ok(connections.push(connection.clone(), GFP_KERNEL)?)
    }

    /// Closes all connections of `device`. Returns true if there are any.
    fn close_all(&self, device: &Arc<Device>) -> bool {
        let connections = self.connections.lock();
        let of_device = connections
            .iter()
            .filter(|one| Arc::ptr_eq(&one.device, device));
        of_device.inspect(|one| one.close()).count() > 0
    }

    /// Removes the connection from the list, and drops it without the lock.
    pub(super) fn forget(&self, connection: &Arc<Connection<S>>) {
        let mut connections = self.connections.lock();
        let at = connections
            .iter()
            .position(|one| Arc::ptr_eq(one, connection));
        let gone = at.and_then(|at| connections.remove(at).ok());
        drop(connections);
        drop(gone);
    }

    /// Makes and adds the connection of a connect request.
    fn connect(
        self: &Arc<Self>,
        new: &NewId<'_>,
        request: &Request<'_>,
    ) -> Result<Arc<Connection<S>>> {
        if !self.service.admits(&new.origin()) {
            return Err(EACCES);
        }
        let ib = new.device().ok_or(ENODEV)?;
        let device = self.find(&ib).ok_or(ENODEV)?;
        let connection = Connection::new(self, device, request)?;
        self.add(&connection)?;
        Ok(connection)
    }
}

impl<S: Service> Client for Devices<S> {
    fn add(&self, ib: IbDevice) -> Result {
        let cqs = make_cqs(&ib)?;
        let budget = Arc::new(Budget::new(), GFP_KERNEL)?;
        let device = pin_init!(Device {
            cqs <- new_mutex!(Some(cqs), "rdma service completion queues"),
            budget,
            ib,
        });
        let device = Arc::pin_init(device, GFP_KERNEL)?;
        self.list.lock().push(device, GFP_KERNEL)?;
        Ok(())
    }

    fn remove(&self, ib: &IbDevice) {
        let Some(device) = self.find(ib) else { return };
        self.list.lock().retain(|one| !Arc::ptr_eq(one, &device));
        // Each connection refers to its device until it is torn down.
        while self.close_all(&device) {
            fsleep(Delta::from_millis(2));
        }
        let cqs = device.cqs.lock().take();
        drop(cqs);
    }
}

impl<S: Service> Tick for Devices<S> {
    const MSECS: u32 = 1000;

    fn tick(self: &Arc<Self>) {
        for connection in self.connections.lock().iter() {
            connection.tick();
        }
    }
}

/// The context of the listening id.
pub(super) struct Listener<S: Service>(pub(super) Arc<Devices<S>>);

impl<S: Service> Events for Listener<S> {
    fn connect_request(this: ArcBorrow<'_, Self>, new: NewId<'_>, request: &Request<'_>) {
        match this.0.connect(&new, request) {
            Ok(connection) => {
                let id = new.adopt(connection.clone());
                connection.begin(id);
            }
            // The id is not adopted, so the RDMA core rejects the peer.
            Err(error) => this.0.service.rejected(&new.peer(), error),
        }
    }

    fn event(_this: ArcBorrow<'_, Self>, _event: Event) {}
}

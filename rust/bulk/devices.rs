// SPDX-License-Identifier: GPL-2.0

//! Devices, the listener, and what all connections share.

use crate::{
    accept_from::AcceptFrom, connection::Connection, module_parameters as parameters, value,
};
use kernel::sync::{
    atomic::{Atomic, Relaxed},
    Arc, ArcBorrow, Mutex,
};
use kernel::time::{delay::fsleep, Delta};
use kernel::{new_mutex, prelude::*, str::CStr};
use rdma::{
    client::Client,
    cm::{Event, Events, NewId, Reads, Request},
    cq::{Completes, Cq},
    device::{IbDevice, Pd},
    recv::budget::Budget,
};
use support::{
    addr::Net,
    pernet::{Namespace, Namespaced, PerNet},
    sysctl::{Counter, Entry, Files, Value},
    sysctl_text::TextRef,
    workqueue::{OwnedQueue, Tick},
};

/// Seconds between two looks at a connection that has not negotiated.
const NEGOTIATION: u32 = 5;

/// The directory of a network namespace in `/proc/sys`.
pub(crate) struct Host {
    accept_from: AcceptFrom,
    /// Peers that were accepted, messages that have arrived, and connections closed for what a peer did.
    accepted: Counter,
    pub(crate) messages: Counter,
    pub(crate) closed: Counter,
    refused: Counter,
}

impl Namespaced for Host {
    fn new(_namespace: Namespace) -> Result<Arc<Self>> {
        let accept_from = AcceptFrom::new()?;
        let [accepted, messages, closed, refused] = [const { Counter::new() }; 4];
        let this = Self {
            accept_from,
            accepted,
            messages,
            closed,
            refused,
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }
}

impl Files for Host {
    const PATH: &'static CStr = c"net/rdma_bulk";

    fn files(&self) -> Result<KVec<Entry<'_>>> {
        let mut files = KVec::new();
        for (name, value) in [
            (c"accept_from", Value::Text(TextRef::new(&self.accept_from))),
            (c"accepted", Value::Counter(&self.accepted)),
            (c"messages", Value::Counter(&self.messages)),
            (c"closed", Value::Counter(&self.closed)),
            (c"refused", Value::Counter(&self.refused)),
        ] {
            files.push(Entry { name, value }, GFP_KERNEL)?;
        }
        Ok(files)
    }
}

/// A device: the objects that its connections share.
#[pin_data]
pub(crate) struct Device {
    pub(crate) ib: IbDevice,
    /// The completion queues for Receives and for Sends, until the device is removed: a queue that a
    /// queue pair could not be drained from keeps its connection, which refers to the device.
    #[pin]
    cqs: Mutex<Option<(Arc<Cq>, Arc<Cq>)>>,
    pub(crate) budget: Arc<Budget>,
}

impl Device {
    /// Returns the completion queues for Receives and for Sends.
    pub(crate) fn cqs(&self) -> Result<(Arc<Cq>, Arc<Cq>)> {
        self.cqs.lock().clone().ok_or(ENODEV)
    }
}

/// All devices and connections.
#[pin_data]
pub(crate) struct Devices {
    #[pin]
    list: Mutex<KVec<Arc<Device>>>,
    #[pin]
    connections: Mutex<KVec<Arc<Connection>>>,
    #[pin]
    hosts: PerNet<Host>,
    seconds: Atomic<u32>,
    pub(crate) queue: Arc<OwnedQueue>,
}

impl Devices {
    pub(crate) fn new(queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        let this = try_pin_init!(Self {
            list <- new_mutex!(KVec::new()),
            connections <- new_mutex!(KVec::new()),
            hosts <- PerNet::register(),
            seconds: Atomic::new(0),
            queue,
        }? Error);
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// Returns the counters. The module listens in the initial network namespace alone.
    pub(crate) fn host(&self) -> Arc<Host> {
        self.hosts.get(Net::initial())
    }

    fn find(&self, ib: &IbDevice) -> Option<Arc<Device>> {
        self.list
            .lock()
            .iter()
            .find(|device| device.ib.same(ib))
            .cloned()
    }

    /// Removes the connection from the list, and drops it without the lock.
    pub(crate) fn forget(&self, connection: &Arc<Connection>) {
        let mut connections = self.connections.lock();
        let at = connections
            .iter()
            .position(|one| Arc::ptr_eq(one, connection));
        let gone = at.and_then(|at| connections.remove(at).ok());
        drop(connections);
        drop(gone);
    }

    /// Adds a connection. Returns false if there are as many as there may be, or if its device was removed.
    fn add(&self, connection: &Arc<Connection>) -> bool {
        let most = usize::from(value::<u8>(parameters::max_peers.value()).min(64));
        let mut connections = self.connections.lock();
        // Under the lock, so that the removal of the device finds the connection.
        let has_device = self.find(&connection.device.ib).is_some();
        let has_room = connections.len() < most;
        has_device && has_room && connections.push(connection.clone(), GFP_KERNEL).is_ok()
    }
}

impl Client for Devices {
    fn add(&self, ib: IbDevice) -> Result {
        let pd = Pd::new(&ib)?;
        let receives = Cq::new(&pd, Completes::Receives, 4096, 0)?;
        let sends = Cq::new(&pd, Completes::Sends, 4096, 0)?;
        let budget = Arc::new(Budget::new(), GFP_KERNEL)?;
        let device = pin_init!(Device {
            cqs <- new_mutex!(Some((receives, sends))),
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
        let is_of = |one: &&Arc<Connection>| Arc::ptr_eq(&one.device, &device);
        loop {
            let left = self.connections.lock().iter().find(is_of).cloned();
            let Some(connection) = left else { break };
            connection.close();
            drop(connection);
            fsleep(Delta::from_millis(2));
        }
        let cqs = device.cqs.lock().take();
        drop(cqs);
    }
}

impl Tick for Devices {
    const MSECS: u32 = 1000;

    fn tick(self: &Arc<Self>) {
        let now = self.seconds.load(Relaxed).wrapping_add(1);
        self.seconds.store(now, Relaxed);
        let interval = u32::from(value::<u16>(parameters::keepalive.value()).max(1));
        for connection in self.connections.lock().iter() {
            let interval = if connection.is_negotiated() {
                interval
            } else {
                NEGOTIATION
            };
            if now.checked_rem(interval) == Some(0) {
                connection.tick();
            } else if connection.is_stalled() {
                connection.work_later();
            }
        }
    }
}

/// The context of the listening id.
pub(crate) struct Listener(pub(crate) Arc<Devices>);

impl Events for Listener {
    fn connect_request(this: ArcBorrow<'_, Self>, new: NewId<'_>, request: &Request<'_>) {
        let (devices, host) = (&this.0, this.0.host());
        let reads = Reads {
            issued: request.reads,
            served: request.peer_reads,
        };
        // Where `new` is not adopted, the peer is rejected.
        if host.accept_from.missing(&new.origin()).is_some() {
            host.refused.inc();
            return;
        }
        let device = new.device().and_then(|ib| devices.find(&ib));
        let connection = device.and_then(|device| Connection::new(devices, device, reads).ok());
        match connection.filter(|connection| devices.add(connection)) {
            Some(connection) => {
                host.accepted.inc();
                let id = new.adopt(connection.clone());
                connection.begin(id);
            }
            None => host.refused.inc(),
        }
    }

    fn event(_this: ArcBorrow<'_, Self>, _event: Event) {}
}

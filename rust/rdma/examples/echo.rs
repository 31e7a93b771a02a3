// SPDX-License-Identifier: GPL-2.0

//! A ULP that sends each message back to its peer. It listens on port 20050 of all IPv4 addresses.
//!
//! A peer may ask for memory that it reads or writes by itself, see [`exposed`].

mod exposed;

use crate::exposed::{
    Command,
    Exposed,
    Memory,
    PAGES, //
};
use core::{
    iter::Empty,
    net::{Ipv4Addr, SocketAddrV4},
    ops::Range,
};
use kernel::sync::{
    atomic::{AtomicFlag, Relaxed},
    Arc, ArcBorrow, Mutex, SpinLock,
};
use kernel::time::{delay::fsleep, Delta};
use kernel::workqueue::{self, WorkItem};
use kernel::{impl_has_work, new_mutex, new_spinlock, new_work, prelude::*};
use rdma::{
    client::{
        Client,
        Registration, //
    },
    cm::{
        CmId,
        Event,
        Events,
        NewId,
        Reads,
        Request, //
    },
    completion::{
        Completion,
        Status, //
    },
    cq::{
        Completes,
        Cq, //
    },
    device::{
        IbDevice,
        Pd, //
    },
    handler::{
        Handler,
        Unfit, //
    },
    mem::page_region::PageRegion,
    qp::{
        Parts,
        Qp, //
    },
    recv::{
        budget::Budget,
        buffer::State,
        pool::ReceivePool,
        receive::Receive, //
    },
    send::{
        buffer::SendBuffer,
        chain::{
            Chain,
            Message, //
        },
        progress::Amount,
        queue::{
            SendQueue,
            Size,
            Stop, //
        },
        work::{
            Built,
            Work, //
        },
    },
};
use support::{
    addr::{Addr, Net},
    page::Effort,
    workqueue::OwnedQueue,
};

/// The port.
const PORT: u16 = 20050;
/// Work requests that a connection can have posted.
const DEPTH: u32 = 62;
/// The most Receive buffers of a connection.
const RECEIVES: u32 = 32;

/// The most connections.
const CONNECTIONS: usize = 64;

/// A device: the objects that its connections share.
#[pin_data]
struct Device {
    ib: IbDevice,
    /// The completion queues for Receives and for Sends, until the device is removed: a queue that a
    /// queue pair could not be drained from keeps its connection, which refers to the device.
    #[pin]
    cqs: Mutex<Option<(Arc<Cq>, Arc<Cq>)>>,
    budget: Arc<Budget>,
}

/// All devices and connections.
#[pin_data]
struct Devices {
    #[pin]
    list: Mutex<KVec<Arc<Device>>>,
    #[pin]
    connections: Mutex<KVec<Arc<Connection>>>,
    queue: OwnedQueue,
}

impl Devices {
    fn find(&self, ib: &IbDevice) -> Option<Arc<Device>> {
        self.list
            .lock()
            .iter()
            .find(|device| device.ib.same(ib))
            .cloned()
    }

    /// Adds a connection. Returns false if there are as many as there may be, or if its device was removed.
    fn add(&self, connection: &Arc<Connection>) -> bool {
        let mut connections = self.connections.lock();
        // Under the lock, so that the removal of the device finds the connection.
        let has_device = self.find(&connection.device.ib).is_some();
        let has_room = connections.len() < CONNECTIONS;
        has_device && has_room && connections.push(connection.clone(), GFP_KERNEL).is_ok()
    }

    /// Removes the connection from the list, and drops it without the lock.
    fn forget(&self, connection: &Arc<Connection>) {
        let mut connections = self.connections.lock();
        let at = connections
            .iter()
            .position(|one| Arc::ptr_eq(one, connection));
        let gone = at.and_then(|at| connections.remove(at).ok());
        drop(connections);
        drop(gone);
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

/// The context of the listening id.
struct Listener(Arc<Devices>);

impl Events for Listener {
    fn connect_request(this: ArcBorrow<'_, Self>, new: NewId<'_>, request: &Request<'_>) {
        let device = new.device().and_then(|ib| this.0.find(&ib));
        // Where `new` is not adopted, the peer is rejected.
        let Some(device) = device else { return };
        let Ok(connection) = Connection::new(&this.0, device, request.peer_reads) else {
            return;
        };
        if this.0.add(&connection) {
            let id = new.adopt(connection.clone());
            *connection.pending.lock() = Some(id);
            connection.work_later();
        }
    }

    fn event(_this: ArcBorrow<'_, Self>, _event: Event) {}
}

/// The data that a Receive buffer keeps beside its message: none.
#[derive(Default)]
struct NoState;

impl State for NoState {
    fn reset(&mut self) {}
}

/// The task of a piece of work, beside its message.
enum Task {
    Nothing,
    /// Exposes memory before the message is sent.
    Expose(Exposed),
    /// Takes memory back, and sends no message.
    Revoke(Exposed),
}

/// A message to send back.
struct Echo {
    buffer: SendBuffer,
    len: usize,
    task: Task,
}

impl Work for Echo {
    type State = ();

    fn build<'m>(&'m self, (): &mut (), chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        let message = Message {
            buffer: &self.buffer,
            len: self.len,
            rest: None::<(&PageRegion, Empty<Range<usize>>)>,
            invalidate: None,
        };
        let is_ready = match &self.task {
            Task::Nothing => true,
            Task::Expose(exposed) => exposed.expose(chain, room),
            Task::Revoke(exposed) => return Built::from(exposed.revoke(chain, room)),
        };
        Built::from(is_ready && chain.len() < room && chain.send(message))
    }

    fn map(&mut self, _pd: &Arc<Pd>) -> Result<bool> {
        Ok(false) // Send buffers and exposures are always mapped.
    }

    fn unmap(&mut self) {}

    fn awaits_completion(&self) -> bool {
        true // The buffer is one of few.
    }

    fn amount(&self) -> Amount {
        Amount {
            bytes: self.len as u32,
            filled: 0,
        }
    }
}

/// A connection: the context of its id and of its queue pair.
#[pin_data]
struct Connection {
    devices: Arc<Devices>,
    device: Arc<Device>,
    /// The connection's own: its peer reaches the memory of no other connection.
    pd: Arc<Pd>,
    /// RDMA Reads that the peer may have on the way.
    peer_reads: u8,
    #[pin]
    memory: SpinLock<Memory>,
    /// The id, until the peer is accepted.
    #[pin]
    pending: SpinLock<Option<CmId<Connection>>>,
    /// True once the connection closes. Set in any context.
    is_closing: AtomicFlag,
    /// Idle send buffers. Completion handlers must not sleep, so the buffers are made before.
    #[pin]
    idle: SpinLock<KVec<SendBuffer>>,
    #[pin]
    send_queue: SendQueue<Echo, Connection, Connection>,
    #[pin]
    work: workqueue::Work<Connection>,
}

impl_has_work! {
    impl HasWork<Self> for Connection { self.work }
}

impl WorkItem for Connection {
    type Pointer = Arc<Self>;

    /// Accepts the peer, or tears the connection down.
    fn run(this: Arc<Self>) {
        let pending = this.pending.lock().take();
        if let Some(id) = pending {
            if this.accept(id).is_err() {
                this.is_closing.store(true, Relaxed);
            }
        }
        if this.is_closing.load(Relaxed) {
            let id = this.send_queue.shut(drop);
            drop(id);
            // Here, as it sleeps. No peer reaches the memory any more.
            let memory = core::mem::take(&mut *this.memory.lock());
            drop(memory);
            this.devices.forget(&this);
        }
    }
}

impl Connection {
    fn new(devices: &Arc<Devices>, device: Arc<Device>, peer_reads: u8) -> Result<Arc<Self>> {
        let pd = Pd::for_connection(&device.ib)?;
        let memory = Memory {
            region: Some(PageRegion::for_exposure(&pd, PAGES)?),
            ..Memory::default()
        };
        let mut idle = KVec::with_capacity(RECEIVES as usize, GFP_KERNEL)?;
        for _ in 0..RECEIVES {
            idle.push(SendBuffer::new(&pd, Effort::Full)?, GFP_KERNEL)?;
        }
        let size = Size {
            depth: DEPTH,
            waiting: RECEIVES as usize,
        };
        let send_queue = SendQueue::new(&size, ())?;
        Arc::pin_init(
            pin_init!(Self {
                devices: devices.clone(),
                device,
                pd,
                peer_reads,
                memory <- new_spinlock!(memory),
                pending <- new_spinlock!(None),
                is_closing: AtomicFlag::new(false),
                idle <- new_spinlock!(idle),
                send_queue <- send_queue,
                work <- new_work!("rdma_echo connection"),
            }),
            GFP_KERNEL,
        )
    }

    /// Accepts the peer. May sleep; not in a handler of the id.
    fn accept(self: &Arc<Self>, id: CmId<Connection>) -> Result {
        let Device { ib, cqs, budget } = &*self.device;
        let (receive_cq, send_cq) = cqs.lock().clone().ok_or(ENODEV)?;
        let pd = &self.pd;
        let receives = ReceivePool::new(pd, RECEIVES as usize, budget.clone())?;
        let parts = Parts {
            pd,
            receives: &receives,
            // One entry more each, for the markers that drain the queues.
            receive_cq: receive_cq.reserve(RECEIVES + 1)?.ok_or(ENOSPC)?,
            send_cq: send_cq.reserve(DEPTH + 1)?.ok_or(ENOSPC)?,
            depth: DEPTH,
            chain: 1,
            max_sge: 1,
            max_read_sge: 1,
        };
        // An error drops the id, which rejects the peer.
        let qp = Qp::new(id, self.clone(), parts)?;
        let (_credits, made) = receives.resize(16, 0, None);
        made?;
        let reads = Reads {
            issued: 0,
            served: u8::try_from(ib.limits().max_qp_rd_atom)
                .unwrap_or(u8::MAX)
                .min(self.peer_reads),
        };
        let accepted = qp.id().accept(&[], reads);
        // Also after an error: the teardown destroys the queue pair.
        self.follow(self.send_queue.open(qp));
        accepted
    }

    /// Closes the connection if posting has failed.
    fn follow(self: &Arc<Self>, stop: Stop) {
        if let Stop::Failed(_) = stop {
            self.close();
        }
    }

    /// Sends the first `len` bytes of `buffer`, and does `task`.
    fn post(self: &Arc<Self>, buffer: SendBuffer, len: usize, task: Task) {
        let posted = self.send_queue.lock().post(Echo { buffer, len, task });
        match posted {
            Ok(stop) => self.follow(stop),
            Err(refused) => {
                // The teardown drops the exposure, as that sleeps.
                if let Task::Expose(exposed) | Task::Revoke(exposed) = refused.into_inner().task {
                    self.memory.lock().exposed = Some(exposed);
                }
                self.close();
            }
        }
    }

    /// Takes an idle buffer with a copy of `message`. Closes the connection if there is none: a peer
    /// that takes no answers uses up the buffers.
    fn answer(self: &Arc<Self>, message: &[u8]) -> Option<SendBuffer> {
        let taken = self.idle.lock().pop();
        let Some(mut buffer) = taken else {
            self.close();
            return None;
        };
        if let Some(out) = buffer.bytes_mut().get_mut(..message.len()) {
            out.copy_from_slice(message);
        }
        Some(buffer)
    }

    /// Exposes memory, and answers with its key, address and length. The command in `buffer` is the
    /// answer if that is not possible.
    fn expose(self: &Arc<Self>, mut buffer: SendBuffer, len: usize, access: u8, bytes: usize) {
        let region = self.memory.lock().region.take();
        let Some(region) = region else {
            return self.post(buffer, len, Task::Nothing);
        };
        match Exposed::new(&self.pd, region, access, bytes) {
            Ok(exposed) => {
                let Some(segment) = exposed.segment() else {
                    return self.close();
                };
                self.memory.lock().key = Some(segment.key);
                let mut at = 0;
                let mut put = |bytes: &[u8]| {
                    if let Some(out) = buffer.bytes_mut().get_mut(at..at + bytes.len()) {
                        out.copy_from_slice(bytes);
                    }
                    at += bytes.len();
                };
                put(b"exposed");
                put(&segment.key.to_be_bytes());
                put(&segment.addr.to_be_bytes());
                put(&segment.len.to_be_bytes());
                self.post(buffer, at, Task::Expose(exposed));
            }
            Err(unexposed) => {
                self.memory.lock().region = Some(unexposed.region);
                self.post(buffer, len, Task::Nothing);
            }
        }
    }

    /// Takes the exposed memory back. The command in `buffer` is the answer if none is exposed.
    fn revoke(self: &Arc<Self>, buffer: SendBuffer, len: usize) {
        let mut memory = self.memory.lock();
        let exposed = memory.exposed.take();
        // The peer may use the memory before the work that exposes it has completed here.
        memory.is_ending |= exposed.is_none() && memory.key.is_some();
        let is_later = memory.is_ending;
        drop(memory);
        match exposed {
            Some(exposed) => self.post(buffer, len, Task::Revoke(exposed)),
            None if is_later => self.put_back(buffer),
            None => self.post(buffer, len, Task::Nothing),
        }
    }

    /// Follows completed work.
    fn finish(self: &Arc<Self>, echo: Echo) {
        let Echo {
            mut buffer, task, ..
        } = echo;
        match task {
            Task::Nothing => self.put_back(buffer),
            Task::Expose(exposed) => {
                let mut memory = self.memory.lock();
                let is_ending = core::mem::take(&mut memory.is_ending);
                memory.exposed = Some(exposed);
                drop(memory);
                if is_ending {
                    return self.revoke(buffer, 0);
                }
                self.put_back(buffer);
            }
            Task::Revoke(exposed) => {
                let bytes = exposed.len();
                match exposed.into_region() {
                    Ok(mut region) => {
                        let out = buffer.bytes_mut();
                        let most = out.len();
                        let out = out.get_mut(..bytes.min(most)).unwrap_or_default();
                        let len = region.stream_mut().read(0, out);
                        let mut memory = self.memory.lock();
                        memory.region = Some(region);
                        memory.key = None;
                        memory.is_ending = false;
                        drop(memory);
                        self.post(buffer, len, Task::Nothing);
                    }
                    Err(exposed) => {
                        self.memory.lock().exposed = Some(exposed);
                        self.close();
                    }
                }
            }
        }
    }

    fn put_back(&self, buffer: SendBuffer) {
        // The capacity is that of all buffers.
        let _ = self.idle.lock().push_within_capacity(buffer);
    }

    /// Queues the teardown. In any process context.
    fn close(self: &Arc<Self>) {
        self.is_closing.store(true, Relaxed);
        self.work_later();
    }

    fn work_later(self: &Arc<Self>) {
        // An error means that the work is queued already.
        let _ = self.devices.queue.enqueue(self.clone());
    }
}

impl Events for Connection {
    fn event(this: ArcBorrow<'_, Self>, _event: Event) {
        // The id must not be dropped here: its lock is held.
        Arc::from(this).close();
    }
}

impl Handler for Connection {
    type Call = NoState;

    fn received(this: ArcBorrow<'_, Self>, receive: Receive<NoState>) {
        let this = Arc::from(this);
        let message = receive.message();
        let Some(buffer) = this.answer(message) else {
            return;
        };
        let len = message.len();
        let command = Command::of(message);
        // The buffer is posted again before the peer hears of it.
        drop(receive);
        match command {
            Some(Command::Expose { access, len: bytes }) => this.expose(buffer, len, access, bytes),
            Some(Command::Revoke) => this.revoke(buffer, len),
            None => this.post(buffer, len, Task::Nothing),
        }
    }

    fn invalidated(this: ArcBorrow<'_, Self>, receive: Receive<NoState>, key: u32) {
        let this = Arc::from(this);
        drop(receive);
        if this.memory.lock().key != Some(key) {
            return this.close();
        }
        if let Some(buffer) = this.answer(&[]) {
            this.revoke(buffer, 0);
        }
    }

    fn unfit(this: ArcBorrow<'_, Self>, _what: Unfit) {
        Arc::from(this).close();
    }

    fn receive_failed(this: ArcBorrow<'_, Self>, _status: Status) {
        Arc::from(this).close();
    }

    fn sent(this: ArcBorrow<'_, Self>, completion: &Completion) {
        let this = Arc::from(this);
        if !completion.status().is_success() {
            return this.close();
        }
        while !completion.is_spent() {
            let mut sq = this.send_queue.lock();
            let echo = sq.complete(completion);
            let stop = sq.resume();
            drop(sq);
            this.follow(stop);
            if let Some(echo) = echo {
                this.finish(echo);
            }
        }
    }

    fn failed(this: ArcBorrow<'_, Self>) {
        // No locks here. A ULP with a timer looks at the flag.
        this.is_closing.store(true, Relaxed);
    }
}

/// The last reference to the devices: waits for the work that tears connections down.
struct Flush(Arc<Devices>);

impl Drop for Flush {
    fn drop(&mut self) {
        self.0.queue.flush();
    }
}

/// The module. The fields are dropped in this order: no peer connects any more, then all connections
/// end, then their work has ended.
#[pin_data]
struct Module {
    listening: CmId<Listener>,
    #[pin]
    client: Registration<Devices>,
    flush: Flush,
}

impl kernel::InPlaceModule for Module {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(move || {
            let queue = OwnedQueue::new()?;
            let devices = Arc::pin_init(
                pin_init!(Devices {
                    list <- new_mutex!(KVec::new()),
                    connections <- new_mutex!(KVec::new()),
                    queue,
                }),
                GFP_KERNEL,
            )?;
            let addr = Addr::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT));
            let listener = Arc::new(Listener(devices.clone()), GFP_KERNEL)?;
            Ok(try_pin_init!(Self {
                flush: Flush(devices.clone()),
                client <- Registration::new(c"rdma_echo", devices),
                listening: CmId::listen(Net::initial(), &addr, listener)?,
            }? Error))
        })
    }
}

module! {
    type: Module,
    name: "rdma_echo",
    authors: ["The svcrdma developers"],
    description: "Sends messages back over RDMA",
    license: "GPL",
}

// SPDX-License-Identifier: GPL-2.0

//! Connections: the context of an id and of its queue pair.
//!
//! Handlers of completions only queue what has come. A work item, which never runs twice at a time for
//! a connection, accepts the peer, handles what is queued, and tears the connection down.

use crate::{
    devices::{Device, Devices},
    job::Job,
    module_parameters as parameters,
    state::{Outcome, State, BUFFERS},
    value,
};
use kernel::sync::{
    atomic::{AtomicFlag, Relaxed},
    Arc, ArcBorrow, Mutex, SpinLock,
};
use kernel::workqueue::{self, WorkItem};
use kernel::{impl_has_work, new_mutex, new_spinlock, new_work, prelude::*};
use rdma::{
    cm::{CmId, Event, Events, Reads},
    completion::{Completion, Status},
    device::Pd,
    handler::{Handler, Unfit},
    qp::{Parts, Qp},
    recv::{buffer, pool::ReceivePool, receive::Receive},
    send::queue::{SendQueue, Size, Stop},
};
use support::{page::PAGE_SIZE, RateLimit};

/// Work requests that a connection can have posted.
const DEPTH: u32 = 62;
/// The most Receive buffers: those that the credits need, and those that are on their way back.
const RECEIVES: u32 = 48;
/// Jobs that a connection can have at a time: its send buffers, and its regions.
pub(crate) const JOBS: usize = BUFFERS as usize + 16;

/// The data that a Receive buffer keeps beside its message: none.
#[derive(Default)]
pub(crate) struct NoState;

impl buffer::State for NoState {
    fn reset(&mut self) {}
}

/// A completed job or a message that waits for the work item.
enum Input {
    Done(Job),
    Message(Receive<NoState>),
}

/// A connection.
#[pin_data]
pub(crate) struct Connection {
    devices: Arc<Devices>,
    pub(crate) device: Arc<Device>,
    reads: Reads,
    /// The id, until the peer is accepted.
    #[pin]
    pending: SpinLock<Option<CmId<Connection>>>,
    /// True once the connection closes. Set in any context.
    is_closing: AtomicFlag,
    /// True if the time between two keep-alives has passed.
    has_ticked: AtomicFlag,
    #[pin]
    inputs: SpinLock<KVec<Input>>,
    #[pin]
    state: Mutex<Option<KBox<State>>>,
    /// True once the peer has negotiated.
    is_negotiated: AtomicFlag,
    #[pin]
    send_queue: SendQueue<Job, Connection, Connection>,
    #[pin]
    work: workqueue::Work<Connection>,
}

impl_has_work! {
    impl HasWork<Self> for Connection { self.work }
}

impl WorkItem for Connection {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let pending = this.pending.lock().take();
        if let Some(id) = pending {
            let peer = id.peer();
            let accepted = if this.is_closing.load(Relaxed) {
                Err(ENODEV)
            } else {
                this.accept(id)
            };
            if let Err(e) = accepted {
                if RateLimit::Refusals.allows() {
                    pr_warn!("{}: cannot accept: {:?}\n", peer, e);
                }
                this.is_closing.store(true, Relaxed);
            }
        }
        if !this.is_closing.load(Relaxed) {
            if let Err(reason) = this.serve() {
                this.devices.host().closed.inc();
                if RateLimit::Closes.allows() {
                    pr_info!("{}: closing: {}\n", this.device.ib.name(), reason);
                }
                this.is_closing.store(true, Relaxed);
            }
        }
        if this.is_closing.load(Relaxed) {
            drop(this.send_queue.shut(drop));
            // Outside of the locks, as the drop sleeps.
            let inputs = core::mem::take(&mut *this.inputs.lock());
            drop(inputs);
            let state = this.state.lock().take();
            drop(state);
            this.devices.forget(&this);
        }
    }
}

impl Connection {
    pub(crate) fn new(
        devices: &Arc<Devices>,
        device: Arc<Device>,
        reads: Reads,
    ) -> Result<Arc<Self>> {
        let (depth, waiting) = (DEPTH, JOBS);
        let send_queue = SendQueue::new(&Size { depth, waiting }, ())?;
        let inputs = KVec::with_capacity(JOBS + RECEIVES as usize, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                devices: devices.clone(),
                device,
                reads,
                pending <- new_spinlock!(None),
                is_closing: AtomicFlag::new(false),
                has_ticked: AtomicFlag::new(false),
                inputs <- new_spinlock!(inputs),
                state <- new_mutex!(None),
                is_negotiated: AtomicFlag::new(false),
                send_queue <- send_queue,
                work <- new_work!("rdma_bulk connection"),
            }),
            GFP_KERNEL,
        )
    }

    /// Begins to accept the peer of `id`.
    pub(crate) fn begin(self: &Arc<Self>, id: CmId<Connection>) {
        *self.pending.lock() = Some(id);
        self.work_later();
    }

    /// Accepts the peer. May sleep; not in a handler of the id.
    fn accept(self: &Arc<Self>, id: CmId<Connection>) -> Result {
        let pd = Pd::for_connection(&self.device.ib)?;
        let count = usize::from(value::<u8>(parameters::regions.value()).min(16));
        let kib = value::<u32>(parameters::region_kib.value()).clamp(4, 16 * 1024);
        let pages = kib as usize * 1024 / PAGE_SIZE;
        let limits = self.device.ib.limits();
        let served = limits.max_qp_rd_atom.min(self.reads.served.into()) as u8;
        let issued = limits.max_qp_init_rd_atom.min(self.reads.issued.into()) as u8;
        let state = State::new(pd.clone(), count, pages, issued > 0)?;
        *self.state.lock() = Some(KBox::new(state, GFP_KERNEL)?);
        let receives = ReceivePool::new(&pd, RECEIVES as usize, self.device.budget.clone())?;
        let (receive_cq, send_cq) = self.device.cqs()?;
        let parts = Parts {
            pd: &pd,
            receives: &receives,
            // One entry more each, for the markers that drain the queues.
            receive_cq: receive_cq.reserve(RECEIVES + 1)?.ok_or(ENOSPC)?,
            send_cq: send_cq.reserve(DEPTH + 1)?.ok_or(ENOSPC)?,
            depth: DEPTH,
            chain: 16,
            max_sge: limits.max_send_sge.min(16),
            max_read_sge: limits.max_sge_rd.min(16),
        };
        // An error drops the id, which rejects the peer.
        let qp = Qp::new(id, self.clone(), parts)?;
        let (_credits, made) = receives.resize(BUFFERS.into(), 0, None);
        made?;
        let accepted = qp.id().accept(&[], Reads { issued, served });
        // Also after an error: the teardown destroys the queue pair.
        self.follow(self.send_queue.open(qp));
        accepted
    }

    /// Handles what has come, and sends what can be sent.
    fn serve(&self) -> Outcome {
        let mut guard = self.state.lock();
        let Some(state) = guard.as_deref_mut() else {
            return Ok(());
        };
        if self.has_ticked.xchg(false, Relaxed) {
            state.session.tick().map_err(|broken| broken.reason())?;
        }
        if let Stop::Failed(_) = self.send_queue.lock().resume() {
            return Err("cannot post");
        }
        let host = self.devices.host();
        loop {
            let input = self.inputs.lock().remove(0);
            match input {
                Ok(Input::Done(job)) => state.done(job)?,
                Ok(Input::Message(receive)) => {
                    host.messages.inc();
                    state.receive(receive.message(), self)?;
                    self.is_negotiated.store(true, Relaxed);
                }
                Err(_) => return state.send(self),
            }
        }
    }

    /// Posts a job.
    pub(crate) fn post(&self, job: Job) -> Outcome {
        let posted = self.send_queue.lock().post(job);
        match posted {
            Ok(Stop::Failed(_)) => Err("cannot post"),
            Ok(_) => Ok(()),
            Err(_) => Err("too many requests"),
        }
    }

    /// Queues what has come for the work item.
    fn queue(self: Arc<Self>, input: Input) {
        if self.inputs.lock().push_within_capacity(input).is_err() {
            self.is_closing.store(true, Relaxed);
        }
        self.work_later();
    }

    /// Closes the connection if posting has failed.
    fn follow(self: &Arc<Self>, stop: Stop) {
        if let Stop::Failed(_) = stop {
            self.close();
        }
    }

    /// Queues the teardown. In any process context.
    pub(crate) fn close(self: &Arc<Self>) {
        self.is_closing.store(true, Relaxed);
        self.work_later();
    }

    pub(crate) fn is_negotiated(&self) -> bool {
        self.is_negotiated.load(Relaxed)
    }

    /// Notes that the time between two keep-alives has passed.
    pub(crate) fn tick(self: &Arc<Self>) {
        self.has_ticked.store(true, Relaxed);
        self.work_later();
    }

    /// Returns true if the work item has to look at the connection although nothing has come: it
    /// closes, or its jobs wait for memory that can be mapped.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_closing.load(Relaxed) || self.send_queue.has_waiting()
    }

    pub(crate) fn work_later(self: &Arc<Self>) {
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
        Arc::from(this).queue(Input::Message(receive));
    }

    fn invalidated(this: ArcBorrow<'_, Self>, receive: Receive<NoState>, _key: u32) {
        // The peer withdraws the offer with another message.
        Self::received(this, receive);
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
            let job = sq.complete(completion);
            let stop = sq.resume();
            drop(sq);
            this.follow(stop);
            if let Some(job) = job {
                this.clone().queue(Input::Done(job));
            }
        }
    }

    fn failed(this: ArcBorrow<'_, Self>) {
        // No locks here. The next tick looks at the flag.
        this.is_closing.store(true, Relaxed);
    }
}

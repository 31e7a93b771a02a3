// SPDX-License-Identifier: GPL-2.0

//! Connections: the context of an id and of its queue pair.
//!
//! Its [handlers](crate::service::handlers) only queue inputs. A work item, which never runs twice
//! at a time for a connection, accepts the peer, calls its session, and tears the connection down.

use crate::{
    cm::{
        CmId,
        Reads,
        Request, //
    },
    cq::Health,
    device::{
        Limits,
        Pd, //
    },
    qp::{
        Parts,
        Qp, //
    },
    recv::{
        pool::ReceivePool,
        receive::Receive, //
    },
    send::queue::{
        SendQueue,
        Size,
        Stop, //
    },
    service::{
        devices::{
            Device,
            Devices, //
        },
        job::Job,
        peer::Peer,
        service::{
            Capacity,
            Outcome,
            Service,
            Session, //
        },
    },
};
use kernel::{
    impl_has_work, new_mutex, new_spinlock, new_work,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        Mutex,
        SpinLock, //
    },
    workqueue::{
        self,
        WorkItem, //
    },
};
use svcrdma_proto::receives::needed;

/// Work requests that a connection can have posted.
const DEPTH: u32 = 62;

/// Work requests that are posted at a time, and scatter/gather entries of each, at most.
const CHAIN: usize = 16;

/// Seconds after which a job that the device has not done ends the connection.
const PATIENCE: u32 = 60;

/// The tag of the sessions of a service.
pub(super) type TagOf<S> = <<S as Service>::Session as Session>::Tag;

/// An input of the work item: a message that has arrived, or a job that the device has done.
pub(super) enum Input<T> {
    Message(Receive<()>),
    /// The message of a Send With Invalidate, and its key.
    Invalidation(Receive<()>, u32),
    Done(Job<T>),
}

/// The state of an accepted connection.
struct State<S: Service> {
    session: S::Session,
    peer: Peer<TagOf<S>>,
    /// The inputs of this run of the work item. Empty between runs, with the capacity of
    /// `Connection::inputs`.
    inputs: KVec<Input<TagOf<S>>>,
    /// The health of its completion queues.
    queues: [Arc<Health>; 2],
}

/// A connection.
#[pin_data]
pub(super) struct Connection<S: Service> {
    devices: Arc<Devices<S>>,
    pub(super) device: Arc<Device>,
    capacity: Capacity,
    reads: Reads,
    /// The id, until the peer is accepted.
    #[pin]
    pending: SpinLock<Option<CmId<Connection<S>>>>,
    /// True once the connection closes. Set in any context.
    pub(super) is_closing: AtomicFlag,
    /// True if a second has passed since the last tick.
    has_ticked: AtomicFlag,
    /// The capacity is that of all Receive buffers and jobs.
    #[pin]
    inputs: SpinLock<KVec<Input<TagOf<S>>>>,
    #[pin]
    state: Mutex<Option<KBox<State<S>>>>,
    #[pin]
    pub(super) send_queue: SendQueue<Job<TagOf<S>>, Connection<S>, Connection<S>>,
    #[pin]
    work: workqueue::Work<Connection<S>>,
}

impl_has_work! {
    impl{S: Service} HasWork<Self> for Connection<S> { self.work }
}

impl<S: Service> WorkItem for Connection<S> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.accept_pending();
        if !this.is_closing.load(Relaxed) {
            this.serve();
        }
        if this.is_closing.load(Relaxed) {
            this.tear_down();
        }
    }
}

impl<S: Service> Connection<S> {
    /// Makes the connection of a connect request. May sleep.
    pub(super) fn new(
        devices: &Arc<Devices<S>>,
        device: Arc<Device>,
        request: &Request<'_>,
    ) -> Result<Arc<Self>> {
        let capacity = devices.service.capacity();
        let Limits {
            max_qp_init_rd_atom,
            max_qp_rd_atom,
            ..
        } = device.ib.limits();
        // CAST: At most the numbers of the request.
        let reads = Reads {
            issued: max_qp_init_rd_atom.min(request.reads.into()) as u8,
            served: max_qp_rd_atom.min(request.peer_reads.into()) as u8,
        };
        let (depth, waiting) = (DEPTH, usize::from(capacity.jobs));
        let send_queue = SendQueue::new(&Size { depth, waiting }, ())?;
        let inputs = KVec::with_capacity(inputs_of(&capacity), GFP_KERNEL)?;
        let this = pin_init!(Self {
            devices: devices.clone(),
            device,
            capacity,
            reads,
            pending <- new_spinlock!(None, "rdma service id"),
            is_closing: AtomicFlag::new(false),
            has_ticked: AtomicFlag::new(false),
            inputs <- new_spinlock!(inputs, "rdma service inputs"),
            state <- new_mutex!(None, "rdma service state"),
            send_queue <- send_queue,
            work <- new_work!("rdma service connection"),
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// Begins to accept the peer of `id`.
    pub(super) fn begin(self: &Arc<Self>, id: CmId<Connection<S>>) {
        *self.pending.lock() = Some(id);
        self.work_later();
    }

    /// Accepts the peer, if it waits.
    fn accept_pending(self: &Arc<Self>) {
        let pending = self.pending.lock().take();
        let Some(id) = pending else { return };
        let peer = id.peer();
        let accepted = if self.is_closing.load(Relaxed) {
            Err(ENODEV)
        } else {
            self.accept(id)
        };
        match accepted {
            Ok(()) => self.devices.service.accepted(&peer),
            Err(error) => {
                self.devices.service.rejected(&peer, error);
                self.is_closing.store(true, Relaxed);
            }
        }
    }

    /// Makes the session and the queue pair, and accepts the peer. May sleep; not in a handler of the id.
    fn accept(self: &Arc<Self>, id: CmId<Connection<S>>) -> Result {
        let Capacity { messages, jobs, .. } = self.capacity;
        let pd = Pd::for_connection(&self.device.ib)?;
        let peer = Peer::new(pd.clone(), id.peer(), self.reads, jobs.into())?;
        let session = self.devices.service.accept(&peer)?;
        let most = receives_of(&self.capacity);
        let receives = ReceivePool::new(&pd, most as usize, self.device.budget.clone())?;
        let (receive_cq, send_cq) = self.device.cqs()?;
        // One entry more each, for the markers that drain the queues.
        let receive_cq = receive_cq.reserve(most.saturating_add(1))?.ok_or(ENOSPC)?;
        let send_cq = send_cq.reserve(DEPTH + 1)?.ok_or(ENOSPC)?;
        let state = State {
            session,
            peer,
            inputs: KVec::with_capacity(inputs_of(&self.capacity), GFP_KERNEL)?,
            queues: [receive_cq.health(), send_cq.health()],
        };
        *self.state.lock() = Some(KBox::new(state, GFP_KERNEL)?);
        let limits = self.device.ib.limits();
        let parts = Parts {
            pd: &pd,
            receives: &receives,
            receive_cq,
            send_cq,
            depth: DEPTH,
            chain: CHAIN,
            max_sge: limits.max_send_sge.min(CHAIN as u32),
            max_read_sge: limits.max_sge_rd.min(CHAIN as u32),
        };
        // An error drops the id, which rejects the peer.
        let qp = Qp::new(id, self.clone(), parts)?;
        let (_credits, made) = receives.resize(messages.into(), 0, None);
        made?;
        let accepted = qp.id().accept(&[], self.reads);
        // Also after an error: the teardown destroys the queue pair.
        self.follow(self.send_queue.open(qp));
        accepted
    }

    /// Handles the inputs. Closes the connection if its session returns a reason.
    fn serve(&self) {
        let mut guard = self.state.lock();
        let Some(state) = guard.as_deref_mut() else {
            return;
        };
        if let Err(reason) = self.serve_all(state) {
            self.devices.service.closed(state.peer.address(), reason);
            self.is_closing.store(true, Relaxed);
        }
    }

    /// Handles the inputs. Later inputs queue the work item again, so that no peer keeps it.
    /// Returns the reason if the connection is to be closed.
    fn serve_all(&self, state: &mut State<S>) -> Outcome {
        if self.has_ticked.xchg(false, Relaxed) {
            self.serve_tick(state)?;
        }
        let State {
            session,
            peer,
            inputs,
            ..
        } = state;
        core::mem::swap(&mut *self.inputs.lock(), inputs);
        for input in inputs.drain_all() {
            if self.is_closing.load(Relaxed) {
                return Ok(());
            }
            match input {
                Input::Message(receive) => session.received(receive.message(), peer)?,
                Input::Invalidation(receive, key) => {
                    session.invalidated(receive.message(), key, peer)?
                }
                Input::Done(job) => {
                    peer.on_completed();
                    session.completed(job.complete()?, peer)?;
                }
            }
            // The buffer of the message is given back before the peer hears of it.
            self.post(peer)?;
        }
        session.settled(peer)?;
        self.post(peer)
    }

    /// Handles a tick.
    fn serve_tick(&self, state: &mut State<S>) -> Outcome {
        if state.queues.iter().any(|queue| queue.is_broken()) {
            return Err("a completion queue is broken");
        }
        let (age, stop) = {
            let mut queue = self.send_queue.lock();
            // Without a minimum rate. `resume` posts jobs that wait for memory that can be mapped.
            (queue.tick(1, 0), queue.resume())
        };
        match (age, stop) {
            (Err(_), _) | (_, Stop::Failed(_)) => return Err("cannot post"),
            (Ok(age), _) if age.oldest > PATIENCE => return Err("the peer is too slow"),
            _ => {}
        }
        state.session.tick(&mut state.peer)?;
        self.post(&mut state.peer)
    }

    /// Posts the jobs that the session has asked for.
    fn post(&self, peer: &mut Peer<TagOf<S>>) -> Outcome {
        for job in peer.take_jobs() {
            let posted = self.send_queue.lock().post(job);
            match posted {
                Ok(Stop::Failed(_)) | Err(_) => return Err("cannot post"),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Destroys the queue pair and the session. Sleeps.
    fn tear_down(self: &Arc<Self>) {
        drop(self.send_queue.shut(drop));
        // Without the locks, as the drops sleep.
        let inputs = core::mem::take(&mut *self.inputs.lock());
        drop(inputs);
        let state = self.state.lock().take();
        drop(state);
        self.devices.forget(self);
    }

    /// Queues an input for the work item.
    pub(super) fn queue(self: Arc<Self>, input: Input<TagOf<S>>) {
        let queued = self.inputs.lock().push_within_capacity(input);
        if queued.is_err() {
            self.is_closing.store(true, Relaxed);
        }
        self.work_later();
    }

    /// Closes the connection if posting has failed.
    pub(super) fn follow(self: &Arc<Self>, stop: Stop) {
        if let Stop::Failed(_) = stop {
            self.close();
        }
    }

    /// Queues the teardown. In any process context.
    pub(super) fn close(self: &Arc<Self>) {
        self.is_closing.store(true, Relaxed);
        self.work_later();
    }

    /// Notes that a second has passed.
    pub(super) fn tick(self: &Arc<Self>) {
        self.has_ticked.store(true, Relaxed);
        self.work_later();
    }

    fn work_later(self: &Arc<Self>) {
        // An error means that the work is queued already.
        let _ = self.devices.queue.enqueue(self.clone());
    }
}

/// Returns the number of Receive buffers of a connection.
fn receives_of(capacity: &Capacity) -> u32 {
    needed(capacity.messages.into(), 0)
}

/// Returns the largest number of inputs: messages in all Receive buffers, and all jobs.
fn inputs_of(capacity: &Capacity) -> usize {
    usize::from(capacity.jobs).saturating_add(receives_of(capacity) as usize)
}

// SPDX-License-Identifier: GPL-2.0

//! Endpoints: the hardware half of a connection.
//!
//! A thread that adds [`Work`], or that makes room in the send queue, posts all that can be posted.
//! No thread sleeps for room.
//!
//! # Context
//!
//! Any process context, completions included; functions that may sleep say so.

use super::{
    answers::Answers,
    call::Call,
    callbacks::Callbacks,
    connection::Connection,
    published::Published,
    quota::{
        self,
        Quota, //
    },
    receives::Receives,
    sender::{
        CreditState,
        Sender, //
    },
    space::Space,
    work::Work, //
};
use crate::svc::{
    close_reason::{
        CloseReason,
        Queue, //
    },
    device::{
        lane::Lane,
        pages::Place, //
    },
    settings::{
        self,
        ReplyPages, //
    },
};
use kernel::{
    impl_has_work, new_spinlock, new_work,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
    workqueue::{
        self,
        WorkItem, //
    },
};
use rdma::{
    cq::Health,
    qp::Qp,
    send::{
        progress,
        queue::{
            self as send_queue,
            SendQueue,
            Size,
            Stop, //
        },
    },
};
use sunrpc::callback::SLOTS;
use support::{
    figure::Figure,
    page::PAGE_SIZE,
    ring::Refused, //
};
use svcrdma_proto::cm::Thresholds;

/// The parameters of a new endpoint.
pub(crate) struct Parts {
    /// The lane.
    pub(crate) lane: Arc<Lane>,
    /// Work requests that can be posted at a time.
    pub(crate) depth: u32,
    /// The negotiated inline thresholds.
    pub(crate) thresholds: Thresholds,
    /// The most pages that nfsd takes with a Call; 0 if the peer serves no RDMA Reads.
    pub(crate) max_pages: u32,
    /// True if all inline results are copied, because the device takes too few entries in a Send.
    pub(crate) copies: bool,
    /// The Receive buffers.
    pub(crate) receives: Arc<Receives>,
    /// The health of the completion queues for Receives and for other work.
    pub(crate) queues: [Arc<Health>; 2],
}

/// The locked send queue of an endpoint.
pub(crate) type SendGuard<'a> = send_queue::SendGuard<'a, Work, Endpoint, Connection>;

/// The hardware half of a connection.
///
/// The queue pair, the connection's phase and nfsd's handle share it.
#[pin_data]
pub(crate) struct Endpoint {
    /// The connection whose half this is.
    pub(crate) connection: Arc<Connection>,
    /// The lane of the connection.
    pub(crate) lane: Arc<Lane>,
    /// The negotiated inline thresholds.
    pub(crate) thresholds: Thresholds,
    /// The most pages that nfsd takes with a Call; 0 if the peer serves no RDMA Reads.
    pub(crate) max_pages: u32,
    /// True if all inline results are copied, because the device takes too few entries in a Send.
    pub(crate) copies: bool,
    /// The Receive buffers.
    pub(crate) receives: Arc<Receives>,
    /// The health of the completion queues.
    pub(super) queues: [Arc<Health>; 2],
    /// True if the device has reported an error of the queue pair. Set in any context; the watchdog
    /// reads it, and sets it at its first look after `flushed` was set.
    pub(crate) failed: AtomicFlag,
    /// True if the device has flushed work. The event that says why may be late, or never come.
    pub(crate) flushed: AtomicFlag,
    /// True if nfsd has dropped a Call that must be answered.
    pub(super) dropped: AtomicFlag,
    /// True if work waits because its memory cannot be mapped.
    pub(super) is_unmapped: AtomicFlag,
    /// The number of times in a row that mapping has failed. The work item counts them.
    pub(super) mapping_tries: Figure<u32>,
    /// The callbacks to the client.
    #[pin]
    pub(crate) callbacks: Callbacks,
    /// The numbers that threads read without the lock of the send queue.
    pub(crate) published: Arc<Published>,
    /// The error Replies.
    #[pin]
    pub(crate) answers: Answers,
    /// The most credits that the Receive queue has room for.
    max_credits: u32,
    /// The pages of Calls that nfsd has not taken.
    #[pin]
    pub(crate) quota: Quota,
    /// The place in the lines of those that wait for pages.
    pub(crate) place: Place,
    /// The progress of the RDMA Reads.
    #[pin]
    pub(super) reads: SpinLock<quota::Progress>,
    /// The posted and the waiting work, and the sender of the connection.
    #[pin]
    pub(crate) send_queue: SendQueue<Work, Endpoint, Connection>,
    /// The work that changes the number of Receive buffers.
    #[pin]
    work: workqueue::Work<Endpoint>,
}

impl_has_work! {
    impl HasWork<Self> for Endpoint { self.work }
}

impl WorkItem for Endpoint {
    type Pointer = Arc<Endpoint>;

    /// Maps the memory that work waits for. Otherwise makes the Receive buffers that the credits ask
    /// for; after a tick of the watchdog, also frees buffers that are not needed. May sleep.
    fn run(this: Arc<Endpoint>) {
        if this.is_unmapped.load(Relaxed) {
            this.map_again();
        } else if this.receives.is_due() {
            this.resize(Sender::look);
            this.receives.pool().trim();
        } else {
            this.resize(Sender::wanted);
        }
    }
}

impl Endpoint {
    /// Creates an endpoint that does not post yet. May sleep.
    pub(crate) fn new(connection: Arc<Connection>, parts: Parts) -> Result<Arc<Self>> {
        let Parts {
            lane,
            depth,
            thresholds,
            max_pages,
            copies,
            receives,
            queues,
        } = parts;
        // A Call waits in the queue either as a Read or as a Reply, so there is room for all Calls
        // and callbacks.
        let calls = connection.max_calls as usize;
        let waiting = calls.saturating_add(SLOTS as usize);
        let quota = Quota::new(calls)?;
        let answers = Answers::new(&lane.pd()?, calls)?;
        let space = Space::new(Arc::clone(&connection.host));
        let (sender, published) =
            Sender::new(connection.max_credits, space, connection.counters.clone())?;
        let send_queue = SendQueue::new(&Size { depth, waiting }, sender)?;
        let max_credits = receives.most_credits();
        Arc::pin_init(
            try_pin_init!(Self {
                // In place, to keep the frame small.
                place: Place::new(
                    connection.device.clone(),
                    connection.number(),
                    connection.host_number(),
                )?,
                connection,
                lane,
                thresholds,
                max_pages,
                copies,
                receives,
                queues,
                failed: AtomicFlag::new(false),
                flushed: AtomicFlag::new(false),
                dropped: AtomicFlag::new(false),
                is_unmapped: AtomicFlag::new(false),
                mapping_tries: Figure::default(),
                callbacks <- Callbacks::new(),
                published,
                answers <- answers,
                max_credits,
                quota <- quota,
                reads <- new_spinlock!(quota::Progress::default(), "svcrdma reads"),
                send_queue <- send_queue,
                work <- new_work!("svcrdma receives work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Opens the send queue and posts the waiting work.
    pub(crate) fn open(&self, qp: Qp<Endpoint, Connection>) {
        self.follow(self.send_queue.open(qp));
    }

    /// Queues `work`, which is no Reply, and posts what can be posted.
    ///
    /// # Errors
    ///
    /// Returns the work if the connection is closing.
    pub(crate) fn post(&self, work: Work) -> Result<(), Work> {
        let posted = self.send_queue.lock().post(work);
        self.follow_posted(posted)
    }

    /// Counts that work waits for room, and closes the connection after an error.
    ///
    /// # Errors
    ///
    /// Returns the work if the connection is closing.
    #[inline]
    pub(crate) fn follow_posted(&self, posted: Result<Stop, Refused<Work>>) -> Result<(), Work> {
        match posted {
            Ok(stop) => {
                self.follow(stop);
                Ok(())
            }
            Err(refused) => Err(self.connection.take_back(refused, Queue::Work)),
        }
    }

    /// Counts that work waits for room. Closes the connection after an error.
    #[inline]
    pub(crate) fn follow(&self, stop: Stop) {
        match stop {
            Stop::Idle => {}
            Stop::Full => self.connection.counters.send_queue_waits.inc(),
            Stop::Unmapped => self.map_later(),
            Stop::Failed(e) => self.connection.close(CloseReason::Post(e.to_errno())),
        }
    }

    /// Returns true if nfsd may take another Call, see [`Space::allows_call`].
    pub(crate) fn has_space(&self, running: impl Fn() -> i32) -> bool {
        let waits = &self.connection.counters.reply_waits;
        self.published
            .space
            .allows_call(ReplyPages::now(), running, || waits.inc())
    }

    /// Ends a Call that gets no Reply.
    pub(crate) fn end_call(&self, call: &mut Call) {
        if core::mem::replace(&mut call.has_credit, false) {
            self.send_queue.lock().state().on_end();
        }
    }

    /// Returns the most credits that the client may have, regardless of the Receive buffers.
    #[inline]
    pub(crate) fn most_credits(&self) -> u32 {
        let most = settings::CREDITS.get().min(self.max_credits);
        most.min(self.connection.most_credits())
    }

    /// Returns the present credits.
    pub(crate) fn credit_state(&self) -> CreditState {
        self.send_queue.lock().state().credit_state()
    }

    /// Queues the work that makes more buffers. In any context.
    pub(crate) fn grow_later(self: &Arc<Self>) {
        // An error means that the work is queued already.
        let _ = self.connection.device.queue.enqueue(self.clone());
    }

    /// Makes buffers for replies to callbacks, because nfsd has bound a backchannel. May sleep.
    pub(crate) fn bind(&self) {
        self.receives.bind();
        self.resize(Sender::backed);
    }

    /// Changes the number of Receive buffers to what `wanted` credits need. Surplus buffers are
    /// freed later. May sleep.
    // Out of line, to keep the frame out of the watchdog's tick.
    #[inline(never)]
    fn resize(&self, wanted: impl FnOnce(&mut Sender) -> u32) {
        let resizing = self.receives.lock();
        let callbacks = resizing.callbacks(self.credit_state().backed);
        let wanted = wanted(self.send_queue.lock().state());
        let backed = resizing.resize(wanted, callbacks);
        self.send_queue.lock().state().set_backed(backed);
    }

    /// Notes that a Reply to the client is queued. The callbacks that were queued before it have
    /// used Receives of the client, which the Reply lets the client post again.
    #[inline]
    pub(crate) fn on_replied(&self) {
        if self.callbacks.on_reply() {
            self.resume_callbacks();
        }
    }

    /// Makes sunrpc send the callback that waits for a credit, if there is one.
    pub(crate) fn resume_callbacks(&self) {
        self.callbacks.resume(|| self.connection.channel());
    }

    /// Returns the most pages that the connection may have for Read chunks.
    pub(crate) fn share(&self) -> usize {
        if self.may_read() {
            self.connection.device.pool.share(self.connection.class())
        } else {
            0
        }
    }

    /// Returns true if the Read chunks of more than one Call may be read, see [`Space::may_read`].
    #[inline]
    pub(crate) fn may_read(&self) -> bool {
        self.published.space.may_read(ReplyPages::now())
    }

    /// Counts a message that matches no waiting callback.
    pub(crate) fn ignore(&self) {
        self.connection.counters.ignored.inc();
        self.count_unasked();
    }

    /// Counts a message that costs no credit and matches no waiting callback. Closes the connection
    /// after too many of them.
    pub(crate) fn count_unasked(&self) {
        let counted = self.send_queue.lock().state().on_unasked();
        if counted.is_err() {
            self.connection.close(CloseReason::Unasked);
        }
    }

    /// Returns the amount of unfinished work.
    pub(crate) fn load(&self) -> Load {
        Load {
            send_queue: self.send_queue.lock().load(),
            reading_kib: self.quota.used().saturating_mul(PAGE_SIZE / 1024),
            reply_kib: self.published.space.held().saturating_mul(PAGE_SIZE / 1024),
        }
    }

    /// Records that nfsd has dropped a Call that must be answered. The next tick closes the
    /// connection, and the client sends the Call again over a new one. An immediate close would be
    /// too early: the client reconnects at once, and nfsd drops the repeated Call as well while it
    /// still works on the first one.
    pub(crate) fn note_dropped(&self) {
        self.dropped.store(true, Relaxed);
    }
}

/// The unfinished work of an endpoint, for debugfs.
pub(crate) struct Load {
    /// The posted and the waiting work.
    pub(crate) send_queue: progress::Load,
    /// KiB of pages of Calls that nfsd has not taken.
    pub(crate) reading_kib: usize,
    /// KiB of pages that Replies hold.
    pub(crate) reply_kib: usize,
}

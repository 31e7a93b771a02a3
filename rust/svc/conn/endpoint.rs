// SPDX-License-Identifier: GPL-2.0

//! Endpoints: the hardware half of a connection.
//!
//! Whoever adds [`Work`] or makes room for it posts what can be posted, nfsd threads and
//! completions alike; nobody ever sleeps for room.

use super::{
    call::Call,
    callbacks::Callbacks,
    connection::Connection,
    quota::Quota,
    receives::Receives,
    space::Space,
    work::Work, //
};
use crate::svc::{
    close_reason::{
        CloseReason,
        Queue, //
    },
    lane::reply::Reply,
    settings::{
        self,
        ReplyPages, //
    },
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
};
use rdma::{
    cq::Health,
    progress,
    qp::Qp,
    send_queue::{
        SendQueue,
        Size,
        Step, //
    },
};
use sunrpc::callback::SLOTS;
use support::page::PAGE_SIZE;
use svcrdma_proto::cm::Thresholds;

/// What an endpoint is made of.
pub(crate) struct Parts {
    /// Work requests that can be posted at once.
    pub(crate) depth: u32,
    pub(crate) thresholds: Thresholds,
    /// The pages that nfsd takes with a Call.
    pub(crate) max_pages: u32,
    /// Whether all that goes inline is copied.
    pub(crate) copies: bool,
    pub(crate) receives: Arc<Receives>,
    /// Those of its completion queues.
    pub(crate) queues: [Arc<Health>; 2],
}

/// The hardware half of a connection.
#[pin_data]
pub(crate) struct Endpoint {
    pub(crate) connection: Arc<Connection>,
    pub(crate) thresholds: Thresholds,
    /// The pages that nfsd takes with a Call.
    pub(crate) max_pages: u32,
    /// Whether all that goes inline is copied.
    pub(crate) copies: bool,
    pub(crate) receives: Arc<Receives>,
    queues: [Arc<Health>; 2],
    /// Set by the device in any context; the watchdog looks at it.
    pub(crate) failed: AtomicFlag,
    /// Whether nfsd has dropped a Call that needs an answer.
    dropped: AtomicFlag,
    #[pin]
    pub(crate) callbacks: Callbacks,
    space: Space,
    #[pin]
    pub(crate) quota: SpinLock<Quota>,
    #[pin]
    pub(crate) send_queue: SendQueue<Work, Endpoint, Connection>,
}

impl Endpoint {
    /// Makes one that does not post yet. May sleep.
    pub(crate) fn new(connection: Arc<Connection>, parts: Parts) -> Result<Arc<Self>> {
        let Parts {
            depth,
            thresholds,
            max_pages,
            copies,
            receives,
            queues,
        } = parts;
        // Each Call is a Read or a reply, and never both at once.
        let calls = connection.max_calls as usize;
        let waiting = calls.saturating_add(SLOTS as usize);
        let quota = Quota::new(calls)?;
        let send_queue = SendQueue::new(&Size { depth, waiting })?;
        Arc::pin_init(
            pin_init!(Self {
                connection,
                thresholds,
                max_pages,
                copies,
                receives,
                queues,
                failed: AtomicFlag::new(false),
                dropped: AtomicFlag::new(false),
                callbacks <- Callbacks::new(),
                space: Space::new(),
                quota <- new_spinlock!(quota, "svcrdma quota"),
                send_queue <- send_queue,
            }),
            GFP_KERNEL,
        )
    }

    /// Opens the gate, and posts what waits.
    pub(crate) fn open(&self, qp: Qp<Endpoint, Connection>) {
        self.send_queue.open(qp);
        self.pump();
    }

    /// Adds work, and posts what can be posted; a reply comes with its Call, which is needed until
    /// all is posted. There is room for all Calls that count, and for callbacks.
    ///
    /// # Errors
    ///
    /// The work, as the connection closes. The caller that ends posting has it closed.
    pub(crate) fn submit(&self, work: Work, call: Option<Call>) -> Result<(), Work> {
        let pushed = self.send_queue.push(work, call);
        pushed.map_err(|refused| self.connection.take_back(refused, Queue::Work))?;
        self.pump();
        Ok(())
    }

    /// Posts from the front of the queue until it is empty or there is no room.
    pub(crate) fn pump(&self) {
        loop {
            match self.send_queue.step() {
                Step::Idle => return,
                Step::Full => {
                    self.connection.counters.send_queue_waits.inc();
                    return;
                }
                Step::Posted { count, read } => {
                    self.connection.counters.work_requests.add(count);
                    if read > 0 {
                        self.connection.counters.read_bytes.add(read);
                    }
                }
                Step::Failed(e) => {
                    self.connection.close(CloseReason::Post(e.to_errno()));
                    return;
                }
            }
        }
    }

    /// A reply is going to be queued: its pages count until [`Self::put_reply`].
    pub(crate) fn hold(&self, reply: &Reply) {
        self.space.take(&self.connection.lane.held, reply.pages());
    }

    /// Takes a reply back that was queued, or could not be.
    pub(crate) fn put_reply(&self, reply: KBox<Reply>) {
        let pages = reply.pages();
        self.connection.lane.pool.put_reply(reply);
        if self.space.put(&self.connection.lane.held, pages) {
            self.connection.inbox.wake();
        }
    }

    /// Returns true if nfsd may take another Call, see [`Space::is_there`].
    pub(crate) fn has_space(&self, running: impl Fn() -> i32) -> bool {
        let waits = &self.connection.counters.reply_waits;
        self.space.is_there(
            &self.connection.lane.held,
            ReplyPages::now(),
            running,
            || waits.inc(),
        )
    }

    /// A Call gets its Reply: returns the credits to grant with it.
    pub(crate) fn count_reply(&self) -> u32 {
        let (granted, asks_for_more) = self.connection.credits.on_reply(self.most_credits());
        if asks_for_more {
            self.receives.grow_later();
        }
        granted
    }

    /// Returns the most credits that the client may have, whatever there are buffers for.
    fn most_credits(&self) -> u32 {
        let most = settings::CREDITS.get().min(self.receives.most_credits());
        most.min(self.connection.most_credits())
    }

    /// Asks to read `pages` more pages, see [`Quota::take`].
    pub(crate) fn begin_read(&self, call: Call, pages: usize) -> Result<Option<Call>, Call> {
        self.quota.lock().take(call, pages, || self.share())
    }

    /// Gives back the `pages` pages of a Call that nfsd has taken, or never will. Returns true if the caller
    /// is to start the Calls that waited for them, with [`Self::next_read`].
    pub(crate) fn put_quota(&self, pages: usize) -> bool {
        self.quota.lock().put(pages)
    }

    /// Returns the next Call that may be read.
    pub(crate) fn next_read(&self) -> Option<Call> {
        self.quota.lock().next(|| self.share())
    }

    /// Takes a Call that waits for others of its connection to be read, and never will be.
    pub(crate) fn take_unread(&self) -> Option<Call> {
        self.quota.lock().give_up()
    }

    /// Notes that a Call of the client gets its Reply, behind what was queued before. In any process context.
    pub(crate) fn on_replied(&self) {
        if self.callbacks.on_reply() {
            self.resume_callbacks();
        }
    }

    /// Makes sunrpc send the Call to the client that waits for a credit, if there is one.
    pub(crate) fn resume_callbacks(&self) {
        self.callbacks.resume(|| self.connection.channel());
    }

    /// Pages that it may have for Read chunks.
    fn share(&self) -> usize {
        self.connection.lane.pool.share(self.connection.standing())
    }

    /// A message has come that nobody waits for.
    pub(crate) fn ignore(&self) {
        self.connection.counters.ignored.inc();
        self.connection.count_unasked();
    }

    /// How much it has to do.
    pub(crate) fn load(&self) -> Load {
        Load {
            send_queue: self.send_queue.load(),
            reading_kib: self.quota.lock().used().saturating_mul(PAGE_SIZE / 1024),
            reply_kib: self.space.held().saturating_mul(PAGE_SIZE / 1024),
        }
    }

    /// Seconds that a peer may be behind: it is not waited for as long if it keeps what others lack.
    fn patience(&self) -> u32 {
        let most = settings::STALL_SECONDS.get();
        match self.keeps_read_pages() || self.keeps_reply_pages() {
            true => most.min(settings::SHORTAGE_SECONDS.get()),
            false => most,
        }
    }

    /// Whether it has pages for Read chunks, and Calls wait for some.
    fn keeps_read_pages(&self) -> bool {
        let standing = self.connection.standing();
        self.quota.lock().used() > 0 && self.connection.lane.pool.is_short(standing)
    }

    /// Whether its replies have pages, and those of all have as many as they may.
    fn keeps_reply_pages(&self) -> bool {
        let limit = ReplyPages::now().device;
        self.connection.lane.held.left(limit) <= 0 && self.space.held() > 0
    }

    /// nfsd has dropped a Call, and the client would wait for its answer for ever: the next tick closes
    /// the connection, and over another one it sends the Call again. Not at once: it connects again
    /// immediately, and as long as nfsd is at the same Call that is dropped, too.
    pub(crate) fn note_dropped(&self) {
        self.dropped.store(true, Relaxed);
    }

    /// Looks for work that does not complete; `seconds` have passed since the last time. May sleep.
    // Out of line: its caller's frame is large.
    #[inline(never)]
    pub(crate) fn tick(&self, seconds: u32) {
        if self.failed.load(Relaxed) {
            self.connection.close(CloseReason::QueuePair);
            return;
        }
        if self.queues.iter().any(|queue| queue.is_broken()) {
            self.connection.close(CloseReason::CompletionQueue);
            return;
        }
        if self.dropped.load(Relaxed) {
            self.connection.close(CloseReason::Dropped);
            return;
        }
        self.callbacks.tick(seconds);
        self.resume_callbacks();
        self.receives.tick();
        match self.send_queue.tick(seconds, settings::MINIMUM_RATE.get()) {
            Ok(age) => self.judge(&age),
            Err(e) => self.connection.close(CloseReason::Post(e.to_errno())),
        }
    }

    /// Closes the connection if its peer is waited for too long.
    fn judge(&self, age: &progress::Age) {
        let patience = self.patience();
        match (age.behind > patience, age.oldest > patience) {
            (true, true) => self.connection.close(CloseReason::Stalled),
            (true, false) => self.connection.close(CloseReason::TooSlow),
            _ => {}
        }
    }
}

/// How much an endpoint has to do.
pub(crate) struct Load {
    /// Posted and waiting work.
    pub(crate) send_queue: progress::Load,
    /// KiB of memory of Calls that are read and that nfsd has not taken.
    pub(crate) reading_kib: usize,
    /// KiB of memory that replies hold.
    pub(crate) reply_kib: usize,
}

// SPDX-License-Identifier: GPL-2.0

//! Endpoints: the hardware half of a connection.
//!
//! Whoever adds [`Work`] or makes room for it posts what can be posted, nfsd threads and
//! completions alike; nobody ever sleeps for room.

use super::{
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
    flow::{
        backchannel::{
            self,
            Callbacks, //
        },
        read,
        receive::{
            self,
            Call,
            CallState, //
        },
        reply::Reply, //
    },
    settings,
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
        ArcBorrow,
        SpinLock, //
    },
};
use rdma::{
    cm::CmId,
    completion::{
        Completion,
        Status, //
    },
    cq::Health,
    handler::{
        Handler,
        Unfit, //
    },
    progress,
    qp::Qp,
    send_queue::{
        SendQueue,
        Size,
        Step, //
    },
};
use sunrpc::backchannel::SLOTS;
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
    failed: AtomicFlag,
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
    fn pump(&self) {
        loop {
            match self.send_queue.step() {
                Step::Idle => return,
                Step::Full => {
                    self.connection.counters.send_queue_waits.inc();
                    return;
                }
                Step::Posted(count) => self.connection.counters.work_requests.add(count),
                Step::Failed(e) => {
                    self.connection.close(CloseReason::Post(e.to_errno()));
                    return;
                }
            }
        }
    }

    /// Closes the gate, gives the queue pair back, then all work; returns the id. Sleeps.
    pub(crate) fn take_down(&self) -> Option<CmId<Connection>> {
        let id = self.send_queue.shut(|work| self.finish(work, false));
        while let Some(call) = self.take_unread() {
            receive::discard(&self.connection, call);
        }
        let device = &self.connection.device;
        if device.pool.forget(self.connection.number()) {
            device.want_refill();
        }
        id
    }

    fn take_unread(&self) -> Option<Call> {
        self.quota.lock().give_up()
    }

    /// Work is over: done, or it will never be.
    fn finish(&self, work: Work, done: bool) {
        match work {
            Work::Read(call) => read::finish(self, call, done),
            Work::Reply(reply) => {
                if reply.is_call() {
                    self.callbacks.end();
                }
                self.put_reply(reply);
            }
        }
    }

    /// A reply is going to be queued: its pages count until [`Self::put_reply`].
    pub(crate) fn hold(&self, reply: &Reply) {
        self.space.take(&self.connection.device.held, reply.pages());
    }

    /// Takes a reply back that was queued, or could not be.
    pub(crate) fn put_reply(&self, reply: KBox<Reply>) {
        let pages = reply.pages();
        self.connection.device.pool.put_reply(reply);
        if self.space.put(&self.connection.device.held, pages) {
            self.connection.inbox.wake();
        }
    }

    /// Returns true if nfsd may take another Call, see [`Space::is_there`].
    pub(crate) fn has_space(&self, running: impl Fn() -> i32) -> bool {
        let waits = &self.connection.counters.reply_waits;
        self.space
            .is_there(&self.connection.device.held, running, || waits.inc())
    }

    /// A Call gets its Reply: returns the credits to grant with it.
    pub(crate) fn count_reply(&self) -> u32 {
        let (granted, asks_for_more) = self.connection.count_reply(self.most_credits());
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

    /// nfsd has taken a Call of so many pages, or never will: starts what has waited for them.
    pub(crate) fn end_read(&self, pages: usize) {
        if !self.quota.lock().put(pages) {
            return;
        }
        while let Some(call) = self.next_read() {
            read::request(call);
        }
    }

    fn next_read(&self) -> Option<Call> {
        self.quota.lock().next(|| self.share())
    }

    /// Pages that it may have for Read chunks.
    fn share(&self) -> usize {
        self.connection
            .device
            .pool
            .share(self.connection.standing())
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
        self.quota.lock().used() > 0 && self.connection.device.pool.is_short(standing)
    }

    /// Whether its replies have pages, and those of all have as many as they may.
    fn keeps_reply_pages(&self) -> bool {
        self.connection.device.held.is_full() && self.space.held() > 0
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
        backchannel::tick(self, seconds);
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

impl Handler for Endpoint {
    type Call = CallState;

    fn received(this: ArcBorrow<'_, Self>, receive: Call) {
        receive::received(&this.into(), receive);
    }

    fn unfit(this: ArcBorrow<'_, Self>, what: Unfit) {
        this.connection.close(match what {
            Unfit::Immediate => CloseReason::NoMessage,
            Unfit::Invalidation => CloseReason::Invalidation,
        });
    }

    fn receive_failed(this: ArcBorrow<'_, Self>, status: Status) {
        if !status.is_flush() {
            this.connection.close(CloseReason::Receive(status.code()));
        }
    }

    fn sent(this: ArcBorrow<'_, Self>, completion: &Completion) {
        let status = completion.status();
        if !status.is_success() {
            // What else is posted is flushed; `take_down` gives it all back.
            if !status.is_flush() {
                this.connection.close(CloseReason::Send(status.code()));
            }
            return;
        }
        while let Some(work) = this.send_queue.retire(completion) {
            this.finish(work, true);
        }
        this.pump();
    }

    fn failed(this: ArcBorrow<'_, Self>) {
        this.failed.store(true, Relaxed);
    }
}

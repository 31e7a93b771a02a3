// SPDX-License-Identifier: GPL-2.0

//! Endpoints: the hardware half of a connection.
//!
//! Whoever adds [`Work`] or makes room for it posts what can be posted, nfsd threads and completions
//! alike; nobody ever sleeps for room. Closing the gate and posting exclude each other under the
//! lock, as draining a queue pair demands.

use super::{
    call::{
        self,
        Call,
        CallState, //
    },
    conn::{
        Cause,
        Shared, //
    },
    hardware::Hardware,
    read, stats,
    work::{
        Gate,
        Posting,
        Step,
        Work, //
    },
};
use crate::abstractions::rdma::{
    qp::{
        Handler,
        Qp,
        Status, //
    },
    receive::Receive, //
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
use svcrdma_proto::cm::Thresholds;

/// The hardware half of a connection.
#[pin_data]
pub(crate) struct Endpoint {
    pub(super) shared: Arc<Shared>,
    pub(super) thresholds: Thresholds,
    /// The pages that nfsd takes with a Call.
    pub(super) max_pages: u32,
    /// Set by the device in any context; the watchdog looks at it.
    failed: AtomicFlag,
    #[pin]
    inner: SpinLock<Posting>,
}

impl Endpoint {
    /// Makes one that does not post yet. May sleep.
    pub(super) fn new(
        shared: Arc<Shared>,
        hardware: &Hardware,
        thresholds: Thresholds,
        max_pages: u32,
    ) -> Result<Arc<Self>> {
        // Each Call is a Read or a reply, and never both at once.
        let calls = (shared.max_credits as usize).saturating_add(1);
        let inner = Posting::new(hardware, calls)?;
        Arc::pin_init(
            pin_init!(Self {
                shared,
                thresholds,
                max_pages,
                failed: AtomicFlag::new(false),
                inner <- new_spinlock!(inner, "svcrdma endpoint"),
            }),
            GFP_KERNEL,
        )
    }

    /// Opens the gate, and posts what waits.
    pub(super) fn open(&self, qp: Qp<Endpoint, Shared>) {
        self.inner.lock().gate = Gate::Open(qp);
        self.pump();
    }

    /// Adds work, and posts what can be posted. Gives the work back when the connection closes.
    pub(super) fn submit(&self, work: Work) -> Result<(), Work> {
        {
            let mut inner = self.inner.lock();
            if matches!(inner.gate, Gate::Broken(_) | Gate::Closed) {
                return Err(work);
            }
            inner.waiting.push(work)?;
        }
        self.pump();
        Ok(())
    }

    /// Posts from the front of the queue until it is empty or there is no room.
    fn pump(&self) {
        loop {
            let step = self.inner.lock().step();
            match step {
                Step::Nothing => return,
                Step::Piece => {}
                // Gives the Receive back, not under the lock.
                Step::Whole(call) => drop(call),
                Step::Failed(e, call) => {
                    drop(call);
                    self.shared.close(Cause::Post(e.to_errno()));
                    return;
                }
            }
        }
    }

    /// Closes the gate, gives queue pair and id back, then all work. Sleeps.
    pub(super) fn take_down(&self) {
        let gate = core::mem::replace(&mut self.inner.lock().gate, Gate::Closed);
        drop(gate);
        while let Some(call) = self.take_unread() {
            call::discard(&self.shared, call);
        }
        while let Some(work) = self.take_any() {
            self.finish(work, false);
        }
    }

    fn take_any(&self) -> Option<Work> {
        self.inner.lock().take_any()
    }

    fn take_unread(&self) -> Option<Call> {
        self.inner.lock().reads.pop()
    }

    /// Work is over: done, or it will never be.
    fn finish(&self, work: Work, done: bool) {
        match work {
            Work::Read(call) => {
                let pages = call.sink_pages();
                read::finish(self, call, done);
                self.end_read(pages);
            }
            Work::Reply(reply) => self.shared.device.pools.put_reply(reply),
        }
    }

    /// Asks to have `pages` more pages under RDMA Read. Gives the Call back if it may go on, keeps
    /// it until others have ended if these are too many, and refuses it if too many wait.
    pub(super) fn begin_read(&self, call: Call, pages: usize) -> Result<Option<Call>, Call> {
        let mut inner = self.inner.lock();
        // Not before those that wait already.
        if !inner.reads.is_empty() || !inner.may_read(pages) {
            return inner.reads.push(call).map(|()| None);
        }
        inner.reading = inner.reading.saturating_add(pages);
        Ok(Some(call))
    }

    /// So many pages are not under RDMA Read any more: starts what has waited for them.
    pub(super) fn end_read(&self, pages: usize) {
        {
            let mut inner = self.inner.lock();
            inner.reading = inner.reading.saturating_sub(pages);
            if core::mem::replace(&mut inner.starting, true) {
                return;
            }
        }
        while let Some(call) = self.next_read() {
            read::request(call);
        }
    }

    fn next_read(&self) -> Option<Call> {
        let mut inner = self.inner.lock();
        let call = inner.take_read();
        // Under the lock that found nothing more to start: whoever comes now starts by himself.
        inner.starting = call.is_some();
        call
    }

    /// Looks for work that does not complete; `seconds` have passed since the last time.
    pub(super) fn tick(&self, seconds: u32) {
        if self.failed.load(Relaxed) {
            self.shared.close(Cause::QueuePair);
            return;
        }
        let oldest = {
            let mut inner = self.inner.lock();
            inner.now = inner.now.wrapping_add(seconds);
            inner.oldest_age()
        };
        if oldest > stats::STALL_SECONDS.get() {
            self.shared.close(Cause::Stalled);
        }
    }
}

impl Handler for Endpoint {
    type Call = CallState;

    fn reset(call: &mut CallState) {
        call.reset();
    }

    fn received(this: ArcBorrow<'_, Self>, receive: Receive<Self>) {
        call::received(&this.into(), receive);
    }

    fn receive_failed(this: ArcBorrow<'_, Self>, status: Status) {
        if !status.is_flush() {
            this.shared.close(Cause::Receive(status.code()));
        }
    }

    fn sent(this: ArcBorrow<'_, Self>, slot: usize, status: Status) {
        if !status.is_success() {
            // What else is posted is flushed; `take_down` gives it all back.
            if !status.is_flush() {
                this.shared.close(Cause::Send(status.code()));
            }
            return;
        }
        loop {
            let retired = this.inner.lock().retire(slot);
            let Some((work, last)) = retired else {
                break;
            };
            this.finish(work, true);
            if last {
                break;
            }
        }
        this.pump();
    }

    fn failed(this: ArcBorrow<'_, Self>) {
        this.failed.store(true, Relaxed);
    }
}

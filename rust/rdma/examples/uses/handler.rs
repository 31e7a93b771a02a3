// SPDX-License-Identifier: GPL-2.0

use kernel::{
    prelude::*,
    sync::{
        atomic::{AtomicFlag, Relaxed},
        ArcBorrow, SpinLock,
    },
};
use rdma::{
    cm::{Event, Events},
    completion::{Completion, Status},
    handler::{Handler, Unfit},
    recv::receive::Receive,
    send::{
        queue::{SendQueue, Stop},
        work::Work,
    },
};

#[pin_data]
struct Connection<W: Work> {
    #[pin]
    inbox: SpinLock<KVec<Receive<()>>>, // Its capacity is that of the Receive pool.
    #[pin]
    done: SpinLock<KVec<W>>, // Its capacity is that of the send queue.
    #[pin]
    send_queue: SendQueue<W, Self, Self>,
    is_closing: AtomicFlag,
}

impl<W: Work> Connection<W> {
    /// Closes the connection: a thread that may sleep looks at the flag.
    fn close(&self) {
        self.is_closing.store(true, Relaxed);
    }
}

impl<W: Work> Events for Connection<W> {
    fn event(this: ArcBorrow<'_, Self>, _event: Event) {
        this.close();
    }
}

impl<W: Work> Handler for Connection<W> {
    type Call = ();

    fn received(this: ArcBorrow<'_, Self>, receive: Receive<()>) {
        let taken = this.inbox.lock().push_within_capacity(receive);
        if taken.is_err() {
            this.close();
        }
    }

    fn unfit(this: ArcBorrow<'_, Self>, _what: Unfit) {
        this.close();
    }

    fn receive_failed(this: ArcBorrow<'_, Self>, status: Status) {
        // Flushed Receives follow from an error that was reported before.
        if !status.is_flush() {
            this.close();
        }
    }

    fn sent(this: ArcBorrow<'_, Self>, completion: &Completion) {
        if !completion.status().is_success() {
            return this.close();
        }
        while !completion.is_spent() {
            let mut sq = this.send_queue.lock();
            let work = sq.complete(completion);
            let stop = sq.resume();
            drop(sq);
            if let Stop::Failed(_) = stop {
                this.close();
            }
            if let Some(work) = work {
                let taken = this.done.lock().push_within_capacity(work);
                if taken.is_err() {
                    this.close();
                }
            }
        }
    }

    fn failed(this: ArcBorrow<'_, Self>) {
        // Takes no lock.
        this.is_closing.store(true, Relaxed);
    }
}

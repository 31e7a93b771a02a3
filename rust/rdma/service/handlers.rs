// SPDX-License-Identifier: GPL-2.0

//! Handlers of a connection: they queue messages and completed jobs for its work item.

use crate::{
    cm::{
        Event,
        Events, //
    },
    completion::{
        Completion,
        Status, //
    },
    handler::{
        Handler,
        Unfit, //
    },
    recv::receive::Receive,
    service::{
        connection::{
            Connection,
            Input, //
        },
        service::Service, //
    },
};
use kernel::sync::{
    atomic::Relaxed,
    Arc,
    ArcBorrow, //
};

impl<S: Service> Events for Connection<S> {
    fn event(this: ArcBorrow<'_, Self>, _event: Event) {
        // The id must not be dropped here: its lock is held.
        Arc::from(this).close();
    }
}

impl<S: Service> Handler for Connection<S> {
    type Call = ();

    fn received(this: ArcBorrow<'_, Self>, receive: Receive<()>) {
        Arc::from(this).queue(Input::Message(receive));
    }

    fn invalidated(this: ArcBorrow<'_, Self>, receive: Receive<()>, key: u32) {
        Arc::from(this).queue(Input::Invalidation(receive, key));
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

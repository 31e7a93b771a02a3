// SPDX-License-Identifier: GPL-2.0

//! The space of a connection: nfsd is woken when Replies release pages.

use super::check;
use crate::svc::{conn::space::Space, pages::host::Host, settings::ReplyPages};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        made, Arc as KernelArc, SpinLock,
    },
};
use loom::{sync::Arc, thread};
use svcrdma_proto::space::UNSIGNALLED;

const LIMITS: ReplyPages = ReplyPages {
    device: 1000,
    connection: 1,
};

struct Connection {
    space: Space,
    /// The lock of the send queue.
    send_queue: SpinLock<()>,
    /// `xpt_nr_rqsts`.
    running: Atomic<i32>,
}

impl Connection {
    /// Returns a connection with `held` pages in Replies, and a running Call.
    fn new(held: i32) -> Arc<Self> {
        let host = KernelArc::new(Host::new(), GFP_KERNEL).unwrap();
        let connection = Self {
            space: Space::new(host),
            send_queue: made(SpinLock::new(())).unwrap(),
            running: Atomic::new(1),
        };
        connection.running.load(Relaxed);
        connection.space.should_wake();
        connection.space.take(held);
        Arc::new(connection)
    }

    /// Ends a Reply with `pages` pages. Returns true if nfsd is woken.
    fn end_reply(&self, pages: i32) -> bool {
        let guard = self.send_queue.lock();
        self.space.put(pages);
        drop(guard);
        self.space.should_wake()
    }

    /// Returns true if nfsd may take another Call, as `xpo_has_wspace`.
    fn has_space(&self) -> bool {
        self.space
            .allows_call(LIMITS, || self.running.load(Relaxed), || ())
    }
}

#[test]
fn nfsd_is_woken_if_it_was_refused_a_call() {
    check(|| {
        let connection = Connection::new(1);
        let other = connection.clone();
        let other = thread::spawn(move || other.end_reply(1));
        let is_allowed = connection.has_space();
        let is_woken = other.join().unwrap();
        assert!(is_allowed || is_woken, "nfsd sleeps");
        assert!(connection.has_space());
    });
}

#[test]
fn nfsd_takes_a_call_if_a_reply_and_a_call_end_at_a_time() {
    check(|| {
        // Either end alone makes no space.
        let connection = Connection::new(2 * UNSIGNALLED + 1);
        let other = connection.clone();
        let other = thread::spawn(move || other.end_reply(UNSIGNALLED + 1) && other.has_space());
        // As `svc_xprt_release` does.
        connection.running.add(-1, Relaxed);
        let is_allowed = connection.has_space();
        assert!(other.join().unwrap() || is_allowed, "nfsd sleeps");
    });
}

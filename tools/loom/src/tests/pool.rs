// SPDX-License-Identifier: GPL-2.0

//! Receive pools.

use super::{check, Content};
use crate::{
    device::Pd,
    ib_qp,
    recv::{
        budget::Budget,
        buffer::{Buffer, Receiver},
        pool::ReceivePool,
    },
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::{made, Arc, SpinLock},
};
use loom::thread;

/// Buffers of a pool without credits, which posts each one that is returned.
const BUFFERS: usize = 4;

/// A pool that is attached to a queue pair.
#[derive(Clone)]
struct Attached {
    pool: Arc<ReceivePool<Content>>,
    qp: Arc<ib_qp>,
    budget: Arc<Budget>,
    pd: Arc<Pd>,
}

/// A message, as `Receive`.
struct Message(NonNull<Buffer<Content>>);

// SAFETY: The buffer belongs to this value alone.
unsafe impl Send for Message {}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: The buffer is live, is `lent`, and belongs to this value.
        unsafe {
            // The server writes to the buffer.
            (*self.0.as_ptr()).state.set(1);
            ReceivePool::recycle(self.0);
        }
    }
}

impl Attached {
    /// Creates a pool with the buffers for `credits` credits.
    fn new(credits: u32) -> Self {
        let budget = Arc::new(Budget::new(), GFP_KERNEL).unwrap();
        let pd = Arc::new(Pd::default(), GFP_KERNEL).unwrap();
        let qp = ib_qp {
            posted: made(SpinLock::new(Vec::new())).unwrap(),
        };
        let this = Self {
            pool: ReceivePool::new(&pd, 64, budget.clone()).unwrap(),
            qp: Arc::new(qp, GFP_KERNEL).unwrap(),
            budget,
            pd,
        };
        // SAFETY: The queue pair lives as long as the tests, which close the pool.
        assert!(unsafe { this.pool.open(NonNull::from(&*this.qp), Receiver) });
        assert_eq!(this.pool.resize(credits, 0, None), (credits, Ok(())));
        this
    }

    /// Completes the Receive that was posted last, as the worker of the completion queue.
    fn complete(&self) -> Option<Message> {
        let buffer = self.qp.posted.lock().pop()?;
        self.pool.on_completed();
        // SAFETY: The buffer was posted, so it is live and nobody else uses it.
        unsafe { (*buffer.as_ptr()).lent = true };
        Some(Message(buffer))
    }

    /// Ends the pool as its queue pair does, whose completions were all handled.
    fn end(&self) {
        self.pool.close();
        // SAFETY: The pool was just closed, and nothing posted completes any more.
        unsafe { self.pool.give_back() };
    }
}

#[test]
fn a_message_that_meets_the_end_of_its_queue_pair_is_freed_once() {
    check(|| {
        let ours = Attached::new(0);
        let message = ours.complete();
        let other = thread::spawn(move || drop(message));
        ours.end();
        assert_eq!(ours.pool.count(), 0);
        let Attached { pool, budget, .. } = ours;
        // The buffer of the message keeps the pool.
        drop(pool);
        other.join().unwrap();
        assert_eq!(budget.used(), 0);
    });
}

#[test]
fn two_messages_that_meet_the_end_of_their_queue_pair_are_freed_once() {
    check(|| {
        let ours = Attached::new(0);
        let others =
            [ours.complete(), ours.complete()].map(|message| thread::spawn(move || drop(message)));
        ours.end();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(ours.budget.used(), 0);
    });
}

#[test]
fn a_buffer_that_completes_while_others_are_posted_is_posted_again() {
    check(|| {
        let ours = Attached::new(0);
        let [first, second] = [ours.complete(), ours.complete()];
        let other = ours.clone();
        let other = thread::spawn(move || {
            drop(first);
            drop(other.complete());
        });
        drop(second);
        other.join().unwrap();
        assert_eq!(ours.qp.posted.lock().len(), BUFFERS);
        assert_eq!((ours.pool.posted(), ours.pool.count()), (BUFFERS, BUFFERS));
        ours.end();
        assert_eq!(ours.budget.used(), 0);
    });
}

#[test]
fn a_pool_that_grows_while_it_ends_keeps_nothing() {
    check(|| {
        let ours = Attached::new(0);
        let other = ours.clone();
        let other = thread::spawn(move || other.pool.resize(1, 0, None));
        ours.end();
        let (credits, result) = other.join().unwrap();
        assert!(result.is_err() || credits == 1);
        assert_eq!((ours.pool.count(), ours.budget.used()), (0, 0));
    });
}

#[test]
fn a_pool_that_shrinks_has_the_buffers_that_it_needs() {
    check(|| {
        let ours = Attached::new(1);
        let message = ours.complete();
        let other = thread::spawn(move || drop(message));
        assert_eq!(ours.pool.resize(0, 0, None).0, 0);
        ours.pool.trim();
        other.join().unwrap();
        // The next one that comes back is too many, unless the first one was.
        drop(ours.complete());
        ours.pool.trim();
        let left = ours.pool.count();
        assert_eq!((left, ours.budget.used() as usize), (BUFFERS, BUFFERS));
        assert_eq!(
            (ours.pool.posted(), ours.qp.posted.lock().len()),
            (left, left)
        );
        ours.end();
        assert_eq!(ours.budget.used(), 0);
    });
}

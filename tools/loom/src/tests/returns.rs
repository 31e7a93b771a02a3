// SPDX-License-Identifier: GPL-2.0

//! Returned Receive buffers.

use super::{check, Content};
use crate::recv::{
    buffer::Buffer,
    returns::{Closed, Returned, Returns},
};
use core::ptr::NonNull;
use kernel::sync::{made, SpinLock};
use loom::{sync::Arc, thread};

/// A buffer that belongs to its owner alone.
struct Owned(NonNull<Buffer<Content>>);

// SAFETY: The buffer belongs to this value alone.
unsafe impl Send for Owned {}

impl Owned {
    fn new(content: u32) -> Self {
        let buffer = Self(Buffer::alone());
        // loom notes a change, but not the first value.
        buffer.content().set(content);
        buffer
    }

    /// Returns the contents.
    fn content(&self) -> &Content {
        // SAFETY: The buffer is live until the drop.
        unsafe { &(*self.0.as_ptr()).state }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // The buffer ends here, so all accesses happened before.
        if !std::thread::panicking() {
            self.content().set(0);
        }
        // SAFETY: `Buffer::new` has made it from a box, and nobody else uses it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A pool that posts buffers in batches of `BATCH`, as `ReceivePool`.
struct Pool<const BATCH: u32> {
    returns: Returns<Content>,
    /// Buffers that are posted.
    posted: SpinLock<Vec<Owned>>,
}

fn owned(returned: Returned<Content>) -> impl Iterator<Item = Owned> {
    returned.map(Owned)
}

impl<const BATCH: u32> Pool<BATCH> {
    fn new() -> Arc<Self> {
        let pool = Self {
            returns: Returns::new(),
            posted: made(SpinLock::new(Vec::new())).unwrap(),
        };
        pool.post();
        Arc::new(pool)
    }

    /// Adds a buffer. Posts all if it completes a batch. Returns it if the list is closed.
    fn recycle(&self, buffer: Owned) -> Option<Owned> {
        // SAFETY: The buffer belongs to the caller, which gives it up.
        match unsafe { self.returns.push(buffer.0, BATCH, || ()) } {
            Ok(batch) => {
                core::mem::forget(buffer);
                if batch.is_some() {
                    self.post();
                }
                None
            }
            Err(Closed) => Some(buffer),
        }
    }

    fn post(&self) {
        let mut posted = self.posted.lock();
        posted.extend(owned(self.returns.take()));
    }

    /// Takes a posted buffer, as the device that completes it.
    fn complete(&self) -> Option<Owned> {
        self.posted.lock().pop()
    }

    /// Returns the contents of posted and of returned buffers.
    fn contents(&self) -> [Vec<u32>; 2] {
        let returned = owned(self.returns.take());
        let mut contents = [Vec::new(), Vec::new()];
        contents[0].extend(
            self.posted
                .lock()
                .drain(..)
                .map(|buffer| buffer.content().get()),
        );
        contents[1].extend(returned.map(|buffer| buffer.content().get()));
        contents
    }
}

fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_buffer_that_another_cpu_posts_has_its_contents() {
    check(|| {
        let pool = Pool::<2>::new();
        let other = pool.clone();
        let other = thread::spawn(move || {
            assert!(other.recycle(Owned::new(1)).is_none());
        });
        pool.post();
        let seen: Vec<_> = pool
            .posted
            .lock()
            .iter()
            .map(|buffer| buffer.content().get())
            .collect();
        assert!(seen.iter().all(|content| *content == 1));
        other.join().unwrap();
        assert_eq!(pool.contents().concat(), [1]);
    });
}

#[test]
fn no_buffer_is_lost_or_doubled_and_no_batch_is_left() {
    check(|| {
        let pool = Pool::<2>::new();
        let others = [1, 2].map(|number| {
            let pool = pool.clone();
            thread::spawn(move || assert!(pool.recycle(Owned::new(number)).is_none()))
        });
        assert!(pool.recycle(Owned::new(3)).is_none());
        for other in others {
            other.join().unwrap();
        }
        let [posted, returned] = pool.contents();
        assert!(returned.len() < 2, "a batch is left");
        assert_eq!(sorted([posted, returned].concat()), [1, 2, 3]);
    });
}

/// The address of a buffer comes back to the head while another thread adds one.
#[test]
fn a_buffer_that_is_used_again_is_not_lost_or_doubled() {
    check(|| {
        let pool = Pool::<1>::new();
        assert!(pool.recycle(Owned::new(1)).is_none());
        let other = pool.clone();
        let other = thread::spawn(move || assert!(other.recycle(Owned::new(2)).is_none()));
        if let Some(buffer) = pool.complete() {
            buffer.content().set(buffer.content().get() + 10);
            assert!(pool.recycle(buffer).is_none());
        }
        other.join().unwrap();
        let [posted, returned] = pool.contents();
        assert!(returned.is_empty());
        let posted = sorted(posted);
        assert!(posted == [2, 11] || posted == [1, 12], "{posted:?}");
    });
}

#[test]
fn a_buffer_that_meets_the_close_has_one_owner() {
    check(|| {
        let pool = Pool::<2>::new();
        let other = pool.clone();
        let other = thread::spawn(move || other.recycle(Owned::new(1)).is_some());
        let closed: Vec<_> = owned(pool.returns.close()).collect();
        assert!(closed.iter().all(|buffer| buffer.content().get() == 1));
        let is_refused = other.join().unwrap();
        assert_eq!(closed.len(), usize::from(!is_refused));
        assert!(pool.recycle(Owned::new(2)).is_some());
    });
}

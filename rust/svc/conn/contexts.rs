// SPDX-License-Identifier: GPL-2.0

//! Contexts: the Reply contexts that a connection takes, and keeps idle.

use super::endpoint::Endpoint;
use crate::svc::pages::reply::{
    Kind,
    Reply, //
};
use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// The pause of an nfsd thread before it tries again to make a context.
const PAUSE: Delta = Delta::from_millis(5);

/// The number of tries of an nfsd thread to make a context: for 0.2 seconds.
const TRIES: u32 = 40;

impl Endpoint {
    /// Returns a context for nfsd's Reply. In an nfsd thread; may sleep, for 0.2 seconds if memory is
    /// short.
    ///
    /// # Errors
    ///
    /// As for `Pool::reply`.
    #[inline]
    pub(crate) fn take_reply(&self) -> Result<KBox<Reply>> {
        match self.published.contexts.take() {
            Some(reply) => Ok(reply),
            None => self.new_reply(),
        }
    }

    /// Releases the pages of a Reply or a callback that was flushed.
    pub(crate) fn release(&self, reply: &Reply) {
        let pages = reply.pages();
        self.send_queue.lock().state().release(pages);
    }

    /// Wakes nfsd if it waits for pages of Replies, some of which were released.
    pub(crate) fn wake(&self) {
        if self.published.space.should_wake() {
            self.connection.inbox.wake();
        }
    }

    /// Takes the context of a Reply or a callback back, which the device has completed or which was
    /// flushed. Does not sleep.
    pub(crate) fn put_reply(&self, mut reply: KBox<Reply>) {
        let pool = &self.connection.device.pool;
        let kept = match reply.kind() {
            Kind::Reply => {
                if let Some(page_region) = reply.clear() {
                    self.connection
                        .device
                        .put_page_region(&self.lane, page_region);
                }
                self.published.contexts.put(reply)
            }
            // The connection has one, which ends with it.
            Kind::Answer => None,
            Kind::Callback => Some(reply),
        };
        if let Some(reply) = kept {
            pool.put_reply(reply);
        }
    }

    /// Makes a reply context. In an nfsd thread; may sleep, for 0.2 seconds if memory is short.
    ///
    /// # Errors
    ///
    /// As for `Pool::reply`.
    #[inline(never)]
    fn new_reply(&self) -> Result<KBox<Reply>> {
        let pool = &self.connection.device.pool;
        for _ in 0..TRIES {
            match pool.reply() {
                Err(ENOMEM) => fsleep(PAUSE),
                made => return made,
            }
        }
        pool.reply()
    }

    /// Returns the contexts to the pool that were idle since the last call.
    pub(crate) fn trim_replies(&self) {
        let surplus = self.send_queue.lock().state().trim();
        self.return_replies(surplus);
    }

    /// Returns all idle contexts to the pool, because the connection ends.
    pub(crate) fn drop_replies(&self) {
        self.send_queue.lock().state().trim();
        self.return_replies(usize::MAX);
    }

    /// Returns at most `count` idle contexts to the pool.
    fn return_replies(&self, count: usize) {
        for _ in 0..count {
            match self.published.contexts.take() {
                Some(reply) => self.connection.device.pool.put_reply(reply),
                None => break,
            }
        }
    }
}

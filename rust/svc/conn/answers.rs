// SPDX-License-Identifier: GPL-2.0

//! Answers: the error Replies of a connection to messages that nfsd does not get.
//!
//! A connection has one context for them, which is made at accept. So a peer that takes no error
//! Replies delays only its own: while the context is in flight, further Calls wait here with their
//! Receive buffers and credits, and the completion answers the next one.
//!
//! # Context
//!
//! Any process context; functions that may sleep say so.
//!
//! # Locking
//!
//! One spinlock, a leaf.

use super::call::Call;
use crate::svc::lane::reply::Reply;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use rdma::{
    device::Pd,
    send::buffer::SendBuffer, //
};
use support::{
    page::Effort,
    ring::{
        Refused,
        Ring, //
    },
};

/// The data under the lock.
struct Inner {
    /// The context, unless it is in flight.
    idle: Option<KBox<Reply>>,
    /// Calls that wait for the context.
    waiting: Ring<Call>,
    /// True once the connection is torn down.
    is_closed: bool,
}

/// The error Replies of a connection. The endpoint owns them.
#[pin_data]
pub(crate) struct Answers {
    #[pin]
    inner: SpinLock<Inner>,
}

/// A context, and the Call that it answers.
pub(crate) type Next = (KBox<Reply>, Call);

impl Answers {
    /// Creates the context, and room for `calls` Calls. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or an error of the DMA mapping.
    pub(super) fn new(pd: &Arc<Pd>, calls: usize) -> Result<impl PinInit<Self>> {
        let inner = Inner {
            idle: Some(Reply::new(SendBuffer::new(pd, Effort::Little)?)?),
            waiting: Ring::with_capacity(calls)?,
            is_closed: false,
        };
        Ok(pin_init!(Self {
            inner <- new_spinlock!(inner, "svcrdma answers"),
        }))
    }

    /// Takes the context for `call`. Returns `None` if the Call waits for it.
    ///
    /// # Errors
    ///
    /// Returns the Call if the connection is torn down, or has more Calls than credits allow.
    pub(crate) fn begin(&self, call: Call) -> Result<Option<Next>, Refused<Call>> {
        let mut inner = self.inner.lock();
        if inner.is_closed {
            return Err(Refused::Closed(call));
        }
        match inner.idle.take() {
            Some(reply) => Ok(Some((reply, call))),
            None => inner
                .waiting
                .push(call)
                .map(|()| None)
                .map_err(Refused::Full),
        }
    }

    /// Takes the context back from an answer that the device has sent. Returns it with the next Call
    /// that waits.
    ///
    /// # Errors
    ///
    /// Returns the context if the connection is torn down.
    pub(crate) fn next(&self, reply: KBox<Reply>) -> Result<Option<Next>, KBox<Reply>> {
        let mut inner = self.inner.lock();
        if inner.is_closed {
            return Err(reply);
        }
        match inner.waiting.pop() {
            Some(call) => Ok(Some((reply, call))),
            None => {
                inner.idle = Some(reply);
                Ok(None)
            }
        }
    }

    /// Refuses all further Calls. Returns the context, unless it is in flight.
    pub(crate) fn close(&self) -> Option<KBox<Reply>> {
        let mut inner = self.inner.lock();
        inner.is_closed = true;
        inner.idle.take()
    }

    /// Takes a Call that waits, after [`Self::close`].
    pub(crate) fn give_up(&self) -> Option<Call> {
        self.inner.lock().waiting.pop()
    }
}

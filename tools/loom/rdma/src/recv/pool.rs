// SPDX-License-Identifier: GPL-2.0

//! Model of the pool of Receive buffers.

use core::marker::PhantomData;
use kernel::error::Result;
use loom::cell::Cell;

pub struct ReceivePool<S> {
    /// The buffers for replies to callbacks. loom reports an access that does not happen after the last
    /// change.
    pub callbacks: Cell<u32>,
    _state: PhantomData<fn() -> S>,
}

// SAFETY: loom runs all of its threads in one thread of the host.
unsafe impl<S> Sync for ReceivePool<S> {}

impl<S> ReceivePool<S> {
    #[allow(
        clippy::new_without_default,
        reason = "the pool of the module has no default"
    )]
    pub fn new() -> Self {
        Self {
            callbacks: Cell::new(0),
            _state: PhantomData,
        }
    }

    pub fn max(&self) -> usize {
        200
    }

    pub fn resize(&self, credits: u32, callbacks: u32, _limit: Option<u32>) -> (u32, Result) {
        self.callbacks.set(callbacks);
        (credits, Ok(()))
    }
}

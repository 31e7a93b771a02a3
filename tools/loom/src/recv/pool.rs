// SPDX-License-Identifier: GPL-2.0

//! Model of the pool of Receive buffers, for its users.

use crate::tests::Content;
use core::marker::PhantomData;
use kernel::error::Result;

pub struct ReceivePool<S> {
    /// The buffers for replies to callbacks.
    pub(crate) callbacks: Content,
    _state: PhantomData<fn() -> S>,
}

impl<S> ReceivePool<S> {
    pub(crate) fn new() -> Self {
        Self {
            callbacks: Content::new(0),
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

// SPDX-License-Identifier: GPL-2.0

//! The tests, by part.
//!
//! An atomic is made when it is used first, so each test uses all of them before it starts threads.

mod budget;
mod callbacks;
mod figure;
mod free_list;
mod model;
mod pool;
mod quota;
mod receives;
mod returns;
mod space;

use crate::recv::buffer::State;
use loom::{cell::UnsafeCell, model::Builder};

/// The most times that loom preempts a thread, unless LOOM_MAX_PREEMPTIONS says otherwise.
const PREEMPTIONS: usize = 2;

/// Runs `f` with all orders of its threads that need up to [`PREEMPTIONS`] preemptions.
fn check(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(f);
}

/// A number that is not atomic: loom reports an access that does not happen after the last change.
pub(crate) struct Content(UnsafeCell<u32>);

// SAFETY: loom runs all of its threads in one thread of the host.
unsafe impl Sync for Content {}

impl Default for Content {
    fn default() -> Self {
        Self::new(0)
    }
}

impl State for Content {}

impl Content {
    pub(crate) fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) fn get(&self) -> u32 {
        // SAFETY: loom has checked that no thread changes it.
        self.0.with(|value| unsafe { *value })
    }

    pub(crate) fn set(&self, to: u32) {
        // SAFETY: loom has checked that no other thread uses it.
        self.0.with_mut(|value| unsafe { *value = to });
    }
}

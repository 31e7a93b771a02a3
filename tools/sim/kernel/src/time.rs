// SPDX-License-Identifier: GPL-2.0

//! Time: that of the simulator's clock.

use crate::sim;
use core::marker::PhantomData;

pub struct Monotonic;

pub struct Instant<C>(u64, PhantomData<C>);

impl<C> Clone for Instant<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Instant<C> {}

impl<C> Instant<C> {
    pub fn now() -> Self {
        Self(sim::now(), PhantomData)
    }

    pub fn elapsed(&self) -> Delta {
        Delta((sim::now() - self.0) as i64)
    }
}

/// Milliseconds.
#[derive(Clone, Copy)]
pub struct Delta(i64);

impl Delta {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    pub const fn as_nanos(self) -> i64 {
        self.0 * 1_000_000
    }
}

/// The model has a jiffy each millisecond.
pub fn msecs_to_jiffies(msecs: u32) -> crate::ffi::c_ulong {
    msecs as _
}

pub mod delay {
    pub fn fsleep(delta: super::Delta) {
        crate::sim::sleep(delta.as_millis() as u64);
    }
}

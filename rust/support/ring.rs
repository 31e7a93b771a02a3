// SPDX-License-Identifier: GPL-2.0

//! A queue that was given its room beforehand: pushing to it never allocates.

use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::prelude::*;

/// A first-in-first-out queue of bounded length. Dropping it sleeps.
pub struct Ring<T>(svcrdma_proto::ring::Ring<KVVec<Option<T>>>);

/// An item that a queue did not take, and why.
pub enum Refused<T> {
    /// The queue has no room.
    Full(T),
    /// The queue takes no more items: what it belongs to is closing.
    Closed(T),
}

impl<T> Refused<T> {
    /// Returns the item.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(item) | Self::Closed(item) => item,
        }
    }

    /// Replaces the item.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Refused<U> {
        match self {
            Self::Full(item) => Refused::Full(f(item)),
            Self::Closed(item) => Refused::Closed(f(item)),
        }
    }
}

impl<T> Ring<T> {
    /// Makes a queue for `capacity` items. May sleep.
    // Not inlined: tests lower the capacity, as a queue that is full must not lose what it refuses.
    #[inline(never)]
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(capacity, GFP_KERNEL)?;
        for _ in 0..capacity {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self(svcrdma_proto::ring::Ring::new(slots)))
    }

    /// Makes a queue without room.
    pub fn none() -> Self {
        Self(svcrdma_proto::ring::Ring::new(KVVec::new()))
    }
}

impl<T> Deref for Ring<T> {
    type Target = svcrdma_proto::ring::Ring<KVVec<Option<T>>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> DerefMut for Ring<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

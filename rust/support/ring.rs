// SPDX-License-Identifier: GPL-2.0

//! Bounded queues whose memory is allocated in advance, so that pushing never allocates.
//!
//! `svcrdma_proto::ring` has the queue itself; this module adds the kernel's memory. There is no C
//! header: the kernel's `kfifo` only holds plain data.

use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::prelude::*;

/// A first-in-first-out queue of bounded length. Dropping it may sleep.
pub struct Ring<T>(svcrdma_proto::ring::Ring<KVVec<Option<T>>>);

/// An item that a queue has refused, with the reason.
pub enum Refused<T> {
    /// The queue has no room.
    Full(T),
    /// The queue refuses all items, because its owner is closing.
    Closed(T),
}

impl<T> Refused<T> {
    /// Returns the refused item.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(item) | Self::Closed(item) => item,
        }
    }

    /// Replaces the item with `f(item)` and keeps the reason.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Refused<U> {
        match self {
            Self::Full(item) => Refused::Full(f(item)),
            Self::Closed(item) => Refused::Closed(f(item)),
        }
    }
}

impl<T> Ring<T> {
    /// Creates a queue for up to `capacity` items. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    // Not inlined: tests lower the capacity by a probe on this function, to fill queues.
    #[inline(never)]
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(capacity, GFP_KERNEL)?;
        for _ in 0..capacity {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self(svcrdma_proto::ring::Ring::new(slots)))
    }

    /// Creates a queue that refuses every item. Does not allocate.
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

// SPDX-License-Identifier: GPL-2.0

//! Atomics that a constant function creates, which those of loom cannot be.

use core::cell::OnceCell;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// An atomic of loom of type `A`, which is made when it is used first.
///
/// loom reports a "causality violation" if the first use does not happen before all others. So a
/// test uses each atomic once before it starts threads.
pub struct Lazy<T: Copy, A> {
    value: T,
    make: fn(T) -> A,
    atomic: OnceCell<(A, AtomicBool)>,
}

// SAFETY: loom runs all of its threads in one thread of the host.
unsafe impl<T: Copy, A> Send for Lazy<T, A> {}
// SAFETY: As above.
unsafe impl<T: Copy, A> Sync for Lazy<T, A> {}

impl<T: Copy, A> Lazy<T, A> {
    /// Creates an atomic with this value, which `make` makes.
    pub const fn new(value: T, make: fn(T) -> A) -> Self {
        Self {
            value,
            make,
            atomic: OnceCell::new(),
        }
    }

    /// Returns the atomic, for one operation.
    pub fn get(&self) -> &A {
        let make = || ((self.make)(self.value), AtomicBool::new(false));
        let (atomic, used) = self.atomic.get_or_init(make);
        // To find other orders, loom compares a store with the last operation on the same atomic
        // alone. If that is a load of the same thread, loom misses the order in which the store
        // precedes a load of another thread. It compares these stores, which nobody loads, too.
        used.store(true, Relaxed);
        atomic
    }
}

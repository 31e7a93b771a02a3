// SPDX-License-Identifier: GPL-2.0

//! Figures: numbers that one thread at a time changes, and that others read without a lock.
//!
//! The functions of `kernel::sync::atomic` are calls of C functions. A [`Figure`] is a plain load or
//! store, which the path of a Call can afford many times.

use core::sync::atomic::{
    AtomicBool,
    AtomicI32,
    AtomicU32,
    AtomicU64,
    Ordering::Relaxed, //
};

/// A number, or a flag, that one thread at a time changes.
///
/// A lock, or the order of events, keeps two threads from changing it at a time; otherwise one of
/// two changes may be lost. Any thread may read it. Reads and writes are those of `READ_ONCE` and
/// `WRITE_ONCE`: they are not torn, and they order no other access. For relaxed loads and stores,
/// all that is used here, the memory models of Rust and of the kernel agree.
#[derive(Default)]
pub struct Figure<T: Plain>(T::Cell);

/// A type that a [`Figure`] can have.
pub trait Plain: Copy + Default {
    /// The memory of the figure.
    type Cell: Default + Send + Sync;

    /// Reads the cell.
    fn load(cell: &Self::Cell) -> Self;

    /// Writes the cell.
    fn store(cell: &Self::Cell, value: Self);
}

macro_rules! plain {
    ($($ty:ty, $cell:ty;)*) => {
        $(
            impl Plain for $ty {
                type Cell = $cell;

                #[inline]
                fn load(cell: &$cell) -> Self {
                    cell.load(Relaxed)
                }

                #[inline]
                fn store(cell: &$cell, value: Self) {
                    cell.store(value, Relaxed);
                }
            }
        )*
    };
}

plain! {
    bool, AtomicBool;
    i32, AtomicI32;
    u32, AtomicU32;
    u64, AtomicU64;
}

impl<T: Plain> Figure<T> {
    /// Creates a figure with this value.
    pub fn new(value: T) -> Self {
        let figure = Self::default();
        figure.set(value);
        figure
    }

    /// Returns the value.
    #[inline]
    pub fn get(&self) -> T {
        T::load(&self.0)
    }

    /// Changes the value. No other thread changes it at the same time.
    #[inline]
    pub fn set(&self, value: T) {
        T::store(&self.0, value);
    }
}

impl Figure<u32> {
    /// Adds `n`; wraps around. No other thread changes the value at the same time.
    #[inline]
    pub fn add(&self, n: u32) {
        self.set(self.get().wrapping_add(n));
    }
}

impl Figure<u64> {
    /// Adds `n`; wraps around. No other thread changes the value at the same time.
    #[inline]
    pub fn add(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Atomics of the kernel, with the orderings of the Linux kernel memory model:
//!
//! - `Acquire` and `Release` are those of C11.
//! - A read-modify-write operation that is `Full` has a full barrier (`smp_mb()`) before and after it:
//!   a sequentially consistent fence.
//! - A `cmpxchg` that fails orders nothing.
//!
//! Dependencies order nothing here, so this model allows more than the kernel's.

use core::sync::atomic::Ordering::{self, AcqRel, SeqCst};
use loom::sync::atomic::{self as loom_atomic, fence};
use loom_core::lazy::Lazy;

/// An ordering of the kernel.
pub trait Order {
    /// That of the operation.
    const ORDER: Ordering;
    /// True if there are full barriers around the operation.
    const IS_FULL: bool = false;
}

macro_rules! orders {
    ($($name:ident $order:expr, $is_full:expr;)*) => {$(
        pub struct $name;

        impl Order for $name {
            const ORDER: Ordering = $order;
            const IS_FULL: bool = $is_full;
        }
    )*};
}

orders! {
    Relaxed Ordering::Relaxed, false;
    Acquire Ordering::Acquire, false;
    Release Ordering::Release, false;
    Full AcqRel, true;
}

/// An order of loads.
pub trait OfLoad: Order {}
impl OfLoad for Relaxed {}
impl OfLoad for Acquire {}

/// An order of stores.
pub trait OfStore: Order {}
impl OfStore for Relaxed {}
impl OfStore for Release {}

/// A type that an [`Atomic`] can have.
pub trait Value: Copy + PartialEq {
    type Cell;

    fn cell(self) -> Self::Cell;
    fn load(cell: &Self::Cell, order: Ordering) -> Self;
    fn store(cell: &Self::Cell, value: Self, order: Ordering);
    fn swap(cell: &Self::Cell, value: Self, order: Ordering) -> Self;
    fn compare_exchange(
        cell: &Self::Cell,
        old: Self,
        new: Self,
        order: Ordering,
    ) -> Result<Self, Self>;
}

/// A value that can be added.
pub trait Number: Value {
    fn fetch_add(cell: &Self::Cell, n: Self, order: Ordering) -> Self;
    fn fetch_sub(cell: &Self::Cell, n: Self, order: Ordering) -> Self;
}

macro_rules! values {
    ($($ty:ty, $cell:ident;)*) => {$(
        impl Value for $ty {
            type Cell = loom_atomic::$cell;

            fn cell(self) -> Self::Cell {
                loom_atomic::$cell::new(self)
            }

            fn load(cell: &Self::Cell, order: Ordering) -> Self {
                cell.load(order)
            }

            fn store(cell: &Self::Cell, value: Self, order: Ordering) {
                cell.store(value, order);
            }

            fn swap(cell: &Self::Cell, value: Self, order: Ordering) -> Self {
                cell.swap(value, order)
            }

            fn compare_exchange(
                cell: &Self::Cell,
                old: Self,
                new: Self,
                order: Ordering,
            ) -> Result<Self, Self> {
                cell.compare_exchange(old, new, order, Ordering::Relaxed)
            }
        }
    )*};
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            fn fetch_add(cell: &Self::Cell, n: Self, order: Ordering) -> Self {
                cell.fetch_add(n, order)
            }

            fn fetch_sub(cell: &Self::Cell, n: Self, order: Ordering) -> Self {
                cell.fetch_sub(n, order)
            }
        }
    )*};
}

values! { bool, AtomicBool; i32, AtomicI32; u32, AtomicU32; u64, AtomicU64; usize, AtomicUsize; }
numbers! { i32 u32 u64 usize }

/// Calls `f` with the ordering of `O`, between full barriers if it has these.
fn rmw<O: Order, R>(f: impl FnOnce(Ordering) -> R) -> R {
    if O::IS_FULL {
        fence(SeqCst);
    }
    let result = f(O::ORDER);
    if O::IS_FULL {
        fence(SeqCst);
    }
    result
}

pub struct Atomic<T: Value>(Lazy<T, T::Cell>);

pub type AtomicFlag = Atomic<bool>;

impl<T: Value> Atomic<T> {
    pub const fn new(value: T) -> Self {
        Self(Lazy::new(value, T::cell))
    }

    pub fn load<O: OfLoad>(&self, _: O) -> T {
        T::load(self.0.get(), O::ORDER)
    }

    pub fn store<O: OfStore>(&self, value: T, _: O) {
        T::store(self.0.get(), value, O::ORDER);
    }

    pub fn xchg<O: Order>(&self, value: T, _: O) -> T {
        rmw::<O, _>(|order| T::swap(self.0.get(), value, order))
    }

    pub fn cmpxchg<O: Order>(&self, old: T, new: T, _: O) -> Result<T, T> {
        // A failure may see any store that a relaxed load may see.
        let now = T::load(self.0.get(), Ordering::Relaxed);
        if now != old {
            return Err(now);
        }
        rmw::<O, _>(|order| T::compare_exchange(self.0.get(), old, new, order))
    }
}

impl<T: Number> Atomic<T> {
    pub fn add(&self, n: T, _: Relaxed) {
        T::fetch_add(self.0.get(), n, Ordering::Relaxed);
    }

    pub fn fetch_add<O: Order>(&self, n: T, _: O) -> T {
        rmw::<O, _>(|order| T::fetch_add(self.0.get(), n, order))
    }

    pub fn fetch_sub<O: Order>(&self, n: T, _: O) -> T {
        rmw::<O, _>(|order| T::fetch_sub(self.0.get(), n, order))
    }
}

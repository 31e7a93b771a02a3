// SPDX-License-Identifier: GPL-2.0

//! Atomics. Each access is a scheduling point; orders are those of one processor.

use crate::sim;
use core::cell::UnsafeCell;

pub trait Order {}

macro_rules! orders {
    ($($name:ident)*) => {
        $(pub struct $name; impl Order for $name {})*
    };
}

orders! { Relaxed Acquire Release Full }

#[repr(transparent)]
pub struct Atomic<T>(UnsafeCell<T>);

// SAFETY: All tasks are in one thread of the host.
unsafe impl<T> Sync for Atomic<T> {}

impl<T: Copy + PartialEq> Atomic<T> {
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub fn as_ptr(&self) -> *mut T {
        self.0.get()
    }

    fn update(&self, f: impl FnOnce(T) -> T) -> T {
        sim::point();
        // SAFETY: All tasks are in one thread of the host, and `f` has no scheduling point.
        unsafe {
            let before = *self.0.get();
            *self.0.get() = f(before);
            before
        }
    }

    pub fn load(&self, _: impl Order) -> T {
        self.update(|value| value)
    }

    pub fn store(&self, value: T, _: impl Order) {
        self.update(|_| value);
    }

    pub fn xchg(&self, value: T, _: impl Order) -> T {
        self.update(|_| value)
    }

    pub fn cmpxchg(&self, old: T, new: T, _: impl Order) -> Result<T, T> {
        let before = self.update(|now| if now == old { new } else { now });
        if before == old {
            Ok(before)
        } else {
            Err(before)
        }
    }
}

/// A number that wraps.
pub trait Number: Copy + PartialEq {
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    )*};
}

numbers! { i32 i64 u32 u64 usize }

impl<T: Number> Atomic<T> {
    pub fn add(&self, n: T, _: Relaxed) {
        self.update(|value| value.plus(n));
    }

    pub fn fetch_add(&self, n: T, _: impl Order) -> T {
        self.update(|value| value.plus(n))
    }

    pub fn fetch_sub(&self, n: T, _: impl Order) -> T {
        self.update(|value| value.minus(n))
    }
}

pub type AtomicFlag = Atomic<bool>;

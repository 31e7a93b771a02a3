// SPDX-License-Identifier: GPL-2.0

//! Atomics of loom with the functions of core's that the module uses. Orderings are those of the
//! caller.

use crate::lazy::Lazy;
use core::ptr::null_mut;
use loom::sync::atomic as loom;

pub use core::sync::atomic::Ordering;

macro_rules! atomic {
    ($name:ident $(<$param:ident>)?, $ty:ty, $default:expr) => {
        pub struct $name $(<$param>)? (Lazy<$ty, loom::$name $(<$param>)?>);

        impl $(<$param>)? Default for $name $(<$param>)? {
            fn default() -> Self {
                Self::new($default)
            }
        }

        impl $(<$param>)? $name $(<$param>)? {
            pub const fn new(value: $ty) -> Self {
                Self(Lazy::new(value, loom::$name::new))
            }

            pub fn load(&self, order: Ordering) -> $ty {
                self.0.get().load(order)
            }

            pub fn store(&self, value: $ty, order: Ordering) {
                self.0.get().store(value, order);
            }

            pub fn swap(&self, value: $ty, order: Ordering) -> $ty {
                self.0.get().swap(value, order)
            }

            pub fn compare_exchange(
                &self,
                current: $ty,
                new: $ty,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$ty, $ty> {
                self.0.get().compare_exchange(current, new, success, failure)
            }
        }
    };
}

atomic! { AtomicPtr<T>, *mut T, null_mut() }
atomic! { AtomicBool, bool, false }
atomic! { AtomicI32, i32, 0 }
atomic! { AtomicU32, u32, 0 }
atomic! { AtomicU64, u64, 0 }

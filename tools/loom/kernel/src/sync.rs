// SPDX-License-Identifier: GPL-2.0

//! Reference counts, locks, and atomics.

pub mod atomic;

use crate::{
    error::{Error, Result},
    prelude::Flags,
};
use core::ops::{Deref, DerefMut};
use pin_init::PinInit;

/// A reference count of loom, which reports objects that are never dropped.
pub struct Arc<T>(loom::sync::Arc<T>);

impl<T> Arc<T> {
    pub fn new(value: T, _: Flags) -> Result<Self> {
        Ok(Self(loom::sync::Arc::new(value)))
    }

    pub fn pin_init<E>(init: impl PinInit<T, E>, flags: Flags) -> Result<Self>
    where
        Error: From<E>,
    {
        Self::new(made(init)?, flags)
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for Arc<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Returns the value that `init` makes. The values of these tests may be moved until they are shared.
pub fn made<T, E>(init: impl PinInit<T, E>) -> core::result::Result<T, E> {
    let mut value = core::mem::MaybeUninit::uninit();
    // SAFETY: There is room for the value, which is there if there is no error.
    unsafe {
        init.__pinned_init(value.as_mut_ptr())?;
        Ok(value.assume_init())
    }
}

/// A spinlock or a mutex: nothing here depends on the difference.
pub struct Lock<T>(loom::sync::Mutex<T>);

pub type SpinLock<T> = Lock<T>;
pub type Mutex<T> = Lock<T>;
pub type SpinLockGuard<'a, T> = Guard<'a, T>;
pub type MutexGuard<'a, T> = Guard<'a, T>;

pub struct Guard<'a, T>(loom::sync::MutexGuard<'a, T>);

impl<T> Lock<T> {
    pub fn new(value: T) -> impl PinInit<Self> {
        let make = |slot: *mut Self| {
            // SAFETY: The slot is valid for writes.
            unsafe { slot.write(Self(loom::sync::Mutex::new(value))) };
            Ok(())
        };
        // SAFETY: The closure fills the slot.
        unsafe { pin_init::pin_init_from_closure(make) }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        Guard(self.0.lock().expect("a thread has failed under the lock"))
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

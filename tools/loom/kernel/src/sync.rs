// SPDX-License-Identifier: GPL-2.0

//! Reference counts, locks, and atomics.

pub mod atomic;

use crate::{
    error::{Error, Result},
    prelude::Flags,
};
use core::{
    cell::Cell,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
};
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

    pub fn into_raw(this: Self) -> *const T {
        loom::sync::Arc::into_raw(this.0)
    }

    /// # Safety
    ///
    /// `raw` comes from `into_raw()`, and its reference is taken once.
    pub unsafe fn from_raw(raw: *const T) -> Self {
        // SAFETY: The caller's.
        Self(unsafe { loom::sync::Arc::from_raw(raw) })
    }
}

/// A reference to a value of which somebody else has an [`Arc`].
pub struct ArcBorrow<'a, T> {
    raw: *const T,
    _lifetime: PhantomData<&'a T>,
}

impl<T> ArcBorrow<'_, T> {
    /// # Safety
    ///
    /// `raw` comes from `Arc::into_raw()`, and that reference lives as long as this.
    pub unsafe fn from_raw(raw: *const T) -> Self {
        Self {
            raw,
            _lifetime: PhantomData,
        }
    }
}

impl<T> Clone for ArcBorrow<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ArcBorrow<'_, T> {}

impl<T> Deref for ArcBorrow<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the safety requirements of `from_raw`.
        unsafe { &*self.raw }
    }
}

impl<T> From<ArcBorrow<'_, T>> for Arc<T> {
    fn from(borrow: ArcBorrow<'_, T>) -> Self {
        // SAFETY: By the safety requirements of `from_raw`; the reference stays.
        let arc = ManuallyDrop::new(unsafe { Arc::from_raw(borrow.raw) });
        (*arc).clone()
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
pub struct Lock<T> {
    mutex: loom::sync::Mutex<T>,
    /// False once the lock was dropped.
    is_live: Cell<bool>,
}

// SAFETY: loom runs all of its threads in one thread of the host.
unsafe impl<T> Sync for Lock<T> {}

pub type SpinLock<T> = Lock<T>;
pub type Mutex<T> = Lock<T>;
pub type SpinLockGuard<'a, T> = Guard<'a, T>;
pub type MutexGuard<'a, T> = Guard<'a, T>;

pub struct Guard<'a, T>(loom::sync::MutexGuard<'a, T>);

impl<T> Lock<T> {
    pub fn new(value: T) -> impl PinInit<Self> {
        let make = |slot: *mut Self| {
            // SAFETY: The slot is valid for writes.
            unsafe { slot.write(Self::of(value)) };
            Ok(())
        };
        // SAFETY: The closure fills the slot.
        unsafe { pin_init::pin_init_from_closure(make) }
    }

    fn of(value: T) -> Self {
        Self {
            mutex: loom::sync::Mutex::new(value),
            is_live: Cell::new(true),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        let guard = self.mutex.lock();
        // SAFETY: If a fault of the module uses the lock too late, nothing has used its memory again.
        let is_live = unsafe { self.is_live.as_ptr().read_volatile() };
        assert!(is_live, "the lock was dropped");
        Guard(guard.expect("a thread has failed under the lock"))
    }
}

impl<T> Drop for Lock<T> {
    fn drop(&mut self) {
        // SAFETY: The lock is live until the end of this function.
        unsafe { self.is_live.as_ptr().write_volatile(false) };
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

// SPDX-License-Identifier: GPL-2.0

//! Reference counts, locks, and atomics.

pub mod atomic;

use crate::{
    alloc::{allocate, AllocError, Flags},
    error::Error,
    sim,
};
use core::{
    marker::{PhantomData, Unsize},
    ops::{CoerceUnsized, Deref, DerefMut, DispatchFromDyn},
};
use pin_init::PinInit;
use std::sync::Arc as StdArc;

pub struct Arc<T: ?Sized>(StdArc<T>);

impl<T: ?Sized + Unsize<U>, U: ?Sized> CoerceUnsized<Arc<U>> for Arc<T> {}
impl<T: ?Sized + Unsize<U>, U: ?Sized> DispatchFromDyn<Arc<U>> for Arc<T> {}

impl<T> Arc<T> {
    pub fn new(value: T, _: Flags) -> Result<Self, AllocError> {
        allocate()?;
        Ok(Self(StdArc::new(value)))
    }

    pub fn pin_init<E>(init: impl PinInit<T, E>, _: Flags) -> Result<Self, Error>
    where
        Error: From<E>,
    {
        allocate()?;
        let mut this = StdArc::<T>::new_uninit();
        let slot = StdArc::get_mut(&mut this).expect("nobody else has it");
        // SAFETY: The slot has room for the value, which is there if there is no error.
        unsafe {
            init.__pinned_init(slot.as_mut_ptr())?;
            Ok(Self(this.assume_init()))
        }
    }

    pub fn into_raw(self) -> *const T {
        StdArc::into_raw(self.0)
    }

    pub unsafe fn from_raw(ptr: *const T) -> Self {
        // SAFETY: The caller got it of `into_raw()`.
        Self(unsafe { StdArc::from_raw(ptr) })
    }

    pub fn as_arc_borrow(&self) -> ArcBorrow<'_, T> {
        ArcBorrow(StdArc::as_ptr(&self.0), PhantomData)
    }
}

impl<T: ?Sized> Arc<T> {
    pub fn as_ptr(this: &Self) -> *const T {
        StdArc::as_ptr(&this.0)
    }

    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        StdArc::ptr_eq(&this.0, &other.0)
    }
}

impl<T: ?Sized> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Clone for Arc<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

pub struct ArcBorrow<'a, T: ?Sized>(*const T, PhantomData<&'a T>);

impl<T: ?Sized> Clone for ArcBorrow<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for ArcBorrow<'_, T> {}

impl<T> ArcBorrow<'_, T> {
    pub unsafe fn from_raw(ptr: *const T) -> Self {
        Self(ptr, PhantomData)
    }
}

impl<T> Deref for ArcBorrow<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: Who made it says that there is a reference.
        unsafe { &*self.0 }
    }
}

impl<T> From<ArcBorrow<'_, T>> for Arc<T> {
    fn from(borrow: ArcBorrow<'_, T>) -> Self {
        // SAFETY: As above, and the pointer is that of an `Arc`.
        unsafe {
            StdArc::increment_strong_count(borrow.0);
            Self::from_raw(borrow.0)
        }
    }
}

/// A lock. `SPIN`: its owner may not sleep.
pub struct Lock<T, const SPIN: bool> {
    name: &'static str,
    inner: shuttle::sync::Mutex<T>,
}

pub type SpinLock<T> = Lock<T, true>;
pub type Mutex<T> = Lock<T, false>;
pub type SpinLockGuard<'a, T> = Guard<'a, T>;
pub type MutexGuard<'a, T> = Guard<'a, T>;

pub struct Guard<'a, T> {
    name: &'static str,
    inner: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T, const SPIN: bool> Lock<T, SPIN> {
    pub fn new(value: T, name: &'static str) -> impl PinInit<Self> {
        let make = move |slot: *mut Self| {
            let inner = shuttle::sync::Mutex::new(value);
            // SAFETY: The slot is valid for writes.
            unsafe { slot.write(Self { name, inner }) };
            Ok(())
        };
        // SAFETY: The closure fills the slot.
        unsafe { pin_init::pin_init_from_closure(make) }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        if !SPIN {
            sim::might_sleep(self.name);
        }
        let inner = self.inner.lock().expect("a task has failed under the lock");
        self.guard(inner)
    }

    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let inner = self.inner.try_lock().ok()?;
        Some(self.guard(inner))
    }

    fn guard<'a>(&'a self, inner: shuttle::sync::MutexGuard<'a, T>) -> Guard<'a, T> {
        sim::note_locked(self.name, SPIN);
        Guard {
            name: self.name,
            inner: Some(inner),
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner
            .as_ref()
            .expect("the guard is there until its drop")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner
            .as_mut()
            .expect("the guard is there until its drop")
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        sim::note_unlocked(self.name);
        drop(self.inner.take());
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Boxes and vectors. An allocation may fail by seed, and may not be made under a spinlock.

use crate::{error::Error, sim};
use core::{
    marker::Unsize,
    mem::MaybeUninit,
    ops::{CoerceUnsized, Deref, DerefMut},
    pin::Pin,
};
use pin_init::{Init, PinInit};

#[derive(Clone, Copy, Debug)]
pub struct AllocError;

/// An element that does not fit.
pub struct PushError<T>(pub T);

#[derive(Debug)]
pub struct RemoveError;

#[derive(Clone, Copy)]
pub struct Flags;

pub const GFP_KERNEL: Flags = Flags;

pub(crate) fn allocate() -> Result<(), AllocError> {
    sim::might_sleep("allocation");
    if sim::fails(sim::Fault::Memory) {
        return Err(AllocError);
    }
    Ok(())
}

pub struct KBox<T: ?Sized>(Box<T>);

impl<T: ?Sized + Unsize<U>, U: ?Sized> CoerceUnsized<KBox<U>> for KBox<T> {}

impl<T> KBox<T> {
    pub fn new(value: T, _: Flags) -> Result<Self, AllocError> {
        allocate()?;
        Ok(Self(Box::new(value)))
    }

    pub fn new_uninit(_: Flags) -> Result<KBox<MaybeUninit<T>>, AllocError> {
        allocate()?;
        Ok(KBox(Box::new_uninit()))
    }

    pub fn write(this: KBox<MaybeUninit<T>>, value: T) -> Self {
        let raw = Box::into_raw(this.0).cast::<T>();
        // SAFETY: The box has room for the value.
        unsafe {
            raw.write(value);
            Self(Box::from_raw(raw))
        }
    }

    pub fn init<E>(init: impl Init<T, E>, flags: Flags) -> Result<Self, Error>
    where
        Error: From<E>,
    {
        let mut this = Self::new_uninit(flags)?;
        // SAFETY: The box has room for the value, which is there if there is no error.
        unsafe {
            init.__init(this.0.as_mut_ptr())?;
            Ok(Self(this.0.assume_init()))
        }
    }

    pub fn pin_init<E>(init: impl PinInit<T, E>, flags: Flags) -> Result<Pin<Self>, Error>
    where
        Error: From<E>,
    {
        let mut this = Self::new_uninit(flags)?;
        // SAFETY: As above, and the value is pinned.
        unsafe {
            init.__pinned_init(this.0.as_mut_ptr())?;
            Ok(Pin::new_unchecked(Self(this.0.assume_init())))
        }
    }
}

impl<T: ?Sized> KBox<T> {
    pub fn into_raw(this: Self) -> *mut T {
        Box::into_raw(this.0)
    }

    pub unsafe fn from_raw(raw: *mut T) -> Self {
        // SAFETY: The caller got it of `into_raw()`.
        Self(unsafe { Box::from_raw(raw) })
    }
}

impl<T: ?Sized> Deref for KBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for KBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A vector that grows only if it is told to.
pub struct KVec<T> {
    items: Vec<T>,
    capacity: usize,
}

pub type KVVec<T> = KVec<T>;

impl<T> KVec<T> {
    pub const fn new() -> Self {
        Self {
            items: Vec::new(),
            capacity: 0,
        }
    }

    pub fn with_capacity(capacity: usize, flags: Flags) -> Result<Self, AllocError> {
        let mut this = Self::new();
        this.reserve(capacity, flags)?;
        Ok(this)
    }

    pub fn from_elem(value: T, count: usize, flags: Flags) -> Result<Self, AllocError>
    where
        T: Clone,
    {
        let mut this = Self::with_capacity(count, flags)?;
        this.items.resize(count, value);
        Ok(this)
    }

    pub fn reserve(&mut self, additional: usize, _: Flags) -> Result<(), AllocError> {
        sim::might_sleep("allocation");
        let capacity = self.items.len() + additional;
        if capacity > self.capacity {
            allocate()?;
            self.items.reserve_exact(additional);
            self.capacity = capacity;
        }
        Ok(())
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn push(&mut self, item: T, flags: Flags) -> Result<(), AllocError> {
        if self.items.len() == self.capacity {
            self.reserve(self.capacity.max(4), flags)?;
        }
        self.items.push(item);
        Ok(())
    }

    pub fn push_within_capacity(&mut self, item: T) -> Result<(), PushError<T>> {
        if self.items.len() == self.capacity {
            return Err(PushError(item));
        }
        self.items.push(item);
        Ok(())
    }

    pub fn pop(&mut self) -> Option<T> {
        self.items.pop()
    }

    pub fn remove(&mut self, index: usize) -> Result<T, RemoveError> {
        if index < self.items.len() {
            Ok(self.items.remove(index))
        } else {
            Err(RemoveError)
        }
    }

    pub fn retain(&mut self, keep: impl FnMut(&mut T) -> bool) {
        self.items.retain_mut(keep);
    }

    pub fn drain_all(&mut self) -> impl Iterator<Item = T> + '_ {
        self.items.drain(..)
    }

    pub fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
    }

    pub fn clear(&mut self) {
        self.items.clear();
    }

    pub fn as_slice(&self) -> &[T] {
        &self.items
    }

    pub fn as_ptr(&self) -> *const T {
        self.items.as_ptr()
    }

    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.items.as_mut_ptr()
    }
}

impl<T> Default for KVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for KVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> DerefMut for KVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<'a, T> IntoIterator for &'a KVec<T> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut KVec<T> {
    type Item = &'a mut T;
    type IntoIter = core::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter_mut()
    }
}

impl<T> IntoIterator for KVec<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The items of the kernel crate's prelude, and its memory.

pub use crate::error::{code::*, Error, Result};
pub use pin_init::{pin_data, pin_init, PinInit};

use core::ops::{Deref, DerefMut};

#[derive(Clone, Copy)]
pub struct Flags;

pub const GFP_KERNEL: Flags = Flags;

pub struct KBox<T>(Box<T>);

impl<T> KBox<T> {
    pub fn new(value: T, _: Flags) -> Result<Self> {
        Ok(Self(Box::new(value)))
    }

    pub fn into_raw(this: Self) -> *mut T {
        Box::into_raw(this.0)
    }

    /// # Safety
    ///
    /// `raw` comes from `into_raw()`.
    pub unsafe fn from_raw(raw: *mut T) -> Self {
        // SAFETY: The caller's.
        Self(unsafe { Box::from_raw(raw) })
    }
}

impl<T> Deref for KBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for KBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

pub struct KVVec<T>(Vec<T>);

pub type KVec<T> = KVVec<T>;

impl<T> KVVec<T> {
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    pub fn with_capacity(capacity: usize, _: Flags) -> Result<Self> {
        Ok(Self(Vec::with_capacity(capacity)))
    }

    pub fn push(&mut self, item: T, _: Flags) -> Result {
        self.0.push(item);
        Ok(())
    }

    pub fn push_within_capacity(&mut self, item: T) -> Result<(), T> {
        if self.0.len() == self.0.capacity() {
            return Err(item);
        }
        self.0.push(item);
        Ok(())
    }

    pub fn pop(&mut self) -> Option<T> {
        self.0.pop()
    }
}

impl<T> Default for KVVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for KVVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for KVVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

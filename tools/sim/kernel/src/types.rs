// SPDX-License-Identifier: GPL-2.0

//! Values that C owns.

use core::{cell::UnsafeCell, marker::PhantomPinned, mem::MaybeUninit};
use pin_init::PinInit;

#[repr(transparent)]
pub struct Opaque<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    _pin: PhantomPinned,
}

// SAFETY: As in the kernel crate: the users say what may be done from where.
unsafe impl<T> Sync for Opaque<T> {}
// SAFETY: As above.
unsafe impl<T> Send for Opaque<T> {}

impl<T> Opaque<T> {
    pub const fn uninit() -> Self {
        Self {
            value: UnsafeCell::new(MaybeUninit::uninit()),
            _pin: PhantomPinned,
        }
    }

    pub fn ffi_init(init: impl FnOnce(*mut T)) -> impl PinInit<Self> {
        // SAFETY: C initializes the value.
        unsafe {
            pin_init::pin_init_from_closure(move |slot: *mut Self| {
                init(slot.cast());
                Ok(())
            })
        }
    }

    pub fn try_ffi_init<E>(init: impl FnOnce(*mut T) -> Result<(), E>) -> impl PinInit<Self, E> {
        // SAFETY: C initializes the value unless it fails.
        unsafe { pin_init::pin_init_from_closure(move |slot: *mut Self| init(slot.cast())) }
    }

    pub fn get(&self) -> *mut T {
        self.value.get().cast()
    }

    pub fn cast_into(this: *const Self) -> *mut T {
        this.cast_mut().cast()
    }
}

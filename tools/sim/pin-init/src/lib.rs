// SPDX-License-Identifier: GPL-2.0

//! Model of the kernel's pin-init: values that are made where they stay. crates.io has no version
//! that compiles the module.

use core::{
    convert::Infallible,
    marker::PhantomData,
    mem::{forget, MaybeUninit},
    pin::Pin,
};

pub use pin_init_macros::{pin_data, pinned_drop};

/// # Safety
///
/// The value is there if there is no error.
pub unsafe trait PinInit<T, E = Infallible>: Sized {
    /// # Safety
    ///
    /// `slot` has room for a value, which stays there.
    unsafe fn __pinned_init(self, slot: *mut T) -> Result<(), E>;
}

/// # Safety
///
/// As above, and the value may be moved.
pub unsafe trait Init<T, E = Infallible>: PinInit<T, E> {
    /// # Safety
    ///
    /// `slot` has room for a value.
    unsafe fn __init(self, slot: *mut T) -> Result<(), E> {
        // SAFETY: The caller's.
        unsafe { self.__pinned_init(slot) }
    }
}

// SAFETY: The value is moved to its place.
unsafe impl<T, E> PinInit<T, E> for T {
    unsafe fn __pinned_init(self, slot: *mut T) -> Result<(), E> {
        // SAFETY: The caller's.
        unsafe { slot.write(self) };
        Ok(())
    }
}

// SAFETY: As above.
unsafe impl<T, E> Init<T, E> for T {}

pub struct Closure<F, T, E>(F, PhantomData<fn() -> (T, E)>);

// SAFETY: Who makes it says so.
unsafe impl<T, E, F: FnOnce(*mut T) -> Result<(), E>> PinInit<T, E> for Closure<F, T, E> {
    unsafe fn __pinned_init(self, slot: *mut T) -> Result<(), E> {
        self.0(slot)
    }
}

// SAFETY: As above.
unsafe impl<T, E, F: FnOnce(*mut T) -> Result<(), E>> Init<T, E> for Closure<F, T, E> {}

/// # Safety
///
/// `f` makes the value, unless it fails.
pub unsafe fn pin_init_from_closure<T, E>(
    f: impl FnOnce(*mut T) -> Result<(), E>,
) -> impl PinInit<T, E> {
    Closure(f, PhantomData)
}

/// # Safety
///
/// As above, and the value may be moved.
pub unsafe fn init_from_closure<T, E>(f: impl FnOnce(*mut T) -> Result<(), E>) -> impl Init<T, E> {
    Closure(f, PhantomData)
}

/// Returns an initializer that `make` makes when the memory is there.
pub fn pin_init_scope<T, E, I: PinInit<T, E>>(
    make: impl FnOnce() -> Result<I, E>,
) -> impl PinInit<T, E> {
    // SAFETY: `slot` is passed on, to an initializer of the same type.
    unsafe { pin_init_from_closure(move |slot| make()?.__pinned_init(slot)) }
}

/// Returns a value of zero bytes, which is valid for the C structs that use this.
pub const fn zeroed<T>() -> T {
    // SAFETY: The C structs of the model consist of integers, pointers, and functions in an Option.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

pub trait PinnedDrop {
    fn drop(self: Pin<&mut Self>);
}

/// The fields that were made: they are dropped if a later one fails.
#[derive(Default)]
pub struct Made(Vec<Field>);

/// A field, and what drops it.
type Field = (*mut u8, unsafe fn(*mut u8));

impl Made {
    /// # Safety
    ///
    /// The field was made.
    pub unsafe fn add<T>(&mut self, field: *mut T) {
        // SAFETY: It is called once, with this field.
        let end = |field: *mut u8| unsafe { field.cast::<T>().drop_in_place() };
        self.0.push((field.cast(), end));
    }

    pub fn keep(mut self) {
        self.0.clear();
        forget(self);
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        while let Some((field, end)) = self.0.pop() {
            // SAFETY: See `add()`.
            unsafe { end(field) };
        }
    }
}

#[macro_export]
macro_rules! pin_init {
    ($(&$this:ident in)? $ty:ident {$($fields:tt)*}) => {
        $crate::pin_init!($(&$this in)? $ty {$($fields)*}? ::core::convert::Infallible)
    };
    ($(&$this:ident in)? $ty:ident {$($fields:tt)*}? $error:ty) => {
        $crate::make!(pin_init_from_closure, $(&$this in)? $ty {$($fields)*}? $error)
    };
}

#[macro_export]
macro_rules! init {
    ($ty:ident {$($fields:tt)*}) => {
        $crate::init!($ty {$($fields)*}? ::core::convert::Infallible)
    };
    ($ty:ident {$($fields:tt)*}? $error:ty) => {
        $crate::make!(init_from_closure, $ty {$($fields)*}? $error)
    };
}

#[macro_export]
macro_rules! make {
    ($how:ident, $(&$this:ident in)? $ty:ident {$($fields:tt)*}? $error:ty) => {{
        let init = move |slot: *mut $ty| -> ::core::result::Result<(), $error> {
            $(let $this = ::core::ptr::NonNull::new(slot).expect("the slot is there");)?
            let mut made = $crate::Made::default();
            $crate::fields!(slot, made, $error, $($fields)*);
            made.keep();
            Ok(())
        };
        // SAFETY: All fields are made, as the kernel's macro checks.
        unsafe { $crate::$how(init) }
    }};
}

#[macro_export]
macro_rules! fields {
    ($slot:ident, $made:ident, $error:ty, ) => {};
    ($slot:ident, $made:ident, $error:ty, $field:ident <- $init:expr $(, $($rest:tt)*)?) => {
        // SAFETY: The slot has room for all fields.
        unsafe {
            let field = &raw mut (*$slot).$field;
            $crate::PinInit::<_, _>::__pinned_init($init, field).map_err($crate::same::<_, $error>)?;
            $made.add(field);
        }
        $crate::fields!($slot, $made, $error, $($($rest)*)?);
    };
    ($slot:ident, $made:ident, $error:ty, $field:ident : $value:expr $(, $($rest:tt)*)?) => {
        let value = $value;
        // SAFETY: The slot has room for all fields.
        unsafe {
            let field = &raw mut (*$slot).$field;
            field.write(value);
            $made.add(field);
        }
        $crate::fields!($slot, $made, $error, $($($rest)*)?);
    };
    ($slot:ident, $made:ident, $error:ty, $field:ident $(, $($rest:tt)*)?) => {
        $crate::fields!($slot, $made, $error, $field: $field, $($($rest)*)?);
    };
}

/// Converts the error of a field.
pub fn same<F, E: From<F>>(error: F) -> E {
    error.into()
}

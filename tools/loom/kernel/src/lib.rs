// SPDX-License-Identifier: GPL-2.0

//! Model of the kernel crate: what the lock-free parts of the module use of it, over loom.
//!
//! loom runs a test once for each order of its threads, and for each store that a load may see. So
//! weak memory is modelled, unlike in tools/sim.

pub mod error;
pub mod ffi {
    //! Types of C.
    pub use core::ffi::c_void;
}
pub mod prelude;
pub mod sync;

pub use error::{Error, Result};

#[macro_export]
macro_rules! new_spinlock {
    ($value:expr, $name:literal) => {
        $crate::sync::SpinLock::new($value)
    };
}

#[macro_export]
macro_rules! new_mutex {
    ($value:expr, $name:literal) => {
        $crate::sync::Mutex::new($value)
    };
}

#[macro_export]
macro_rules! pr_warn_once {
    ($($args:tt)*) => {
        eprint!($($args)*)
    };
}

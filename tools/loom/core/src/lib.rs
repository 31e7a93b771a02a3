// SPDX-License-Identifier: GPL-2.0

//! Model of the core library: all of it, but with the atomics of loom.
//!
//! The crate that includes the module's sources calls it `core`.

pub use ::core::*;

pub mod lazy;

pub mod sync {
    //! Synchronization, see [`atomic`].
    pub use ::core::sync::*;

    pub mod atomic;
}

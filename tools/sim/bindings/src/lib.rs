// SPDX-License-Identifier: GPL-2.0

//! Model of what the module takes from C: the types and functions that its crates use.
//!
//! `memory` has pages and their DMA mappings; `device`, `cq`, `verbs` and `cm` what the RDMA core has,
//! and `engine` and `link` the device and the peer behind that; `svc`, `nfsd`, `defer`, `callback` and
//! `client` sunrpc's server; `system` the rest.

#![allow(
    clippy::missing_safety_doc,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals
)]

pub mod callback;
mod client;
pub mod cm;
pub mod compound;
pub mod cq;
mod defer;
pub mod device;
mod engine;
pub mod link;
pub mod memory;
pub mod nfsd;
pub mod svc;
pub mod system;
pub mod trace;
pub mod verbs;

pub use callback::*;
pub use cm::*;
pub use compound::*;
pub use cq::*;
pub use device::*;
pub use kernel::bindings::*;
pub use memory::*;
pub use nfsd::*;
pub use svc::*;
pub use system::*;
pub use trace::*;
pub use verbs::*;

/// A pointer that tasks share: all are in one thread of the host.
pub struct Ptr<T>(pub *mut T);

// SAFETY: All tasks are in one thread of the host.
unsafe impl<T> Send for Ptr<T> {}

impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ptr<T> {}

impl<T> PartialEq for Ptr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Ptr<T> {
    /// Makes an object that stays until the process ends, so that its flags tell of a late use.
    pub fn new(value: T) -> Self {
        Self(Box::into_raw(Box::new(value)))
    }

    /// Returns the object. No reference is kept over a scheduling point.
    pub fn get<'a>(self) -> &'a mut T {
        // SAFETY: Objects stay, see `new()`.
        unsafe { &mut *self.0 }
    }
}

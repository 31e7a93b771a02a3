// SPDX-License-Identifier: GPL-2.0

//! Tests of the lock-free parts of the module with loom.
//!
//! The sources are those of the module. The crates that these name are models, or this crate itself.

#![cfg(test)]
#![allow(dead_code, reason = "the tests use a part of each source")]
#![allow(clippy::all, reason = "make clippy checks these sources in the module")]

extern crate self as bindings;
extern crate self as sunrpc;
extern crate self as support;

pub mod callback;
pub mod compat;
mod device;
#[path = "../../../rust/support/figure.rs"]
pub mod figure;
#[path = "../../../rust/support/free_list.rs"]
pub mod free_list;
pub mod recv;
#[path = "../../../rust/support/ring.rs"]
pub mod ring;
mod svc;
mod tests;
mod verbs;

pub use verbs::{ib_cqe, ib_post_recv, ib_qp, ib_recv_wr};

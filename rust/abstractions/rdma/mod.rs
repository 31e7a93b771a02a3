// SPDX-License-Identifier: GPL-2.0

//! The RDMA core: verbs and the connection manager.
//!
//! What belongs to a device is dropped before the device's removal ends. Objects hold what they
//! are made of ([`device::Pd`] holds the device registered), so a mistake in that order makes the
//! removal wait; it never leaves a pointer to what is gone.

pub(crate) mod chain;
pub(crate) mod client;
pub(crate) mod cm;
pub(crate) mod completion;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod fifo;
pub(crate) mod progress;
pub(crate) mod qp;
pub(crate) mod receive;
pub(crate) mod receive_budget;
mod receive_chain;
pub(crate) mod receive_pool;
pub(crate) mod registration;
mod slots;
pub(crate) mod transfer;
pub(crate) mod work;

use super::bindings;

/// A plain C structure for which all zeros is a value: integers, and pointers that may be null.
///
/// # Safety
///
/// As said.
unsafe trait Plain {}

// SAFETY: Integers and pointers, also in its unions.
unsafe impl Plain for bindings::ib_rdma_wr {}
// SAFETY: As above.
unsafe impl Plain for bindings::ib_reg_wr {}
// SAFETY: As above.
unsafe impl Plain for bindings::ib_recv_wr {}

/// All zeros, which C's initializers leave where they name nothing.
fn zeroed<T: Plain>() -> T {
    // SAFETY: By the contract of `Plain`.
    unsafe { core::mem::zeroed() }
}

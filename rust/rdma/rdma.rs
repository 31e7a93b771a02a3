// SPDX-License-Identifier: GPL-2.0

//! The RDMA core: verbs and the connection manager.
//!
//! What belongs to a device is dropped before the device's removal ends. Objects hold what they
//! are made of ([`device::Pd`] holds the device registered), so a mistake in that order makes the
//! removal wait; it never leaves a pointer to what is gone.

pub mod chain;
pub mod client;
pub mod cm;
pub mod completion;
pub mod cq;
pub mod device;
pub mod dma;
pub mod handler;
pub mod memory_region;
pub mod page_region;
pub mod progress;
pub mod qp;
pub mod receive;
pub mod receive_budget;
pub mod receive_buffer;
mod receive_chain;
pub mod receive_pool;
pub mod send_buffer;
pub mod send_queue;
mod slots;
pub mod work;

/// The prefix of log lines, which `kernel::prelude::pr_err!` and its siblings expect.
const __LOG_PREFIX: &[u8] = b"svcrdma\0";

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

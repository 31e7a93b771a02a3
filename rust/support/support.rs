// SPDX-License-Identifier: GPL-2.0

//! Parts of the kernel that its `kernel` crate does not cover yet and that both `rdma` and `sunrpc`, or
//! the transport, need.
//!
//! `rdma` and `sunrpc` do not depend on each other. Pages pass between them as the types of [`page`].

pub mod addr;
pub mod compat;
pub mod context;
pub mod debugfs;
pub mod page;
pub mod pernet;
pub mod ring;
pub mod sysctl;
pub mod trace;
pub mod workqueue;

/// The prefix of log lines, which `kernel::prelude::pr_err!` and its siblings expect.
const __LOG_PREFIX: &[u8] = b"svcrdma\0";

/// Whether a line may go to the log now: at most ten in five seconds.
pub fn ratelimit() -> bool {
    // SAFETY: The function has no preconditions.
    unsafe { bindings::ratelimit() }
}

/// Waits until each task has slept voluntarily or returned to user space (`synchronize_rcu_tasks`): no
/// task is still in a function that it was in before, not even preempted. Sleeps, for about a quarter of
/// a second.
pub fn wait_for_tasks() {
    // SAFETY: The function has no preconditions but that it may sleep.
    unsafe { bindings::wait_for_tasks() };
}

// SPDX-License-Identifier: GPL-2.0

//! Safe types over C objects: all unsafe code of the module, and nothing of the protocol.
//!
//! `sunrpc` and `rdma` do not know each other: what passes between them is in `page` and `context`.

#[path = "../bindings/mod.rs"]
mod bindings;

pub(crate) mod addr;
pub(crate) mod context;
pub(crate) mod debugfs;
pub(crate) mod page;
pub(crate) mod pernet;
pub(crate) mod rdma;
pub(crate) mod ring;
pub(crate) mod sunrpc;
pub(crate) mod sysctl;
pub(crate) mod trace;
pub(crate) mod workqueue;

/// Whether a line may go to the log now: at most ten in five seconds.
pub(crate) fn ratelimit() -> bool {
    // SAFETY: The function has no preconditions.
    unsafe { bindings::ratelimit() }
}

/// Waits until each task has slept voluntarily or returned to user space (`synchronize_rcu_tasks`): no
/// task is still in a function that it was in before, not even preempted. Sleeps, for about a quarter of
/// a second.
pub(crate) fn wait_for_tasks() {
    // SAFETY: The function has no preconditions but that it may sleep.
    unsafe { bindings::wait_for_tasks() };
}

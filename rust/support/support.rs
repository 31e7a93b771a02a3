// SPDX-License-Identifier: GPL-2.0

//! The parts of the kernel that its `kernel` crate does not cover yet and that this module needs.
//!
//! Each module would be a module of the `kernel` crate, or become unnecessary with one:
//!
//! | module | content | missing in the `kernel` crate |
//! |---|---|---|
//! | [`addr`] | socket addresses, network namespaces | `struct sockaddr`, `struct net` |
//! | [`free_list`] | small sets of boxes without a lock | |
//! | [`compat`] | differences between the supported kernels | some errnos in older kernels |
//! | [`context`] | the trait of a Call that C holds while nfsd processes it | |
//! | [`debugfs`] | files in debugfs | files that hold their module while they are open |
//! | [`figure`] | numbers that one thread changes and others read | inlined loads and stores of atomics |
//! | [`page`] | pages with a single owner | taking over a page that C has allocated |
//! | [`pernet`] | one value for each network namespace | `struct pernet_operations` |
//! | [`ring`] | bounded queues that never allocate | preallocated queues |
//! | [`stream`] | byte streams over pages | shared ownership of pages by reference count |
//! | [`sysctl`] | files below `/proc/sys` | `struct ctl_table` |
//! | [`sysctl_text`] | texts in such files | as above |
//! | [`trace`] | the trace events of this module | |
//! | [`workqueue`] | workqueues of the module, periodic work | creating a workqueue; delayed work that repeats |
//!
//! The crate lies below `rdma`, `sunrpc` and the transport. `rdma` and `sunrpc` do not depend on
//! each other: pages pass between them as a [`stream`], and Calls as a [`context`].
//!
//! C headers: [`include/linux/ratelimit.h`](srctree/include/linux/ratelimit.h),
//! [`include/linux/rcupdate.h`](srctree/include/linux/rcupdate.h)

pub mod addr;
pub mod compat;
pub mod context;
pub mod debugfs;
pub mod figure;
pub mod free_list;
pub mod page;
pub mod pernet;
pub mod ring;
pub mod stream;
pub mod sysctl;
pub mod sysctl_text;
pub mod trace;
pub mod workqueue;

/// The prefix of log lines, which `kernel::prelude::pr_err!` and its siblings expect.
const __LOG_PREFIX: &[u8] = b"svcrdma\0";

/// A limit of the log lines of one kind: ten lines in five seconds, for the whole module. A flood of
/// one kind does not suppress the lines of another.
#[derive(Clone, Copy)]
pub enum RateLimit {
    /// Lines about refused connect requests, of which any host can cause a flood.
    Refusals,
    /// Lines about closed connections.
    Closes,
    /// All other lines.
    Others,
}

impl RateLimit {
    /// Returns true if another line of this kind may be logged now. Any context.
    pub fn allows(self) -> bool {
        let line = match self {
            Self::Refusals => bindings::svcrdma_line_SVCRDMA_LINE_REFUSAL,
            Self::Closes => bindings::svcrdma_line_SVCRDMA_LINE_CLOSE,
            Self::Others => bindings::svcrdma_line_SVCRDMA_LINE_OTHER,
        };
        // SAFETY: The function has a state for each of these values.
        unsafe { bindings::ratelimit(line) }
    }
}

/// Returns the number of CPUs that are online. Any context.
pub fn online_cpus() -> u32 {
    // SAFETY: The function has no preconditions.
    unsafe { bindings::online_cpus() }
}

/// Waits until each task of the system has slept voluntarily or returned to user space
/// (`synchronize_rcu_tasks`).
///
/// Afterwards no task is still in a function that it was in before the call, not even preempted.
///
/// # Context
///
/// Process context. Sleeps for about a quarter of a second.
pub fn wait_for_tasks() {
    // SAFETY: The function may sleep, and has no other precondition.
    unsafe { bindings::wait_for_tasks() };
}

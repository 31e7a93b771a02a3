// SPDX-License-Identifier: GPL-2.0

//! The server side of `sunrpc`: transports, their classes, and the requests that nfsd handles.

pub mod backchannel;
pub mod callback;
mod carrier;
pub mod class;
mod classes;
pub mod inbox;
mod ops;
mod register;
pub mod results;
pub mod rqst;
pub mod xprt;

/// The prefix of log lines, which `kernel::prelude::pr_err!` and its siblings expect.
const __LOG_PREFIX: &[u8] = b"svcrdma\0";

/// Waits until nfsd threads that have just started have looked at the listeners, which they do
/// without a lock (fs/nfsd/nfssvc.c, `nfsd`): nfsd does not expect one to go while it runs. A
/// listener that goes nevertheless, and is not on the list any more, waits like this before it is
/// freed. Sleeps.
pub fn wait_for_new_threads() {
    support::wait_for_tasks();
}

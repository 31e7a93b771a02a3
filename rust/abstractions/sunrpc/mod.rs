// SPDX-License-Identifier: GPL-2.0

//! The server side of `sunrpc`: transports, their classes, and the requests that nfsd handles.

pub(crate) mod backchannel;
mod carrier;
pub(crate) mod class;
pub(crate) mod inbox;
mod ops;
pub(crate) mod results;
pub(crate) mod rqst;
pub(crate) mod xprt;

/// Waits until nfsd threads that have just started have looked at the listeners, which they do
/// without a lock (fs/nfsd/nfssvc.c, `nfsd`): nfsd does not expect one to go while it runs. A
/// listener that goes nevertheless, and is not on the list any more, waits like this before it is
/// freed. Sleeps.
pub(crate) fn wait_for_new_threads() {
    super::wait_for_tasks();
}

// SPDX-License-Identifier: GPL-2.0

use rdma::{
    cm::Events,
    handler::Handler,
    send::{
        queue::{SendQueue, Stop},
        work::Work,
    },
};

/// Posts `work`. Returns false if the connection is to be closed.
pub fn post<W: Work, H: Handler, E: Events>(queue: &SendQueue<W, H, E>, work: W) -> bool {
    // The lock is released at the end of this statement.
    let posted = queue.lock().post(work);
    match posted {
        // A later completion makes room and posts the rest.
        Ok(Stop::Idle | Stop::Full | Stop::Unmapped) => true,
        Ok(Stop::Failed(_)) => false,
        // Too much work waits, or the queue is shut. The work is dropped here, without the lock.
        Err(_refused) => false,
    }
}

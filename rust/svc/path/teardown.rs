// SPDX-License-Identifier: GPL-2.0

//! Teardown: destroys the queue pair of a closing connection, and its id when the peer has
//! confirmed the disconnect.
//!
//! # Context
//!
//! The module's workqueue; everything here may sleep.

use super::{
    complete::finish,
    deliver::discard, //
};
use crate::svc::conn::{
    connection::Connection,
    endpoint::Endpoint,
    work::Outcome, //
};
use kernel::{
    sync::Arc,
    workqueue::WorkItem, //
};
use rdma::cm::CmId;
use support::trace;
use svcrdma_proto::phase::Doomed;

impl WorkItem for Connection {
    type Pointer = Arc<Connection>;

    /// Tears down the part of the connection that its phase has marked for it, and removes the
    /// connection from the device when nothing is left.
    fn run(this: Arc<Connection>) {
        let (doomed, channel, counted) = {
            let mut state = this.state.lock();
            let (doomed, channel) = (state.phase.take_doomed(), state.channel.take());
            (doomed, channel, state.counted.take())
        };
        drop(channel);
        let id = match doomed {
            // With iWARP, destroying the queue pair ends the connection, and there is no confirmation.
            Doomed::Half(endpoint) => {
                destroy_qp(&endpoint).filter(|_| this.device.has_confirmations())
            }
            Doomed::Id(id) => {
                drop(id);
                None
            }
            Doomed::Unsettled | Doomed::Nothing => None,
        };
        drop(counted);
        if let Some(id) = id {
            if leave(&this, id) {
                return;
            }
        }
        if this.state.lock().phase.end() {
            this.device.forget(this.number());
            trace::dead(this.number());
        }
    }
}

/// Disconnects, destroys the queue pair, and ends all its work. Returns the id, which outlives the
/// queue pair.
fn destroy_qp(endpoint: &Arc<Endpoint>) -> Option<CmId<Connection>> {
    let connection = &endpoint.connection;
    let borrow = endpoint.as_arc_borrow();
    let id = endpoint
        .send_queue
        .shut(|work| finish(borrow, work, Outcome::Flushed));
    endpoint.drop_replies();
    drop(endpoint.answers.close());
    // Not counted as dropped Calls: most of these messages are no Calls.
    while let Some(message) = endpoint.answers.give_up() {
        drop(message);
    }
    endpoint.place.leave();
    while let Some(call) = endpoint.quota.pop() {
        discard(connection, call);
    }
    let device = &connection.device;
    if device.pool.forget(connection.number()) {
        device.want_refill();
    }
    id
}

/// Keeps the id until the peer has confirmed the disconnect. Returns false, and drops the id, if no
/// confirmation is due.
///
/// Destroying an id cancels a disconnect request that was not sent yet, and ends the retransmission
/// of a lost request. A peer that does not learn of the disconnect waits for its Replies until it
/// times out. The request cannot be sent before the peer has confirmed that it was accepted, so it
/// may be pending for some time.
fn leave(connection: &Arc<Connection>, id: CmId<Connection>) -> bool {
    let refused = {
        let mut state = connection.state.lock();
        if state.has_peer {
            state.waited = 0;
            state.phase.leave(id).err()
        } else {
            Some(id)
        }
    };
    // A refused id is dropped when this returns, after the lock was released: destroying an id
    // sleeps.
    if refused.is_some() {
        return false;
    }
    connection.device.leave(connection.number());
    true
}

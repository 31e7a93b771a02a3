// SPDX-License-Identifier: GPL-2.0

//! Teardown: destroys the queue pair of a closing connection, and its id once the peer has confirmed the
//! disconnect.
//!
//! Context: the workqueue; everything here may sleep.

use super::{
    dispatch::finish,
    handoff::discard, //
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

    /// Tears down what is doomed.
    fn run(this: Arc<Connection>) {
        let (doomed, channel, counted) = {
            let mut state = this.state.lock();
            let (doomed, channel) = (state.phase.take_doomed(), state.channel.take());
            (doomed, channel, state.counted.take())
        };
        drop(channel);
        let id = match doomed {
            Doomed::Half(endpoint) => destroy_qp(&endpoint),
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
            this.lane.forget(this.number());
            trace::dead(this.number());
        }
    }
}

/// Disconnects, destroys the queue pair, and gives back all work. Returns the id that is left.
fn destroy_qp(endpoint: &Arc<Endpoint>) -> Option<CmId<Connection>> {
    let connection = &endpoint.connection;
    let borrow = endpoint.as_arc_borrow();
    let id = endpoint
        .send_queue
        .shut(|work| finish(borrow, work, Outcome::Flushed));
    while let Some(call) = endpoint.take_unread() {
        discard(connection, call);
    }
    let lane = &connection.lane;
    if lane.pool.forget(connection.number()) {
        lane.want_refill();
    }
    id
}

/// Keeps the id until the peer has confirmed the disconnect. Returns false, and drops the id, if there is
/// nothing to wait for.
///
/// Destroying an id cancels its disconnect request if that was not sent yet, and stops its repetition if it
/// was lost: a peer that awaits a Reply would wait until it gives up. The request also cannot be sent before
/// the peer has confirmed that it was accepted.
fn leave(connection: &Arc<Connection>, id: CmId<Connection>) -> bool {
    // iWARP ends the connection with the queue pair.
    if !connection.lane.has_confirmations {
        return false;
    }
    let refused = {
        let mut state = connection.state.lock();
        match state.has_peer {
            true => {
                state.waited = 0;
                state.phase.leave(id).err()
            }
            false => Some(id),
        }
    };
    // The id is dropped here, not under the lock.
    if refused.is_some() {
        return false;
    }
    connection.lane.leave(connection.number());
    true
}

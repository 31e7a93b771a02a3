// SPDX-License-Identifier: GPL-2.0

//! Taking a connection down: first the queue pair, and the id when the peer knows of the end.

use crate::svc::conn::{
    connection::Connection,
    phase::{
        Doomed,
        Phase, //
    },
};
use kernel::{
    sync::Arc,
    workqueue::WorkItem, //
};
use rdma::cm::CmId;
use support::trace;

/// How long a peer is waited for that is to confirm the end, in seconds. It is told again after the time
/// that it has asked for when it connected: four seconds with Linux (`CMA_CM_RESPONSE_TIMEOUT` in
/// drivers/infiniband/core/cma.c).
pub(crate) const LEAVING_SECONDS: u32 = 10;

impl Connection {
    /// Keeps the id until the peer has confirmed the disconnect, for [`LEAVING_SECONDS`] at most.
    /// Destroying an id cancels its disconnect request if that was not sent yet, and ends its repetition
    /// if it was lost: a peer that awaits a reply would wait until it gives up. The request also cannot be
    /// sent before the peer has confirmed that it was accepted. Returns false, and drops the id, if there
    /// is nothing to wait for.
    fn leave(self: &Arc<Self>, id: CmId<Connection>) -> bool {
        let mut state = self.state.lock();
        if !state.has_peer {
            // The id is dropped when this returns, not under the lock.
            drop(state);
            return false;
        }
        state.waited = 0;
        let before = core::mem::replace(&mut state.phase, Phase::Leaving(id));
        drop(state);
        drop(before);
        self.device.leave(self.number());
        true
    }

    /// The peer has confirmed the disconnect, or is waited for no longer. In any process context.
    pub(crate) fn hang_up(self: &Arc<Self>) {
        let is_doomed = {
            let mut state = self.state.lock();
            state.has_peer = false;
            state.phase.hang_up()
        };
        if is_doomed {
            self.take_down();
        }
    }

    /// Has the workqueue take down what is doomed: once.
    pub(crate) fn take_down(self: &Arc<Self>) {
        // An error would mean that it is queued already.
        let _ = self.queue.enqueue(self.clone());
    }
}

impl WorkItem for Connection {
    type Pointer = Arc<Connection>;

    /// Takes a closing connection down: first the queue pair, and the id when the peer knows. Sleeps.
    fn run(this: Arc<Connection>) {
        let (doomed, channel, counted) = {
            let mut state = this.state.lock();
            let (doomed, channel) = (state.phase.take_doomed(), state.channel.take());
            (doomed, channel, state.counted.take())
        };
        drop(channel);
        let told = match doomed {
            Doomed::Endpoint(endpoint) => {
                let id = endpoint.take_down();
                id.filter(|_| this.device.has_confirmations())
            }
            Doomed::Id(id) => {
                drop(id);
                None
            }
            Doomed::Unsettled | Doomed::Nothing => None,
        };
        drop(counted);
        if told.is_some_and(|id| this.leave(id)) {
            return;
        }
        this.state.lock().phase = Phase::Dead;
        this.device.forget(this.number());
        trace::dead(this.number());
    }
}

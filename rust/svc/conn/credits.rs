// SPDX-License-Identifier: GPL-2.0

//! Credits: what a connection's messages do to them, under the lock of its state.

use super::connection::Connection;
use crate::svc::close_reason::CloseReason;
use kernel::sync::Arc;

impl Connection {
    /// A Call has come that asks for so many credits, if that is known; none if it is one too many.
    pub(crate) fn count_call(self: &Arc<Self>, requested: Option<u32>) -> Option<CallCredit> {
        let mut state = self.state.lock();
        state.calls = state.calls.wrapping_add(1);
        let counted = state.credits.on_call(requested);
        drop(state);
        counted.ok().map(|()| CallCredit(self.clone()))
    }

    /// A message has come that costs no credit and that nobody waits for: too many of them end the
    /// connection.
    pub(crate) fn count_unasked(self: &Arc<Self>) {
        let counted = self.state.lock().credits.on_unasked();
        if counted.is_err() {
            self.close(CloseReason::Unasked);
        }
    }

    /// A Call gets its Reply. Returns the credits to grant with it, at most `most` and as many as there
    /// are buffers for, and whether more buffers are to be made.
    pub(crate) fn count_reply(&self, most: u32) -> (u32, bool) {
        let mut state = self.state.lock();
        let granted = state.credits.on_reply(most);
        (granted, state.credits.asks_for_more())
    }

    /// Looks at how the client uses its credits, as is done every now and then. Returns the credits that
    /// there should be Receive buffers for.
    pub(crate) fn look(&self) -> u32 {
        self.state.lock().credits.look()
    }

    /// Returns the credits that there should be Receive buffers for.
    pub(crate) fn wanted_credits(&self) -> u32 {
        self.state.lock().credits.wanted()
    }

    /// Returns the credits that there are Receive buffers for.
    pub(crate) fn backed(&self) -> u32 {
        self.state.lock().credits.backed()
    }

    /// There are posted Receive buffers for `backed` credits.
    pub(crate) fn set_backed(&self, backed: u32) {
        self.state.lock().credits.set_backed(backed);
    }

    /// How many of its Calls have no reply that is posted.
    pub(crate) fn unanswered(&self) -> u32 {
        self.state.lock().credits.unanswered()
    }
}

/// A Call that counts against its connection's credits. It goes with the Call, which is dropped when
/// the last work request of its reply is about to be posted, and before its Receive buffer is: the
/// client's next Call finds room. Dropping it takes the connection's lock.
pub(crate) struct CallCredit(Arc<Connection>);

impl Drop for CallCredit {
    fn drop(&mut self) {
        self.0.state.lock().credits.on_end();
    }
}

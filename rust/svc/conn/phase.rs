// SPDX-License-Identifier: GPL-2.0

//! Phases: how far a connection is, with what is there only then.
//!
//! A connection goes through them in their order; one that is never accepted skips some. All of it
//! is under the lock of the connection's state.

use super::{
    connection::Connection,
    endpoint::Endpoint, //
};
use kernel::sync::Arc;
use rdma::cm::CmId;

/// The phase of a connection.
pub(crate) enum Phase {
    /// The peer waits to be accepted.
    Pending(CmId<Connection>),
    /// An nfsd thread has taken the id and accepts it.
    Accepting,
    /// Calls come in.
    Established(Arc<Endpoint>),
    /// The first cause is known; our workqueue takes the rest down.
    Closing(Doomed),
    /// The queue pair is gone; the peer has not confirmed yet that it knows.
    Leaving(CmId<Connection>),
    /// Nothing of the hardware is left.
    Dead,
}

/// What is to be taken down when a connection closes.
pub(crate) enum Doomed {
    /// An id that was not accepted, or whose queue pair is gone.
    Id(CmId<Connection>),
    /// An accepted connection.
    Endpoint(Arc<Endpoint>),
    /// What comes of accepting, which goes on: whoever does that says, with [`Phase::settle`].
    Unsettled,
    /// Nothing.
    Nothing,
}

impl Phase {
    /// Its name, for an admin.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Pending(_) => "pending",
            Self::Accepting => "accepting",
            Self::Established(_) => "established",
            Self::Closing(_) => "closing",
            Self::Leaving(_) => "leaving",
            Self::Dead => "dead",
        }
    }

    /// The hardware half of an established connection.
    pub(crate) fn endpoint(&self) -> Option<&Arc<Endpoint>> {
        match self {
            Self::Established(endpoint) => Some(endpoint),
            _ => None,
        }
    }

    /// Whether it closes, and can be taken down.
    pub(crate) fn is_doomed(&self) -> bool {
        matches!(
            self,
            Self::Closing(Doomed::Id(_) | Doomed::Endpoint(_) | Doomed::Nothing)
        )
    }

    /// Begins to accept what is pending, and returns its id.
    pub(crate) fn take_pending(&mut self) -> Option<CmId<Connection>> {
        match core::mem::replace(self, Self::Accepting) {
            Self::Pending(id) => Some(id),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Accepting has come to an end, with an endpoint that is posted to or with nothing. `true` if
    /// the connection has begun to close meanwhile, and is to be taken down now.
    pub(crate) fn settle(&mut self, endpoint: Option<&Arc<Endpoint>>) -> bool {
        match (&*self, endpoint) {
            (Self::Accepting, Some(endpoint)) => *self = Self::Established(endpoint.clone()),
            (Self::Closing(Doomed::Unsettled), endpoint) => {
                let doomed = endpoint.cloned().map_or(Doomed::Nothing, Doomed::Endpoint);
                *self = Self::Closing(doomed);
                return true;
            }
            _ => {}
        }
        false
    }

    /// Takes what is to be taken down; until it is, the connection closes.
    pub(crate) fn take_doomed(&mut self) -> Doomed {
        match core::mem::replace(self, Self::Closing(Doomed::Nothing)) {
            Self::Closing(doomed) => doomed,
            other => {
                *self = other;
                Doomed::Nothing
            }
        }
    }

    /// The peer knows that it is over, or is waited for no longer. `true` if the id is to be destroyed
    /// now.
    pub(crate) fn hang_up(&mut self) -> bool {
        match core::mem::replace(self, Self::Dead) {
            Self::Leaving(id) => {
                *self = Self::Closing(Doomed::Id(id));
                true
            }
            other => {
                *self = other;
                false
            }
        }
    }

    /// Begins to close; `false` if that was so already.
    pub(crate) fn close(&mut self) -> bool {
        let doomed = match core::mem::replace(self, Self::Dead) {
            Self::Pending(id) => Doomed::Id(id),
            Self::Accepting => Doomed::Unsettled,
            Self::Established(endpoint) => Doomed::Endpoint(endpoint),
            closed => {
                *self = closed;
                return false;
            }
        };
        *self = Self::Closing(doomed);
        true
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Events: the reports of the connection manager about a connection.
//!
//! # Context
//!
//! Workers of the connection manager, which may sleep.

use super::connection::Connection;
use crate::svc::close_reason::CloseReason;
use kernel::sync::{
    Arc,
    ArcBorrow, //
};
use rdma::cm::{
    Event,
    Events, //
};

impl Events for Connection {
    fn established(this: ArcBorrow<'_, Self>) -> bool {
        !this.is_closing()
    }

    fn event(this: ArcBorrow<'_, Self>, event: Event) {
        let connection: Arc<Connection> = this.into();
        match event {
            Event::Gone(event) => {
                connection.hang_up();
                connection.close(CloseReason::Peer(event));
            }
            // The peer does not know of the event, so it is still to be told and to confirm.
            Event::AddressGone(event) => connection.close(CloseReason::Peer(event)),
            Event::DeviceRemoval => connection.close(CloseReason::DeviceRemoved),
        }
    }
}

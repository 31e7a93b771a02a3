// SPDX-License-Identifier: GPL-2.0

//! Events: the reports of the connection manager about a connection, and the requests of the table.
//!
//! # Context
//!
//! Workers of the connection manager, which may sleep.

use super::connection::Connection;
use crate::svc::{
    close_reason::CloseReason,
    lane::table::Tenant, //
};
use kernel::sync::{
    Arc,
    ArcBorrow, //
};
use rdma::cm::{
    Event,
    Events, //
};

impl Tenant for Connection {
    fn number(&self) -> u64 {
        Connection::number(self)
    }

    fn host(&self) -> u64 {
        self.peer().host()
    }

    fn hang_up(self: &Arc<Self>) {
        Connection::hang_up(self);
    }
}

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

// SPDX-License-Identifier: GPL-2.0

//! Read requests: Calls that borrow pages for their Read chunks.

use super::{
    call::Call,
    connection::Connection,
    endpoint::Endpoint, //
};
use crate::svc::lane::table::Tenant;
use kernel::sync::Arc;

/// A Call that borrows pages, and the endpoint that reads into them.
pub(crate) struct ReadRequest {
    /// The endpoint of the Call's connection.
    pub(crate) endpoint: Arc<Endpoint>,
    /// The Call.
    pub(crate) call: Call,
}

impl Tenant for Connection {
    type Read = ReadRequest;

    fn number(&self) -> u64 {
        Connection::number(self)
    }

    fn hang_up(self: &Arc<Self>) {
        Connection::hang_up(self);
    }
}

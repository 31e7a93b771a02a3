// SPDX-License-Identifier: GPL-2.0

//! Read requests: Calls with the endpoint that is to read them.

use super::{
    call::Call,
    connection::Connection,
    endpoint::Endpoint, //
};
use crate::svc::lane::table::Tenant;
use kernel::sync::Arc;

/// A Call that waits for pages for its Read chunks.
pub(crate) struct ReadRequest {
    pub(crate) endpoint: Arc<Endpoint>,
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

// SPDX-License-Identifier: GPL-2.0

//! Listeners: nfsd's handle of a port.
//!
//! # Context
//!
//! Process context; everything here may sleep.

use super::{
    accept,
    admission::PLACES,
    port::{
        Incoming,
        Port, //
    },
    server::Server, //
};
use crate::svc::{
    close_reason::CloseReason,
    path::xprt::Xprt,
    settings, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};
use sunrpc::{
    inbox::{
        Flag,
        Inbox, //
    },
    xprt::{
        Listen,
        New,
        Transport, //
    },
};
use support::addr::{
    Addr,
    Net, //
};

/// nfsd's handle of a listener. The `svc_xprt` owns it, and both live equally long.
pub(crate) struct Listener {
    server: Arc<Server>,
    port: Arc<Port>,
}

impl Listen for Listener {
    type Context = Server;
    type Item = Incoming;
    type Connection = Xprt;

    fn create(
        server: &Arc<Server>,
        net: Net<'_>,
        addr: &Addr,
    ) -> Result<(Self, Arc<Inbox<Incoming>>, Addr)> {
        refuse_while_released(addr)?;
        let inbox = Inbox::new(PLACES.all, Flag::Conn)?;
        let port = server.new_port(net, inbox.clone())?;
        let server = server.clone();
        // After an error, dropping the listener closes the port and removes it from the table.
        let listener = Self { server, port };
        let local = listener.port.listen(addr)?;
        listener.server.ports.add(&listener.port)?;
        // `release` may have been set while `listen()` ran. If it is set later, `Ports::release()`
        // finds the port, and gives sunrpc the time to complete the listener.
        refuse_while_released(addr)?;
        Ok((listener, inbox, local))
    }

    fn accept(
        &self,
        listener: &Transport<Self, Incoming>,
        incoming: Incoming,
    ) -> Option<New<Xprt>> {
        accept::accept(listener, &incoming)
    }

    fn discard(&self, incoming: Incoming) {
        incoming.connection.close(CloseReason::ListenerGone);
    }

    fn detach(&self) {
        self.port.close();
    }
}

impl Drop for Listener {
    /// Closes the port, and the connections that were not accepted. Sleeps.
    fn drop(&mut self) {
        self.detach();
        // If `create()` failed, sunrpc has never had the inbox, and connections may wait in it.
        while let Some(incoming) = self.port.inbox.pop() {
            self.discard(incoming);
        }
        if self.port.is_released.load(Relaxed) {
            sunrpc::wait_for_new_threads();
        }
        self.server.ports.remove(&self.port);
        if settings::is_released() {
            self.server.release();
        }
    }
}

/// Refuses a new listener on `addr` while the setting `release` is 1.
///
/// # Errors
///
/// `EBUSY` if it is.
fn refuse_while_released(addr: &Addr) -> Result {
    if !settings::is_released() {
        return Ok(());
    }
    pr_err!("listener {}: refused: sunrpc/svcrdma/release is 1\n", addr);
    Err(EBUSY)
}

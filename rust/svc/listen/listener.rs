// SPDX-License-Identifier: GPL-2.0

//! Listeners: nfsd's handle of a port.

use super::{
    accept,
    port::{
        Incoming,
        Port,
        PENDING, //
    },
    server::Server, //
};
use crate::svc::{
    close_reason::CloseReason,
    flow::xprt::Xprt,
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

/// nfsd's side of a listener.
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
        refuse_while_released()?;
        let inbox = Inbox::new(PENDING, Flag::Conn)?;
        let port = server.new_port(net, inbox.clone())?;
        let server = server.clone();
        // On an error dropping it takes it off again.
        let listener = Self { server, port };
        let local = listener.port.listen(addr)?;
        // That may have taken its time, and sunrpc needs some more.
        listener.server.ports.add(&listener.port)?;
        refuse_while_released()?;
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
    /// Sleeps.
    fn drop(&mut self) {
        self.detach();
        // Who has come before sunrpc took it.
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

fn refuse_while_released() -> Result {
    if !settings::is_released() {
        return Ok(());
    }
    pr_err!("no listener while sunrpc/svcrdma/release is 1\n");
    Err(EBUSY)
}

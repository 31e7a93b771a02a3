// SPDX-License-Identifier: GPL-2.0

//! Accepts: create the queue pair and the transport of a connection that waits, and tell the peer.
//!
//! Each step that can fail precedes the message to the peer. An error unwinds by dropping the
//! objects that were created.
//!
//! # Context
//!
//! nfsd threads, which may sleep. One accept at a time per listener.

use super::port::Incoming;
use crate::svc::{
    close_reason::CloseReason,
    conn::{
        connection::Connection,
        endpoint::{
            self,
            Endpoint, //
        },
        receives::Receives,
        work::CHAIN, //
    },
    device::{
        capabilities::Capabilities,
        lane::Lane, //
    },
    path::{
        deliver::discard,
        xprt::Xprt, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    cm::CmId,
    cq::CqReservation,
    qp::{
        Parts,
        Qp, //
    },
    recv::{
        buffer::RECEIVE_SIZE,
        pool::ReceivePool, //
    },
};
use sunrpc::xprt::{
    Listen,
    New,
    Transport,
    Vacant, //
};
use support::{
    compat,
    page::PAGE_SIZE,
    trace, //
};
use svcrdma_proto::{
    cm::{
        Peer,
        Thresholds,
        DEFAULT_THRESHOLD, //
    },
    header::MAX_MESSAGE, //
};

/// The largest message that the server sends, in bytes.
const SEND_SIZE: u32 = 4096;

// A send buffer is one page, so it has room for every message.
const _: () = assert!(SEND_SIZE as usize <= PAGE_SIZE);

// The private data contains sizes in KiB, at most 256 KiB (RFC 8797, section 4.2). Other sizes
// would be rounded, and the peer would get a wrong size.
const _: () = assert!(SEND_SIZE % 1024 == 0 && RECEIVE_SIZE % 1024 == 0);
const _: () = assert!(SEND_SIZE as usize <= MAX_MESSAGE && RECEIVE_SIZE <= MAX_MESSAGE);

// A peer without private data sends and receives messages of up to this size.
const _: () = assert!(SEND_SIZE >= DEFAULT_THRESHOLD && RECEIVE_SIZE >= DEFAULT_THRESHOLD as usize);

/// Accepts the connection `incoming`. Returns nfsd's transport of it, or closes the connection and
/// returns `None`.
pub(super) fn accept<L: Listen<Item = Incoming, Connection = Xprt>>(
    listener: &Transport<L, Incoming>,
    incoming: &Incoming,
) -> Option<New<Xprt>> {
    let connection = &incoming.connection;
    let id = connection.take_pending()?;
    let accepted = try_accept(listener, incoming, id);
    accepted
        .inspect_err(|e| {
            trace::accept(
                connection.number(),
                e.to_errno(),
                0,
                0,
                0,
                connection.peer(),
            );
            connection.close(CloseReason::Accept(e.to_errno()));
            connection.settle(None);
            // Calls may have arrived already. No thread will take them.
            connection.inbox.close();
            while let Some(call) = connection.inbox.pop() {
                discard(connection, call);
            }
        })
        .ok()
}

/// Creates the hardware half and the transport of `connection`, and accepts the peer.
///
/// # Errors
///
/// - `ENODEV`: the device is being removed.
/// - `ENOTCONN`: the connection was closed meanwhile.
/// - Those of allocations and of the RDMA core.
fn try_accept<L: Listen<Item = Incoming, Connection = Xprt>>(
    listener: &Transport<L, Incoming>,
    Incoming { connection, .. }: &Incoming,
    id: CmId<Connection>,
) -> Result<New<Xprt>> {
    let vacant = Vacant::new()?;
    let (local, peer) = (id.local(), id.peer());
    // Dropped without the mutex of the device: destroying a queue pair waits for the capabilities.
    let mut refused = None;
    let device = &connection.device;
    let endpoint = device.with_pd(|pd| {
        let lane = device.choose_lane(pd)?;
        let receives = new_receives(&lane, connection)?;
        let cqs = device.reserve_cqs(&lane, receives.pool().max())?;
        let max_pages = match connection.offer.reads {
            // An RDMA Read would never complete. Calls without Read chunks need no pages.
            0 => 0,
            _ => listener.max_pages(),
        };
        let endpoint = new_endpoint(lane, connection, receives, &cqs, max_pages)?;
        let qp = new_qp(id, &endpoint, cqs)?;
        if let Err(e) = endpoint.receives.begin(connection.max_credits) {
            refused = Some(qp);
            return Err(e);
        }
        connect(connection, &endpoint, qp)?;
        Ok(endpoint)
    });
    drop(refused);
    let endpoint = endpoint?;
    connection.counters.accepted.inc();
    let inbox = connection.inbox.clone();
    let xprt = Xprt { endpoint };
    Ok(vacant.connection(listener, xprt, inbox, &local, &peer))
}

/// Creates the pool of Receive buffers of `connection`, without buffers.
fn new_receives(lane: &Lane, connection: &Connection) -> Result<Arc<Receives>> {
    let capabilities = &connection.device.capabilities;
    let max = capabilities.max_receives(connection.max_credits) as usize;
    let host = Arc::clone(&connection.host);
    let pool = ReceivePool::new(&lane.pd()?, max, host.receives().clone())?;
    Receives::new(pool, host)
}

/// Returns the properties that the server declares in its private data (RFC 8797).
fn declared(capabilities: &Capabilities) -> Peer {
    Peer {
        remote_invalidation: capabilities.limits.mem_mgt_extensions,
        send: SEND_SIZE,
        receive: RECEIVE_SIZE as u32,
    }
}

/// Creates the hardware half of `connection`. It does not post yet.
fn new_endpoint(
    lane: Arc<Lane>,
    connection: &Arc<Connection>,
    receives: Arc<Receives>,
    (receive_cq, send_cq): &(CqReservation, CqReservation),
    max_pages: u32,
) -> Result<Arc<Endpoint>> {
    let capabilities = &connection.device.capabilities;
    let thresholds = Thresholds::negotiate(&declared(capabilities), &connection.offer.peer);
    let parts = endpoint::Parts {
        lane,
        depth: capabilities.send_depth,
        thresholds,
        max_pages,
        copies: capabilities.copies,
        receives,
        queues: [receive_cq.health(), send_cq.health()],
    };
    Endpoint::new(connection.clone(), parts)
}

/// Creates the queue pair of `endpoint` on the id of the connection.
fn new_qp(
    id: CmId<Connection>,
    endpoint: &Arc<Endpoint>,
    (receive_cq, send_cq): (CqReservation, CqReservation),
) -> Result<Qp<Endpoint, Connection>> {
    let capabilities = &endpoint.connection.device.capabilities;
    let parts = Parts {
        pd: &endpoint.lane.pd()?,
        receives: endpoint.receives.pool(),
        receive_cq,
        send_cq,
        depth: capabilities.send_depth,
        chain: CHAIN,
        max_sge: capabilities.max_sge,
        max_read_sge: capabilities.max_read_sge,
    };
    Qp::new(id, endpoint.clone(), parts)
}

/// Accepts the peer, and opens the send queue of `endpoint`. Calls may arrive as soon as the peer
/// is told.
///
/// After an error the caller closes the connection, and the workqueue tears the endpoint down. The
/// teardown waits for the hardware, so it must not run here, under the mutex of the device.
///
/// # Errors
///
/// Those of the connection manager, or `ENOTCONN` if the connection was closed meanwhile.
fn connect(
    connection: &Arc<Connection>,
    endpoint: &Arc<Endpoint>,
    qp: Qp<Endpoint, Connection>,
) -> Result {
    let capabilities = &connection.device.capabilities;
    let reads = u32::from(connection.offer.reads).min(capabilities.limits.max_qp_init_rd_atom);
    let private = declared(capabilities).private_data();
    // Both precede the message to the peer, which may disconnect at once.
    trace_accepted(connection, endpoint);
    connection.set_has_peer(true);
    let accepted = qp
        .id()
        .accept(&private, u8::try_from(reads).unwrap_or(u8::MAX))
        .inspect_err(|_| connection.set_has_peer(false));
    endpoint.open(qp);
    connection.settle(Some(endpoint));
    endpoint.map_from_now();
    if connection.is_closing() {
        accepted.and(Err(compat::enotconn()))
    } else {
        accepted
    }
}

/// Records in the trace that the peer is accepted. If that fails, another event follows.
fn trace_accepted(connection: &Connection, endpoint: &Endpoint) {
    let Thresholds { receive, send, .. } = endpoint.thresholds;
    let credits = endpoint.credit_state().granted;
    let (number, peer) = (connection.number(), connection.peer());
    trace::accept(number, 0, receive, send, credits, peer);
}

// SPDX-License-Identifier: GPL-2.0

//! The transport: the way of a Call from the wire to nfsd and back.
//!
//! # Folders
//!
//! A folder imports only from those below it in this table, and from the files beside them.
//!
//! | folder | content |
//! |---|---|
//! | `listen` | listeners, connect requests, accepting; the server |
//! | `device` | RDMA devices, their hardware objects, their removal, shortages |
//! | `flow` | what happens to a Call, to its Reply, and to Calls to clients |
//! | `conn` | the state of one connection, and its hardware half |
//! | `lane` | what the connections of a device share: pools, budgets, the table of connections |
//!
//! Beside them are `settings` and `counters` (`/proc/sys/sunrpc/svcrdma`), `close_reason` and `history` (why
//! connections have closed), `watchdog`, and `debugfs`, which shows everything.
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | Call, Reply | RPC messages (RFC 5531). A Call of the server to a client is a *callback* (RFC 8167) |
//! | Read chunk, Write chunk, Reply chunk | memory of the peer that the server reads or writes (RFC 8166) |
//! | credit | the right of a client to have one Call unanswered; each granted credit is *backed* by a posted Receive buffer |
//! | connection | the state of one client connection |
//! | endpoint | the hardware half of a connection: queue pair, id, send queue |
//! | xprt | nfsd's handle of a connection (`struct svc_xprt`) |
//! | lane | what connections share on the path of a Call |
//! | page region | pages of one Call or Reply, and their DMA mapping |
//! | memory region | memory that is registered for RDMA Reads (iWARP) |
//! | sink | the page region that the Read chunks of a Call are read into |
//! | standing | `validated` once nfsd has accepted a Call of the peer, `unvalidated` before |
//! | line | the Calls of peers of one standing that wait for pages |
//! | quota | the read pages of one connection |
//! | space | the pages that Replies of one connection hold |
//! | close reason | why a connection was closed |

mod close_reason;
mod conn;
mod counters;
pub(crate) mod debugfs;
mod device;
mod flow;
mod history;
mod lane;
mod listen;
mod settings;
mod watchdog;

use kernel::{
    prelude::*,
    str::CStr, //
};

pub(crate) use device::{
    devices::Devices,
    hardware::ReadsInto, //
};
pub(crate) use listen::{
    listener::Listener,
    server::{
        Flush,
        Server, //
    },
};
pub(crate) use watchdog::{
    start as start_watchdog,
    Watchdog, //
};

/// The name of the transport in `portlist`, in nfsd's netlink family and in the RDMA core.
pub(crate) const CLASS: &CStr = c"rdma";

/// The number by which nfsd finds the transport of callbacks for connections of this class: "RS", because
/// rpcrdma has `XPRT_TRANSPORT_RDMA`.
pub(crate) const IDENT: c_int = 0x5253;

// SPDX-License-Identifier: GPL-2.0

//! The transport: carries Calls from the wire to nfsd, and Replies back.
//!
//! # Folders
//!
//! A folder imports only from those below it in this table, and from the files beside them.
//!
//! | folder | content |
//! |---|---|
//! | `listen` | listeners, connect requests, accepts; the state of the module |
//! | `path` | the path of a Call, of its Reply, and of callbacks; teardown |
//! | `conn` | the state of one connection, and its hardware half |
//! | `device` | RDMA devices: the objects that all connections share, or those of one completion vector |
//! | `pages` | what Calls and Replies borrow, the order in which they get it, and what hosts hold |
//!
//! | file | content |
//! |---|---|
//! | `settings`, `accept_from`, `counters` | the files in `/proc/sys/sunrpc/svcrdma` |
//! | `recent_peers` | the peers that were validated recently |
//! | `close_reason`, `history` | the reasons why connections were closed |
//! | `watchdog` | periodic work for a device, or for the listeners |
//! | `debugfs` | the files in `/sys/kernel/debug/svcrdma` |
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | Call, Reply | RPC messages (RFC 5531) |
//! | callback | a Call of the server to a client (RFC 8167) |
//! | Read chunk, Write chunk, Reply chunk | memory of the peer that the server reads or writes (RFC 8166) |
//! | credit | the right of a client to have one Call unanswered; a posted Receive buffer *backs* each granted credit |
//! | connection | the state of one client connection |
//! | endpoint | the hardware half of a connection: queue pair, id, send queue |
//! | id | the connection manager's handle of a connection or listener (`struct rdma_cm_id`) |
//! | xprt | nfsd's handle of a connection (`struct svc_xprt`) |
//! | port | the half of a listener that the connection manager calls |
//! | source | the unit by which waiting connect requests are counted: an IPv4 address, a /64 of IPv6, a GID of InfiniBand |
//! | device | an RDMA device, and the objects that its connections share |
//! | lane | the objects that the connections of one completion vector share on the path of a Call |
//! | page region | the pages of one Call or Reply, and their DMA mapping |
//! | memory region | memory that is registered for RDMA Reads (iWARP) |
//! | sink | the page region that the Read chunks of a Call are read into |
//! | Read buffer | the sink of one Call, with the pages that count as lent to it |
//! | host | the Reply pages and Receive buffers that the connections of one source hold |
//! | class | `validated` if a Call of the peer had a valid file handle, now or not long ago; otherwise `unvalidated` |
//! | line | the connections whose Calls wait for pages; one for each class |
//! | quota | the limit of the pages that one connection has for Read chunks |
//! | space | the pages that the Replies of one connection hold |
//! | look, tick | one run of a watchdog |
//! | close reason | the reason why a connection was closed |

mod accept_from;
mod close_reason;
mod conn;
mod counters;
pub(crate) mod debugfs;
mod device;
mod history;
mod latency;
mod listen;
mod pages;
mod path;
mod recent_peers;
mod settings;
mod watchdog;

use kernel::{
    prelude::*,
    str::CStr, //
};

pub(crate) use device::{
    capabilities::ReadsInto,
    devices::Devices, //
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

/// The number by which nfsd finds the transport of callbacks for connections of this class. It is
/// not `XPRT_TRANSPORT_RDMA`, which belongs to rpcrdma, but the characters "RS".
pub(crate) const IDENT: c_int = 0x5253;

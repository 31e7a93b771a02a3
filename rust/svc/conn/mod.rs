// SPDX-License-Identifier: GPL-2.0

//! Connections: the state of one client connection, and what Calls and Replies of it need.
//!
//! A connection has three parts, because three parties release it at different times:
//!
//! - `path::xprt::Xprt` is nfsd's handle and lives as long as the `svc_xprt`.
//! - [`endpoint`] is the hardware half: queue pair, id and send queue. It is torn down soon after
//!   the connection begins to close.
//! - [`connection`] is the state that the other two share.
//!
//! Four files have parts of `Endpoint`: `contexts` the Reply contexts, `patience` the time limits,
//! `reads` the judgement of its RDMA Reads, and `unmapped` the wait for DMA mappings.

pub(crate) mod answers;
pub(crate) mod call;
pub(crate) mod callbacks;
pub(crate) mod connection;
mod contexts;
pub(crate) mod endpoint;
mod events;
pub(crate) mod offer;
mod patience;
pub(crate) mod peer_class;
pub(crate) mod published;
pub(crate) mod quota;
mod reads;
pub(crate) mod receives;
pub(crate) mod sender;
pub(crate) mod space;
mod unmapped;
pub(crate) mod work;

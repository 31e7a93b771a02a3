// SPDX-License-Identifier: GPL-2.0

//! Listeners: the path from a connect request to an accepted connection.
//!
//! | step | file |
//! |---|---|
//! | nfsd creates a listener | `listener`, nfsd's handle of a `port` |
//! | a peer requests a connection | `admission` decides, `port` queues the connection |
//! | nfsd accepts the connection | `accept` |
//!
//! `ports` is the table of all ports. `server` owns this table and all other state of the module.

mod accept;
mod admission;
pub(crate) mod listener;
pub(crate) mod port;
pub(crate) mod ports;
pub(crate) mod server;

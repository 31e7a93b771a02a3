// SPDX-License-Identifier: GPL-2.0

//! Listeners: from a connect request to an accepted connection.
//!
//! | step | file |
//! |---|---|
//! | nfsd creates a listener | `listener`, the handle of a `port` |
//! | a peer asks to connect | `port` queues the connection |
//! | nfsd accepts it | `accept` |
//!
//! `ports` is the table of all ports, and `server` has it with all other state of the module.

mod accept;
pub(crate) mod listener;
pub(crate) mod port;
pub(crate) mod ports;
pub(crate) mod server;

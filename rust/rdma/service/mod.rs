// SPDX-License-Identifier: GPL-2.0

//! Servers: devices, accepts, jobs and teardown for a ULP whose code runs in process context.
//!
//! A ULP implements [`Service`](service::Service), which accepts peers, and [`Session`](service::Session),
//! which gets the messages of one peer and asks for jobs. A [`Server`](server::Server) does the rest: it
//! has the objects of each device, a queue pair and a protection domain for each connection, and the work
//! item that calls the session. It bounds what a peer can make the host allocate, by
//! [`Capacity`](service::Capacity), and ends connections when their peer, their device or the module goes.
//!
//! A ULP that answers in the completion handler, that shares buffers between connections, or that needs
//! more than 62 posted work requests uses the objects below this layer: [`crate::cm`], [`crate::qp`],
//! [`crate::send`].

mod connection;
mod devices;
mod handlers;
pub mod job;
pub mod peer;
pub mod server;
#[allow(clippy::module_inception)] // One noun for each file.
pub mod service;
mod transfer;

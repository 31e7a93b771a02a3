// SPDX-License-Identifier: GPL-2.0

//! Connections.
//!
//! A connection has three parts, because three parties let go of it at different times. `flow::xprt` has
//! nfsd's handle, which lives as long as the `svc_xprt`. An [`endpoint`] is the hardware half: queue pair,
//! id and send queue. A [`connection`] is what both need.

pub(crate) mod call;
pub(crate) mod callbacks;
pub(crate) mod connection;
pub(crate) mod credits;
pub(crate) mod endpoint;
pub(crate) mod quota;
pub(crate) mod read_request;
pub(crate) mod receives;
pub(crate) mod space;
pub(crate) mod standing;
pub(crate) mod work;

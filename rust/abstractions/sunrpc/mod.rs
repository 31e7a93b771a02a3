// SPDX-License-Identifier: GPL-2.0

//! The server side of `sunrpc`: transports, their classes, and the requests that nfsd handles.

pub(crate) mod backchannel;
mod carrier;
pub(crate) mod class;
pub(crate) mod inbox;
mod ops;
pub(crate) mod results;
pub(crate) mod rqst;
pub(crate) mod xprt;

// SPDX-License-Identifier: GPL-2.0

//! Connections: the state of one client connection, and its hardware half.

pub(crate) mod connection;
pub(crate) mod credits;
pub(crate) mod endpoint;
pub(crate) mod phase;
pub(crate) mod quota;
pub(crate) mod receives;
pub(crate) mod space;
pub(crate) mod standing;
pub(crate) mod work;

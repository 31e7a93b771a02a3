// SPDX-License-Identifier: GPL-2.0

//! Listeners: from a connect request to an accepted connection.

pub(crate) mod accept;
pub(crate) mod listener;
pub(crate) mod ports;

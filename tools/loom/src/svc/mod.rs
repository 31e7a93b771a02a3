// SPDX-License-Identifier: GPL-2.0

//! The parts of the transport.

pub(crate) mod conn;
pub(crate) mod pages;
pub(crate) mod settings;

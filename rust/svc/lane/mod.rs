// SPDX-License-Identifier: GPL-2.0

//! Lanes: what connections of one device share.

pub(crate) mod line;
pub(crate) mod pool;
pub(crate) mod refill;
pub(crate) mod stock;
pub(crate) mod table;

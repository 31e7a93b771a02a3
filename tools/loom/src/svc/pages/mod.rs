// SPDX-License-Identifier: GPL-2.0

//! Pages of connections.

#[path = "../../../../../rust/svc/pages/held.rs"]
mod held;
pub(crate) mod host;

// SPDX-License-Identifier: GPL-2.0

//! Connections.

pub(crate) mod call;
#[path = "../../../../../rust/svc/conn/callbacks.rs"]
pub(crate) mod callbacks;
#[path = "../../../../../rust/svc/conn/quota.rs"]
pub(crate) mod quota;
#[path = "../../../../../rust/svc/conn/receives.rs"]
pub(crate) mod receives;
#[path = "../../../../../rust/svc/conn/space.rs"]
pub(crate) mod space;

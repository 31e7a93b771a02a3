// SPDX-License-Identifier: GPL-2.0

//! Keeps connections while `svcrdma.ko` is replaced, so that their clients learn of it only when
//! the new one listens.
//!
//! A client that is disconnected connects again at once; if nobody listens then, it waits for
//! seconds before it tries once more. So the old module, told to `release` what it has, destroys
//! its queue pairs and hands the connections' ids to this one, and says nothing to the peers. They
//! find their messages unanswered and send them again and again for some seconds, as after a
//! packet that got lost. When this module is unloaded, it disconnects them all.
//!
//! Some clients do not wait for that, as they cannot repeat what they have sent, or are new. So this
//! module listens where the old one has; who asks for a connection is held, and told to ask again when
//! it is unloaded. scripts/upgrade does the steps.

use kernel::prelude::*;

#[path = "../abstractions"]
mod abstractions {
    #[path = "../bindings/mod.rs"]
    mod bindings;

    pub(crate) mod kept;
}

module! {
    type: Keep,
    name: "svcrdma_keep",
    authors: ["The svcrdma developers"],
    description: "Keeps RDMA connections while svcrdma is replaced",
    license: "GPL",
}

/// The module; dropping it disconnects.
struct Keep {
    _kept: abstractions::kept::Kept,
}

impl kernel::Module for Keep {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _kept: abstractions::kept::Kept::new()?,
        })
    }
}

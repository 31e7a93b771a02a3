// SPDX-License-Identifier: GPL-2.0

//! `/proc/sys/net/rdma_bulk`: who may connect, and counters.

use crate::accept_from::AcceptFrom;
use kernel::{
    prelude::*,
    str::CStr,
    sync::Arc, //
};
use support::{
    pernet::{
        Namespace,
        Namespaced, //
    },
    sysctl::{
        Counter,
        Entry,
        Files,
        Value, //
    },
    sysctl_text::TextRef, //
};

/// The directory of a network namespace.
pub(crate) struct Host {
    pub(crate) accept_from: AcceptFrom,
    /// Peers that were accepted and rejected, messages that have arrived, and connections
    /// that the module has closed.
    pub(crate) accepted: Counter,
    pub(crate) refused: Counter,
    pub(crate) messages: Counter,
    pub(crate) closed: Counter,
}

impl Namespaced for Host {
    fn new(_namespace: Namespace) -> Result<Arc<Self>> {
        let [accepted, refused, messages, closed] = [const { Counter::new() }; 4];
        let this = Self {
            accept_from: AcceptFrom::new()?,
            accepted,
            refused,
            messages,
            closed,
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }
}

impl Files for Host {
    const PATH: &'static CStr = c"net/rdma_bulk";

    fn files(&self) -> Result<KVec<Entry<'_>>> {
        let mut files = KVec::new();
        for (name, value) in [
            (c"accept_from", Value::Text(TextRef::new(&self.accept_from))),
            (c"accepted", Value::Counter(&self.accepted)),
            (c"messages", Value::Counter(&self.messages)),
            (c"closed", Value::Counter(&self.closed)),
            (c"refused", Value::Counter(&self.refused)),
        ] {
            files.push(Entry { name, value }, GFP_KERNEL)?;
        }
        Ok(files)
    }
}

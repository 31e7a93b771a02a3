// SPDX-License-Identifier: GPL-2.0

//! Counters: the read-only files of `/proc/sys/sunrpc/svcrdma`.
//!
//! Each network namespace has its own [`Counters`], which cover its listeners and their
//! connections. Counters of the host cover all namespaces and are shown in the initial namespace
//! only. Counters start at 0 when the module is loaded or the namespace is created; only the
//! numbers of present objects fall again. The files of a namespace include the [`settings`].
//!
//! # Context
//!
//! Any; counters are atomic.

use super::settings;
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
};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        /// The counters of one network namespace.
        pub(crate) struct Counters {
            /// The namespace.
            pub(crate) namespace: Namespace,
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        impl Counters {
            /// Returns the counters of `namespace`, all 0.
            fn of(namespace: Namespace) -> Self {
                Self {
                    namespace,
                    $($name: Counter::new(),)*
                }
            }

            /// Appends the files of these counters to `files`.
            fn add_to<'a>(&'a self, files: &mut KVec<Entry<'a>>) -> Result {
                $(
                    let value = Value::Counter(&self.$name);
                    files.push(Entry { name: $file, value }, GFP_KERNEL)?;
                )*
                Ok(())
            }
        }
    };
}

macro_rules! host_counters {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $($(#[$doc])* pub(crate) static $name: Counter = Counter::new();)*
        static HOST_COUNTERS: &[Entry<'_>] =
            &[$(Entry { name: $file, value: Value::Counter(&$name) }),*];
    };
}

counters! {
    /// Present connections, from the connect request until the queue pair is destroyed.
    connections = c"connections";
    /// Present listeners.
    listeners = c"listeners";
    /// Accepted connections.
    accepted = c"accepted";
    /// Rejected connect requests.
    rejected = c"rejected";
    /// Connections that were closed for an abnormal reason, see
    /// [`CloseReason::is_normal`](super::close_reason::CloseReason::is_normal).
    closed_abnormally = c"closed_abnormally";
    /// Received Calls whose transport header could be decoded.
    calls = c"calls";
    /// Calls that were dropped without a Reply, because nfsd dropped the request or the connection
    /// closed.
    calls_dropped = c"calls_dropped";
    /// Messages that could not be decoded or served. Some of them are answered.
    malformed = c"malformed";
    /// Messages that need no answer and match no waiting callback: replies, RDMA_ERRORs, RDMA_DONE.
    ignored = c"ignored";
    /// Replies that were submitted for sending, error Replies included.
    replies = c"replies";
    /// Error Replies that were submitted for sending.
    error_replies = c"error_replies";
    /// Callbacks that were submitted for sending.
    callbacks = c"callbacks";
    /// Callbacks that were not sent because they exceed the client's inline threshold.
    callbacks_too_large = c"callbacks_too_large";
    /// Attempts to send a callback without a credit of the client.
    callbacks_without_credit = c"callbacks_without_credit";
    /// Callbacks that a client has answered with RDMA_ERROR and that were reported to sunrpc as
    /// failed.
    callbacks_refused = c"callbacks_refused";
    /// Replies to callbacks that were passed to sunrpc.
    callback_replies = c"callback_replies";
    /// Bytes of Calls that were read by RDMA Read.
    read_bytes = c"read_bytes";
    /// Bytes of Replies that were written by RDMA Write.
    write_bytes = c"write_bytes";
    /// Work requests that were posted to send queues.
    work_requests = c"work_requests";
    /// Times that a Reply or an RDMA Read found its send queue full.
    send_queue_waits = c"send_queue_waits";
    /// Calls that waited for pages for their Read chunks.
    page_waits = c"page_waits";
    /// Times that nfsd left the Calls of a connection in the inbox because Replies held too many
    /// pages.
    reply_waits = c"reply_waits";
}

host_counters! {
    /// Present connections of all network namespaces.
    HOST_CONNECTIONS = c"host_connections";
    /// Present listeners of all network namespaces.
    HOST_LISTENERS = c"host_listeners";
    /// Allocations by nfsd threads for Replies, because the pool was empty or down to its reserve.
    POOL_MISSES = c"pool_misses";
}

impl Namespaced for Counters {
    // Out of line: the frame holds all counters while they are moved to the heap.
    #[inline(never)]
    fn new(namespace: Namespace) -> Result<Arc<Self>> {
        Ok(Arc::new(Self::of(namespace), GFP_KERNEL)?)
    }
}

impl Files for Counters {
    const PATH: &'static CStr = c"sunrpc/svcrdma";

    fn files(&self) -> Result<KVec<Entry<'_>>> {
        let mut files = KVec::new();
        self.add_to(&mut files)?;
        let (counters, limits) = match self.namespace.is_initial {
            true => (HOST_COUNTERS, settings::LIMITS),
            false => (&[] as &[_], settings::SHOWN_LIMITS),
        };
        for entry in [counters, limits].iter().copied().flatten() {
            files.push(*entry, GFP_KERNEL)?;
        }
        Ok(files)
    }
}

/// A guard that counts one connection as present until it is dropped.
pub(crate) struct Counted(Arc<Counters>);

impl Counted {
    /// Counts a connection in `counters` and in the counters of the host.
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        counters.connections.inc();
        HOST_CONNECTIONS.inc();
        Self(counters)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.dec();
        HOST_CONNECTIONS.dec();
    }
}

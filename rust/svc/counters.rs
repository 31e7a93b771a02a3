// SPDX-License-Identifier: GPL-2.0

//! What an admin can read and set: the files of `/proc/sys/sunrpc/svcrdma`.
//!
//! Each network namespace has [`Counters`] of its own, for its listeners and their connections.
//! What belongs to devices is the host's: its counters are shown in the initial namespace only, and
//! limits can be set there and read in all. Counters grow from insmod, or from the making of the
//! namespace on, but for those that say "now". Limits hold for all devices and take effect with the
//! next connection, Call or tick of the watchdog; that about memory region with a device's first
//! connection.

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
        /// The counters of a network namespace.
        pub(crate) struct Counters {
            /// Whose they are.
            pub(crate) namespace: Namespace,
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        impl Counters {
            fn of(namespace: Namespace) -> Self {
                Self {
                    namespace,
                    $($name: Counter::new(),)*
                }
            }

            /// Adds its own files.
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
    /// Connections that there are now, from the connect request until nothing of them is left.
    connections = c"connections";
    /// Listeners that there are now.
    listeners = c"listeners";
    /// Connections that were accepted.
    accepted = c"accepted";
    /// Connect requests that were turned away.
    rejected = c"rejected";
    /// Connections that ended for another reason than the peer's or the server's wish.
    closed_abnormally = c"closed_abnormally";
    /// Calls received.
    calls = c"calls";
    /// Calls that were decoded but came to nothing: no reply was sent.
    calls_dropped = c"calls_dropped";
    /// Messages that could not be decoded or served, answered or not.
    malformed = c"malformed";
    /// Messages that need no answer and that nobody waits for: replies, errors, RDMA_DONE.
    ignored = c"ignored";
    /// Replies made ready to be sent, error replies included.
    replies = c"replies";
    /// Error replies among them.
    error_replies = c"error_replies";
    /// Calls to clients (NFSv4.1 callbacks) sent.
    callbacks = c"callbacks";
    /// Such Calls that are larger than what the client takes: not sent.
    callbacks_too_large = c"callbacks_too_large";
    /// Such Calls for which the client has not granted a credit: not sent.
    callbacks_without_credit = c"callbacks_without_credit";
    /// Such Calls that a client has answered with an error of the transport.
    callbacks_refused = c"callbacks_refused";
    /// Replies of clients to them.
    callback_replies = c"callback_replies";
    /// Bytes of Calls that came by RDMA Read.
    read_bytes = c"read_bytes";
    /// Bytes of replies that went by RDMA Write.
    write_bytes = c"write_bytes";
    /// Work requests posted to send queues.
    work_requests = c"work_requests";
    /// Replies and Read chunks that had to wait for room in their send queue.
    send_queue_waits = c"send_queue_waits";
    /// Calls that had to wait for pages.
    page_waits = c"page_waits";
    /// Times that nfsd had to leave Calls because replies hold too many pages.
    reply_waits = c"reply_waits";
}

host_counters! {
    /// Connections that there are now, in all network namespaces.
    HOST_CONNECTIONS = c"host_connections";
    /// Listeners that there are now, in all network namespaces.
    HOST_LISTENERS = c"host_listeners";
    /// Allocations for a reply because a pool was empty.
    POOL_MISSES = c"pool_misses";
}

impl Namespaced for Counters {
    // They are many: they are to be on the stack here only.
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

/// Counts a connection until it is dropped.
pub(crate) struct Counted(Arc<Counters>);

impl Counted {
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

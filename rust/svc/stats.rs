// SPDX-License-Identifier: GPL-2.0

//! What an admin can read and set: the files of `/proc/sys/sunrpc/svcrdma`.
//!
//! Counters grow from insmod on, but for those that say "now". Limits hold for all devices and
//! take effect with the next connection, Call or tick of the watchdog.

use crate::abstractions::sysctl::{
    Counter,
    Entry,
    Limit,
    Sysctl,
    Value, //
};
use kernel::{
    prelude::*,
    str::CStr, //
};

/// The folder, below `/proc/sys`.
const PATH: &CStr = c"sunrpc/svcrdma";

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $($(#[$doc])* pub(super) static $name: Counter = Counter::new();)*
        static COUNTERS: &[Entry] = &[$(Entry { name: $file, value: Value::Counter(&$name) }),*];
    };
}

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident = $file:literal, $default:literal in $min:literal..=$max:literal;)*) => {
        $($(#[$doc])* pub(super) static $name: Limit = Limit::new($default, $min, $max);)*
        static LIMITS: &[Entry] = &[$(Entry { name: $file, value: Value::Limit(&$name) }),*];
    };
}

counters! {
    /// Connections that there are now, from the connect request until nothing of them is left.
    CONNECTIONS = c"connections";
    /// Listeners that there are now, in all network namespaces.
    LISTENERS = c"listeners";
    /// Connections that were accepted.
    ACCEPTED = c"accepted";
    /// Connect requests that were turned away.
    REJECTED = c"rejected";
    /// Connections that ended for another reason than the peer's or the server's wish.
    CLOSED_ABNORMALLY = c"closed_abnormally";
    /// Calls received.
    CALLS = c"calls";
    /// Calls that were decoded but came to nothing: no reply was sent.
    CALLS_DROPPED = c"calls_dropped";
    /// Messages that could not be decoded, answered or not.
    MALFORMED = c"malformed";
    /// Messages that need no answer and are none of ours: replies, errors, RDMA_DONE.
    IGNORED = c"ignored";
    /// Replies sent, error replies included.
    REPLIES = c"replies";
    /// Error replies among them.
    ERROR_REPLIES = c"error_replies";
    /// Calls to clients (NFSv4.1 callbacks) sent.
    CALLBACKS = c"callbacks";
    /// Such Calls that are larger than what the client takes: not sent.
    CALLBACKS_TOO_LARGE = c"callbacks_too_large";
    /// Such Calls that a client has answered with an error of the transport.
    CALLBACKS_REFUSED = c"callbacks_refused";
    /// Replies of clients to them.
    CALLBACK_REPLIES = c"callback_replies";
    /// Bytes of Calls that came by RDMA Read.
    READ_BYTES = c"read_bytes";
    /// Bytes of replies that went by RDMA Write.
    WRITE_BYTES = c"write_bytes";
    /// Work requests posted to send queues.
    WORK_REQUESTS = c"work_requests";
    /// Replies and Read chunks that had to wait for room in their send queue.
    SEND_QUEUE_WAITS = c"send_queue_waits";
    /// Calls that had to wait for pages.
    PAGE_WAITS = c"page_waits";
    /// Receive buffers that were added because the shared queue ran low.
    RECEIVES_ADDED = c"receives_added";
    /// Allocations for a Call or a reply because a pool was empty.
    POOL_MISSES = c"pool_misses";
}

limits! {
    /// Most credits granted to a connection: how many Calls it may have unanswered.
    CREDITS = c"credits", 128 in 1..=1024;
    /// Receive buffers of 4 KiB that each device starts with.
    RECEIVES = c"receives_per_device", 1024 in 16..=16384;
    /// Pages that all connections of a device together may have for Read chunks.
    READ_PAGES = c"read_pages_per_device", 16384 in 4224..=4194304;
    /// Pages that one connection may have under RDMA Read; one Call may always read.
    READ_PAGES_CONNECTION = c"read_pages_per_connection", 2112 in 1..=4194304;
    /// Seconds that posted work may take before the connection is closed.
    STALL_SECONDS = c"stall_seconds", 60 in 4..=3600;
    /// Seconds after which a connection must have made its first Call.
    FIRST_CALL_SECONDS = c"first_call_seconds", 60 in 4..=3600;
    /// Seconds that a connect request may wait to be accepted.
    PENDING_SECONDS = c"pending_seconds", 30 in 4..=3600;
    /// Whether each connection has Receive buffers of its own, as where the device cannot share
    /// them.
    OWN_RECEIVES = c"own_receives", 0 in 0..=1;
    /// Whether RDMA Reads go to registered memory, as where the device wants that.
    REGISTER_READS = c"register_reads", 0 in 0..=1;
    /// Whether to close all listeners and connections, and have no new ones.
    RELEASE = c"release", 0 in 0..=1;
}

/// Makes the files. May sleep.
pub(crate) fn register() -> Result<Sysctl> {
    Sysctl::register(PATH, &[COUNTERS, LIMITS])
}

// SPDX-License-Identifier: GPL-2.0

//! The trace events of this module: one safe function for each event.
//!
//! A function costs a patched branch while its event is disabled. All functions may be called in
//! any context. `conn` is the number of the connection, which debugfs shows as well.
//!
//! C header: [`include/trace/events/svcrdma_rs.h`](../../include/trace/events/svcrdma_rs.h)

use kernel::jump_label::static_branch_unlikely;

/// Defines the function of an event: its name, its tracepoint, and the C function that records it.
macro_rules! event {
    ($(#[$doc:meta])* $name:ident, $key:ident, $call:ident, ($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        #[inline]
        pub fn $name($($arg: $ty),*) {
            // SAFETY: The tracepoint is a static variable of this module.
            let is_enabled = unsafe {
                static_branch_unlikely!(bindings::$key, kernel::bindings::tracepoint, key)
            };
            if is_enabled {
                // SAFETY: The function takes its arguments by value, and has no precondition.
                unsafe { bindings::$call($($arg),*) };
            }
        }
    };
}

event!(
    /// Records that a connect request was accepted, or that accepting it has failed.
    ///
    /// `status` is 0 or a negative errno. `receive` and `send` are the inline thresholds in bytes,
    /// `credits` is the initial grant.
    accept,
    __tracepoint_svcrdma_rs_accept,
    rust_do_trace_svcrdma_rs_accept,
    (conn: u64, status: i32, receive: u32, send: u32, credits: u32)
);
event!(
    /// Records a received Call, in a message of `len` bytes.
    ///
    /// `read` is the number of bytes in pages once the Read chunks are pulled, `writes` the number
    /// of Write chunks, and `reply` is 1 if there is a Reply chunk.
    call,
    __tracepoint_svcrdma_rs_call,
    rust_do_trace_svcrdma_rs_call,
    (conn: u64, xid: u32, len: u32, read: u32, writes: u32, reply: u32)
);
event!(
    /// Records that a Reply of `len` bytes is sent, `sent` bytes of it inline. `credits` is the
    /// grant.
    reply,
    __tracepoint_svcrdma_rs_reply,
    rust_do_trace_svcrdma_rs_reply,
    (conn: u64, xid: u32, len: u32, sent: u32, credits: u32)
);
event!(
    /// Records that a connection starts to close. `reason` and `detail` are the numbers of the
    /// close reason.
    close,
    __tracepoint_svcrdma_rs_close,
    rust_do_trace_svcrdma_rs_close,
    (conn: u64, reason: u32, detail: i32)
);
event!(
    /// Records that the endpoint of a connection was destroyed.
    dead,
    __tracepoint_svcrdma_rs_dead,
    rust_do_trace_svcrdma_rs_dead,
    (conn: u64)
);
event!(
    /// Records that a message of `len` bytes could not be decoded or served. `reason` is the number
    /// of a decoding error.
    malformed,
    __tracepoint_svcrdma_rs_malformed,
    rust_do_trace_svcrdma_rs_malformed,
    (conn: u64, xid: u32, reason: u32, len: u32)
);
event!(
    /// Records that a Reply of `len` bytes fits neither inline nor in the chunks of the client.
    refused,
    __tracepoint_svcrdma_rs_refused,
    rust_do_trace_svcrdma_rs_refused,
    (conn: u64, xid: u32, len: u32)
);

// SPDX-License-Identifier: GPL-2.0

//! Trace events: one safe function each, a NOP while nobody listens.
//!
//! The events are in [`include/trace/events/svcrdma_rs.h`](../../include/trace/events/svcrdma_rs.h).

use kernel::jump_label::static_branch_unlikely;

/// Defines the function of an event, from the names of its tracepoint and of its C function.
macro_rules! event {
    ($(#[$doc:meta])* $name:ident, $key:ident, $call:ident, ($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        pub fn $name($($arg: $ty),*) {
            // SAFETY: A tracepoint is a static of this module, and its key may be read any time.
            let listening = unsafe {
                static_branch_unlikely!(bindings::$key, kernel::bindings::tracepoint, key)
            };
            if listening {
                // SAFETY: The event takes its arguments by value.
                unsafe { bindings::$call($($arg),*) };
            }
        }
    };
}

event!(
    /// A connection was accepted (`status` 0) or could not be (an errno); bytes and credits.
    accept,
    __tracepoint_svcrdma_rs_accept,
    rust_do_trace_svcrdma_rs_accept,
    (conn: u64, status: i32, receive: u32, send: u32, credits: u32)
);
event!(
    /// A Call was received: `len` bytes in the message, `read` in its Read chunks, so many Write
    /// chunks, and whether (1) there is a Reply chunk.
    call,
    __tracepoint_svcrdma_rs_call,
    rust_do_trace_svcrdma_rs_call,
    (conn: u64, xid: u32, len: u32, read: u32, writes: u32, reply: u32)
);
event!(
    /// A reply of `len` bytes is sent, `sent` of them inline.
    reply,
    __tracepoint_svcrdma_rs_reply,
    rust_do_trace_svcrdma_rs_reply,
    (conn: u64, xid: u32, len: u32, sent: u32, credits: u32)
);
event!(
    /// A connection starts to close.
    close,
    __tracepoint_svcrdma_rs_close,
    rust_do_trace_svcrdma_rs_close,
    (conn: u64, reason: u32, detail: i32)
);
event!(
    /// The hardware half of a connection is gone.
    dead,
    __tracepoint_svcrdma_rs_dead,
    rust_do_trace_svcrdma_rs_dead,
    (conn: u64)
);
event!(
    /// A message of `len` bytes could not be decoded or served.
    malformed,
    __tracepoint_svcrdma_rs_malformed,
    rust_do_trace_svcrdma_rs_malformed,
    (conn: u64, xid: u32, reason: u32, len: u32)
);
event!(
    /// A reply of `len` bytes fits nowhere.
    refused,
    __tracepoint_svcrdma_rs_refused,
    rust_do_trace_svcrdma_rs_refused,
    (conn: u64, xid: u32, len: u32)
);

// SPDX-License-Identifier: GPL-2.0

//! The trace events of this module: one safe function for each event.
//!
//! A function costs a patched branch while its event is disabled. All functions may be called in
//! any context. `conn` is the number of the connection, which debugfs shows as well.
//!
//! C header: [`include/trace/events/svcrdma_rs.h`](../../include/trace/events/svcrdma_rs.h)

use core::fmt::Write as _;
use kernel::{
    ffi::c_char,
    fmt,
    jump_label::static_branch_unlikely,
    prelude::fmt,
    str::Formatter, //
};

/// Returns true if the event of a tracepoint is enabled.
macro_rules! is_enabled {
    ($key:ident) => {
        // SAFETY: The tracepoint is a static variable of this module.
        unsafe { static_branch_unlikely!(bindings::$key, kernel::bindings::tracepoint, key) }
    };
}

/// Defines the function of an event: its name, its tracepoint, and the C function that records it.
/// The last argument may be a text: the name of a device, or an address.
macro_rules! event {
    ($(#[$doc:meta])* $name:ident, $key:ident, $call:ident, ($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        #[inline]
        pub fn $name($($arg: $ty),*) {
            if is_enabled!($key) {
                // SAFETY: The function takes its arguments by value, and has no precondition.
                unsafe { bindings::$call($($arg),*) };
            }
        }
    };
    (
        $(#[$doc:meta])* $name:ident, $key:ident, $call:ident,
        ($($arg:ident: $ty:ty),*; $text:ident)
    ) => {
        $(#[$doc])*
        #[inline]
        pub fn $name<T: fmt::Display>($($arg: $ty,)* $text: &T) {
            // Out of line: a text is large, and the event is seldom enabled. Generic, so that modules
            // without these events do not contain it.
            #[cold]
            #[inline(never)]
            fn record<T: fmt::Display>($($arg: $ty,)* $text: &T) {
                let text = Text::new($text);
                // SAFETY: The function copies the text, which ends with a zero byte by the type
                // invariant, and takes its other arguments by value.
                unsafe { bindings::$call($($arg,)* text.as_ptr()) };
            }
            if is_enabled!($key) {
                record($($arg,)* $text);
            }
        }
    };
}

/// A text as C reads it.
///
/// # Invariants
///
/// The last byte is 0.
struct Text([u8; Self::SIZE]);

impl Text {
    /// Bytes of the longest text: an address, or the name of a device (`IB_DEVICE_NAME_MAX`).
    const SIZE: usize = 64;

    /// Writes `value`. A text that is too long is cut.
    fn new(value: &impl fmt::Display) -> Self {
        let mut text = [0; Self::SIZE];
        if let Some((_, room)) = text.split_last_mut() {
            // An error means that the text was cut.
            let _ = Formatter::new(room).write_fmt(fmt!("{value}"));
        }
        // INVARIANT: The last byte was not written.
        Self(text)
    }

    /// Returns a pointer to the text, which is valid as long as `self` is borrowed.
    fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }
}

event!(
    /// Records that a connect request was accepted, or that accepting it has failed.
    ///
    /// `status` is 0 or a negative errno. `receive` and `send` are the inline thresholds in bytes,
    /// `credits` is the initial grant, `peer` is the address of the peer.
    accept,
    __tracepoint_svcrdma_rs_accept,
    rust_do_trace_svcrdma_rs_accept,
    (conn: u64, status: i32, receive: u32, send: u32, credits: u32; peer)
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
    /// Records that the connection of `peer` starts to close. `reason` and `detail` are the numbers
    /// of the close reason.
    close,
    __tracepoint_svcrdma_rs_close,
    rust_do_trace_svcrdma_rs_close,
    (conn: u64, reason: u32, detail: i32; peer)
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
event!(
    /// Records that Calls wait too long for `pages` pages of `device` (`begins` is 1), or that none
    /// waits any more (0). `unvalidated` is 1 for Calls of unvalidated peers.
    shortage,
    __tracepoint_svcrdma_rs_shortage,
    rust_do_trace_svcrdma_rs_shortage,
    (begins: u32, unvalidated: u32, pages: u32; device)
);
event!(
    /// Records that the listener of `address` is lost (`listens` is 0) or listens again (1). `net` is
    /// the number of the network namespace.
    listener,
    __tracepoint_svcrdma_rs_listener,
    rust_do_trace_svcrdma_rs_listener,
    (listens: u32, net: u32; address)
);
event!(
    /// Records that lane `lane` of `device` is retired. `failed` is 1 if one of its completion queues
    /// has failed.
    lane_retired,
    __tracepoint_svcrdma_rs_lane_retired,
    rust_do_trace_svcrdma_rs_lane_retired,
    (lane: u32, failed: u32; device)
);

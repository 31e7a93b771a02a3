// SPDX-License-Identifier: GPL-2.0

//! Settings: the writable files of `/proc/sys/sunrpc/svcrdma`.
//!
//! Settings apply to all devices of the host. An administrator can write them in the initial
//! network namespace; other namespaces show them read-only. A new value takes effect with the next
//! connection, Call or tick of the watchdog.
//!
//! The setting `accept_from` is not here: each namespace has its own
//! ([`accept_from`](super::accept_from)).

use support::sysctl::{
    Entry,
    Limit,
    Value, //
};

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident = $file:literal, $default:literal in $min:tt..=$max:tt;)*) => {
        $($(#[$doc])* pub(crate) static $name: Limit = Limit::new($default, $min, $max);)*
        /// Files of the initial network namespace, which an administrator can write.
        pub(crate) static LIMITS: &[Entry<'_>] = &[$(Entry { name: $file, value: Value::Limit(&$name) }),*];
        /// Files of all other network namespaces, which are read-only.
        pub(crate) static SHOWN_LIMITS: &[Entry<'_>] =
            &[$(Entry { name: $file, value: Value::Shown(&$name) }),*];
    };
}

/// The largest value of `credits`.
pub(crate) const MAX_CREDITS: u32 = 1024;

/// The smallest value of `read_pages_per_device`: pages for four of the largest Calls, and 112
/// more.
pub(crate) const MIN_READ_PAGES: u32 = 4224;

limits! {
    /// The most credits of a connection: the number of Calls that it may have unanswered.
    CREDITS = c"credits", 128 in 1..=MAX_CREDITS;
    /// The number of Receive buffers, of 4 KiB each, at which the grants of a device's connections
    /// stop growing.
    RECEIVE_BUFFERS = c"receive_buffers_per_device", 16384 in 16..=4194304;
    /// The most pages that the connections of a device may have for Read chunks.
    READ_PAGES = c"read_pages_per_device", 16384 in MIN_READ_PAGES..=4194304;
    /// The most pages that one connection may have for Calls that nfsd has not taken. One Call may
    /// always be read.
    READ_PAGES_CONNECTION = c"read_pages_per_connection", 2112 in 1..=4194304;
    /// Pages in Replies of a device's connections at which a connection that holds some gets no
    /// further Call handled.
    REPLY_PAGES = c"reply_pages_per_device", 16384 in 1..=4194304;
    /// Pages in Replies of one connection at which the connection gets no further Call handled.
    REPLY_PAGES_CONNECTION = c"reply_pages_per_connection", 2112 in 1..=4194304;
    /// Seconds by which a peer may be behind with posted work before its connection is closed.
    STALL_SECONDS = c"stall_seconds", 60 in 4..=3600;
    /// Seconds that replace `stall_seconds`, if fewer, for a connection that holds pages in a
    /// shortage.
    SHORTAGE_SECONDS = c"shortage_seconds", 15 in 4..=3600;
    /// Bytes per second that a peer must take or deliver while a completion is awaited from it.
    MINIMUM_RATE = c"minimum_rate", 65536 in 4096..=1073741824;
    /// Seconds within which an accepted connection must make its first Call.
    FIRST_CALL_SECONDS = c"first_call_seconds", 60 in 4..=3600;
    /// Seconds that a connect request may wait to be accepted.
    PENDING_SECONDS = c"pending_seconds", 30 in 4..=3600;
    /// Seconds for which a peer counts as validated after nfsd has validated one of its connections,
    /// or such a connection has closed; 0 for never.
    VALIDATED_SECONDS = c"validated_seconds", 600 in 0..=86400;
    /// 1 to close all listeners and connections and to refuse new ones, 0 otherwise.
    RELEASE = c"release", 0 in 0..=1;
}

/// Returns true if the administrator has released the module: all listeners and connections are to
/// be closed, and new ones refused.
pub(crate) fn is_released() -> bool {
    RELEASE.get() != 0
}

/// A copy of the settings that limit the pages for Read chunks.
#[derive(Clone, Copy)]
pub(crate) struct ReadPages {
    /// The most pages of all connections of a device.
    pub(crate) device: usize,
    /// The most pages of one connection.
    pub(crate) connection: usize,
}

impl ReadPages {
    /// Returns the present settings.
    pub(crate) fn now() -> Self {
        Self {
            device: READ_PAGES.get() as usize,
            connection: READ_PAGES_CONNECTION.get() as usize,
        }
    }
}

/// A copy of the settings that limit the pages of Replies.
#[derive(Clone, Copy)]
pub(crate) struct ReplyPages {
    /// The most pages of all connections of a device.
    pub(crate) device: u32,
    /// The most pages of one connection.
    pub(crate) connection: u32,
}

impl ReplyPages {
    /// Returns the present settings.
    pub(crate) fn now() -> Self {
        Self {
            device: REPLY_PAGES.get(),
            connection: REPLY_PAGES_CONNECTION.get(),
        }
    }
}

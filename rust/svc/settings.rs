// SPDX-License-Identifier: GPL-2.0

//! Settings: the files of `/proc/sys/sunrpc/svcrdma` that an administrator can write.
//!
//! Settings hold for all devices. They can be written in the initial network namespace and read in all
//! others. A new value takes effect with the next connection, Call or tick of the watchdog.

use support::sysctl::{
    Entry,
    Limit,
    Value, //
};

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident = $file:literal, $default:literal in $min:tt..=$max:tt;)*) => {
        $($(#[$doc])* pub(crate) static $name: Limit = Limit::new($default, $min, $max);)*
        /// Files in the initial network namespace, where an administrator can write them.
        pub(crate) static LIMITS: &[Entry<'_>] = &[$(Entry { name: $file, value: Value::Limit(&$name) }),*];
        /// Files in other network namespaces, which are read-only.
        pub(crate) static SHOWN_LIMITS: &[Entry<'_>] =
            &[$(Entry { name: $file, value: Value::Shown(&$name) }),*];
    };
}

/// The most that `credits` can be set to.
pub(crate) const MOST_CREDITS: u32 = 1024;

/// The least that `read_pages_per_device` can be set to: four of the largest Calls, and some.
pub(crate) const LEAST_READ_PAGES: u32 = 4224;

limits! {
    /// Most credits granted to a connection: how many Calls it may have unanswered.
    CREDITS = c"credits", 128 in 1..=MOST_CREDITS;
    /// Receive buffers of 4 KiB that all connections of a device together may have, before credits grow
    /// no more.
    RECEIVE_BUFFERS = c"receive_buffers_per_device", 16384 in 16..=4194304;
    /// Pages that all connections of a device together may have for Read chunks.
    READ_PAGES = c"read_pages_per_device", 16384 in LEAST_READ_PAGES..=4194304;
    /// Pages that one connection may have for Calls nfsd has not taken; one Call may always read.
    READ_PAGES_CONNECTION = c"read_pages_per_connection", 2112 in 1..=4194304;
    /// Pages that the replies of all connections of a device together hold, before those that hold
    /// some get no more Calls handled.
    REPLY_PAGES = c"reply_pages_per_device", 16384 in 1..=4194304;
    /// Pages that the replies of one connection hold before no more of its Calls are handled.
    REPLY_PAGES_CONNECTION = c"reply_pages_per_connection", 2112 in 1..=4194304;
    /// Seconds that a peer may be behind with posted work before the connection is closed.
    STALL_SECONDS = c"stall_seconds", 60 in 4..=3600;
    /// The same for a connection that has pages that others lack.
    SHORTAGE_SECONDS = c"shortage_seconds", 15 in 4..=3600;
    /// Bytes a second that a peer must take or give while something is awaited of it.
    MINIMUM_RATE = c"minimum_rate", 65536 in 4096..=1073741824;
    /// Seconds after which a connection must have made its first Call.
    FIRST_CALL_SECONDS = c"first_call_seconds", 60 in 4..=3600;
    /// Seconds that a connect request may wait to be accepted.
    PENDING_SECONDS = c"pending_seconds", 30 in 4..=3600;
    /// Whether to close all listeners and connections, and have no new ones.
    RELEASE = c"release", 0 in 0..=1;
}

/// Whether an admin wants all listeners and connections closed, and no new ones.
pub(crate) fn is_released() -> bool {
    RELEASE.get() != 0
}

/// The settings that bound pages for Read chunks.
#[derive(Clone, Copy)]
pub(crate) struct ReadPages {
    /// Pages of all connections of a device.
    pub(crate) device: usize,
    /// Pages of one connection.
    pub(crate) connection: usize,
}

impl ReadPages {
    /// Returns the settings as they are now.
    pub(crate) fn now() -> Self {
        Self {
            device: READ_PAGES.get() as usize,
            connection: READ_PAGES_CONNECTION.get() as usize,
        }
    }
}

/// The settings that bound the pages of Replies.
#[derive(Clone, Copy)]
pub(crate) struct ReplyPages {
    /// Pages of all connections of a device.
    pub(crate) device: u32,
    /// Pages of one connection.
    pub(crate) connection: u32,
}

impl ReplyPages {
    /// Returns the settings as they are now.
    pub(crate) fn now() -> Self {
        Self {
            device: REPLY_PAGES.get(),
            connection: REPLY_PAGES_CONNECTION.get(),
        }
    }
}

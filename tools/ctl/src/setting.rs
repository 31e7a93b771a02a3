// SPDX-License-Identifier: GPL-2.0

//! Settings: names, bounds and short explanations. Documentation/reference.rst has the long ones.

/// A setting of the module.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) default: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) unit: &'static str,
    /// The effect of the setting, and the reasons to change it.
    pub(crate) text: &'static str,
}

impl Setting {
    /// Returns the allowed values as text.
    pub(crate) fn range(&self) -> String {
        format!("{} to {}", self.min, self.max)
    }
}

/// The setting that closes all listeners. It is an action, and is never persisted.
pub(crate) const RELEASE: &str = "release";

/// All settings, in the order of Documentation/reference.rst.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "credits",
        default: 128,
        min: 1,
        max: 1024,
        unit: "Calls of a connection",
        text: "Upper bound of the Calls that a client may have in flight on one connection. A connection starts with 8 and gets one more with each Reply while it uses them all. Lowering takes effect with the next Replies, raising with new connections. Lower it if a client should have fewer Calls in flight.",
    },
    Setting {
        name: "receive_buffers_per_device",
        default: 16384,
        min: 16,
        max: 4194304,
        unit: "buffers of 4 KiB",
        text: "Receive buffers of a device above which credits stop growing. 128 credits take 147 buffers, or 163 with callbacks. Takes effect at once and takes no buffers away. Raise it if the buffers of a device come near it.",
    },
    Setting {
        name: "read_pages_per_device",
        default: 16384,
        min: 4224,
        max: 4194304,
        unit: "pages",
        text: "Pages for the Read chunks (data of WRITEs) of all connections of a device. Peers that are not validated share an eighth of them. Takes effect at once. Raise it if page_waits keeps growing and the host has memory.",
    },
    Setting {
        name: "read_pages_per_connection",
        default: 2112,
        min: 1,
        max: 4194304,
        unit: "pages",
        text: "Pages that one connection may have for Calls that nfsd has not taken. The share shrinks with the pages that are left. One Call may always be read. Takes effect at once. Lower it if the WRITEs of one client hold up the others.",
    },
    Setting {
        name: "reply_pages_per_device",
        default: 16384,
        min: 1,
        max: 4194304,
        unit: "pages",
        text: "Pages that Replies of all connections of a device hold until they are sent. nfsd takes no more Calls of a connection that holds some at this number. Takes effect at once. Raise it if reply_waits keeps growing and reply_pages of the device comes near it.",
    },
    Setting {
        name: "reply_pages_per_connection",
        default: 2112,
        min: 1,
        max: 4194304,
        unit: "pages",
        text: "Pages that Replies of one connection hold until they are sent. nfsd takes no more Calls of the connection at this number. Takes effect at once. Raise it if reply_waits keeps growing and no client is stuck.",
    },
    Setting {
        name: "stall_seconds",
        default: 60,
        min: 4,
        max: 3600,
        unit: "seconds",
        text: "Seconds that a peer may be behind with posted work before its connection is closed (close reasons 12 and 24). Raise it if the fabric pauses for longer than a minute.",
    },
    Setting {
        name: "shortage_seconds",
        default: 15,
        min: 4,
        max: 3600,
        unit: "seconds",
        text: "Used instead of stall_seconds, if lower, for a connection that keeps pages that others lack. Raise it together with stall_seconds if the fabric pauses.",
    },
    Setting {
        name: "minimum_rate",
        default: 65536,
        min: 4096,
        max: 1073741824,
        unit: "bytes per second",
        text: "Rate at which a peer must take or give data while the server waits for it. Raise it if slow clients disturb the others; lower it if clients on slow links are closed (close reason 24).",
    },
    Setting {
        name: "first_call_seconds",
        default: 60,
        min: 4,
        max: 3600,
        unit: "seconds",
        text: "Seconds until an accepted connection must have made its first Call (close reason 15).",
    },
    Setting {
        name: "pending_seconds",
        default: 30,
        min: 4,
        max: 3600,
        unit: "seconds",
        text: "Seconds that a connect request waits for an nfsd thread (close reason 5).",
    },
    Setting {
        name: RELEASE,
        default: 0,
        min: 0,
        max: 1,
        unit: "0 or 1",
        text: "1 makes nfsd close all RDMA listeners of the host and then all connections, so that the module can be replaced. New listeners are refused until 0 is written. svcrdmactl upgrade does both.",
    },
];

/// Returns the setting of a name.
pub(crate) fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_module() {
        let source = include_str!("../../../rust/svc/settings.rs");
        let lines = source.lines().filter_map(|line| {
            let (_, rest) = line.split_once(" = c\"")?;
            let (name, rest) = rest.split_once("\", ")?;
            let (default, range) = rest.trim_end_matches(';').split_once(" in ")?;
            let (min, max) = range.split_once("..=")?;
            Some((name, default, min, max.replace("MAX_CREDITS", "1024")))
        });
        let known = SETTINGS.iter().map(|setting| {
            let Setting {
                name,
                default,
                min,
                max,
                ..
            } = setting;
            (*name, default.to_string(), min.to_string(), max.to_string())
        });
        let lines: Vec<_> = lines
            .map(|(name, default, min, max)| {
                let min = min.replace("MIN_READ_PAGES", "4224");
                (name, default.to_owned(), min, max)
            })
            .collect();
        assert_eq!(known.collect::<Vec<_>>(), lines);
        for bound in ["MAX_CREDITS: u32 = 1024;", "MIN_READ_PAGES: u32 = 4224;"] {
            assert!(source.contains(bound), "{bound}");
        }
    }
}

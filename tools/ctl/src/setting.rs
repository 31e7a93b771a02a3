// SPDX-License-Identifier: GPL-2.0

//! Settings: names, bounds and short explanations. Documentation/reference.rst has the long ones.

use serde_json::Value;
use svcrdma_proto::prefixes::{
    Invalid,
    Prefixes,
    ANY, //
};

/// A setting of the module.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The effect of the setting, and the reasons to change it.
    pub(crate) text: &'static str,
}

/// The values that a setting takes.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Numbers.
    Number {
        default: u64,
        min: u64,
        max: u64,
        unit: &'static str,
    },
    /// Lists of address prefixes.
    Prefixes,
}

/// Creates the kind of a number.
const fn number(default: u64, min: u64, max: u64, unit: &'static str) -> Kind {
    Kind::Number {
        default,
        min,
        max,
        unit,
    }
}

impl Setting {
    /// Returns the default, as the module shows it.
    pub(crate) fn default(&self) -> String {
        match self.kind {
            Kind::Number { default, .. } => default.to_string(),
            Kind::Prefixes => ANY.to_owned(),
        }
    }

    /// Returns the allowed values as text.
    pub(crate) fn range(&self) -> String {
        match self.kind {
            Kind::Number { min, max, .. } => format!("{min} to {max}"),
            Kind::Prefixes => format!("{ANY}, or a list"),
        }
    }

    /// Returns the unit.
    pub(crate) fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Number { unit, .. } => unit,
            Kind::Prefixes => "of address prefixes",
        }
    }

    /// Returns the bounds of a number.
    pub(crate) fn bounds(&self) -> Option<(u64, u64)> {
        match self.kind {
            Kind::Number { min, max, .. } => Some((min, max)),
            Kind::Prefixes => None,
        }
    }

    /// Returns true if the module accepts the value.
    pub(crate) fn accepts(&self, value: &str) -> bool {
        match self.kind {
            Kind::Number { min, max, .. } => value
                .parse()
                .is_ok_and(|value| (min..=max).contains(&value)),
            Kind::Prefixes => is_list(value),
        }
    }

    /// Returns a value for JSON.
    pub(crate) fn json(&self, value: &str) -> Value {
        match self.kind {
            Kind::Number { .. } => value.parse::<u64>().map_or(Value::Null, Value::from),
            Kind::Prefixes => Value::from(value),
        }
    }
}

/// Returns true if the text is a list of prefixes.
fn is_list(text: &str) -> bool {
    let list = Prefixes::parse(text, Vec::new(), |list, prefix| {
        list.push(prefix);
        Ok::<_, Invalid>(())
    });
    list.is_ok()
}

/// The setting that closes all listeners. It is an action, and is never persisted.
pub(crate) const RELEASE: &str = "release";

/// All settings, in the order of Documentation/reference.rst.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "credits",
        kind: number(128, 1, 1024, "Calls of a connection"),
        text: "Upper bound of the Calls that a client may have in flight on one connection. A connection starts with 8 and gets one more with each Reply while it uses them all. Lowering takes effect with the next Replies, raising with new connections. Lower it if a client should have fewer Calls in flight.",
    },
    Setting {
        name: "receive_buffers_per_device",
        kind: number(16384, 16, 4194304, "buffers of 4 KiB"),
        text: "Receive buffers of a device above which credits stop growing. 128 credits take 147 buffers, or 163 with callbacks. Takes effect at once and takes no buffers away. Raise it if the buffers of a device come near it.",
    },
    Setting {
        name: "read_pages_per_device",
        kind: number(16384, 4224, 4194304, "pages"),
        text: "Pages for the Read chunks (data of WRITEs) of all connections of a device. Peers that are not validated share an eighth of them. Takes effect at once. Raise it if page_waits keeps growing and the host has memory.",
    },
    Setting {
        name: "read_pages_per_connection",
        kind: number(2112, 1, 4194304, "pages"),
        text: "Pages that one connection may have for Calls that nfsd has not taken. The share shrinks with the pages that are left. One Call may always be read. Takes effect at once. Lower it if the WRITEs of one client hold up the others.",
    },
    Setting {
        name: "reply_pages_per_device",
        kind: number(16384, 1, 4194304, "pages"),
        text: "Pages that Replies of all connections of a device hold until they are sent. nfsd takes no more Calls of a connection that holds some at this number. Takes effect at once. Raise it if reply_waits keeps growing and reply_pages of the device comes near it.",
    },
    Setting {
        name: "reply_pages_per_connection",
        kind: number(2112, 1, 4194304, "pages"),
        text: "Pages that Replies of one connection hold until they are sent. nfsd takes no more Calls of the connection at this number. Takes effect at once. Raise it if reply_waits keeps growing and no client is stuck.",
    },
    Setting {
        name: "stall_seconds",
        kind: number(60, 4, 3600, "seconds"),
        text: "Seconds that a peer may be behind with posted work before its connection is closed (close reasons 12 and 24). Raise it if the fabric pauses for longer than a minute.",
    },
    Setting {
        name: "shortage_seconds",
        kind: number(15, 4, 3600, "seconds"),
        text: "Used instead of stall_seconds, if lower, for a connection that keeps pages that others lack. Raise it together with stall_seconds if the fabric pauses.",
    },
    Setting {
        name: "minimum_rate",
        kind: number(65536, 4096, 1073741824, "bytes per second"),
        text: "Rate at which a peer must take or give data while the server waits for it. Raise it if slow clients disturb the others; lower it if clients on slow links are closed (close reason 24).",
    },
    Setting {
        name: "first_call_seconds",
        kind: number(60, 4, 3600, "seconds"),
        text: "Seconds until an accepted connection must have made its first Call (close reason 15).",
    },
    Setting {
        name: "pending_seconds",
        kind: number(30, 4, 3600, "seconds"),
        text: "Seconds that a connect request waits for an nfsd thread (close reason 5).",
    },
    Setting {
        name: "validated_seconds",
        kind: number(600, 0, 86400, "seconds"),
        text: "Seconds for which a client that connects again counts as validated at once, after nfsd has seen a good file handle from its address. 0 makes each connection begin as not validated. Set it to 0 if users who must not read any export connect from the addresses of clients.",
    },
    Setting {
        name: "accept_from",
        kind: Kind::Prefixes,
        text: "Prefixes of the addresses that may connect; any for all. The setting is that of the caller's network namespace. No firewall can do this, as RDMA adapters bypass it. Takes effect with new connect requests; connections stay. Requests that are refused count in rejected_by_address.",
    },
    Setting {
        name: RELEASE,
        kind: number(0, 0, 1, "0 or 1"),
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
        let known = SETTINGS.iter().filter_map(|setting| {
            let (min, max) = setting.bounds()?;
            let (min, max) = (min.to_string(), max.to_string());
            Some((setting.name, setting.default(), min, max))
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
        let others = SETTINGS.iter().filter(|setting| setting.bounds().is_none());
        let others: Vec<&str> = others.map(|setting| setting.name).collect();
        assert_eq!(others, ["accept_from"]);
        assert!(include_str!("../../../rust/svc/counters.rs").contains("c\"accept_from\""));
    }

    #[test]
    fn values_are_those_that_the_module_takes() {
        let accepts = |name, value| find(name).expect("a setting").accepts(value);
        assert!(accepts("credits", "1024") && !accepts("credits", "1025"));
        assert!(!accepts("credits", "any") && !accepts("credits", ""));
        assert!(accepts("accept_from", "any") && accepts("accept_from", "10.0.0.0/8,fd00::/8"));
        assert!(!accepts("accept_from", "") && !accepts("accept_from", "10.0.0.0/33"));
    }
}

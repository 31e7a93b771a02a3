// SPDX-License-Identifier: GPL-2.0

//! Counters and settings as the module shows them: files with numbers, and settings that are texts.

use crate::{
    root::{
        Gap,
        Root, //
    },
    setting::{
        self,
        Kind,
        Setting, //
    },
    system::SYSCTL, //
};
use std::collections::BTreeMap;

/// How a number changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The number only grows.
    Counter,
    /// The number also falls.
    Gauge,
}

/// A counter that this program knows.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    /// One line for people.
    pub(crate) help: &'static str,
}

/// Creates a counter that only grows.
const fn counter(name: &'static str, help: &'static str) -> Counter {
    Counter {
        name,
        class: Class::Counter,
        help,
    }
}

/// Creates a counter that also falls.
const fn gauge(name: &'static str, help: &'static str) -> Counter {
    Counter {
        name,
        class: Class::Gauge,
        help,
    }
}

/// The counters of Documentation/reference.rst, in its order.
pub(crate) const COUNTERS: &[Counter] = &[
    gauge("connections", "Present connections."),
    gauge(
        "listeners",
        "Present RDMA listeners, those with a lost device included.",
    ),
    counter("accepted", "Accepted connections."),
    counter("rejected", "Connect requests that were turned away."),
    counter(
        "rejected_by_address",
        "Connect requests from addresses outside accept_from.",
    ),
    counter(
        "closed_abnormally",
        "Connections with an abnormal close reason.",
    ),
    counter("calls", "Calls whose transport header could be decoded."),
    counter("calls_dropped", "Calls without a Reply."),
    counter("malformed", "Messages that cannot be decoded or served."),
    counter("ignored", "Messages that need no answer."),
    counter("replies", "Replies queued for sending."),
    counter("error_replies", "RDMA_ERRORs queued for sending."),
    counter("callbacks", "Callbacks queued for sending."),
    counter("callback_replies", "Replies to callbacks."),
    counter("callbacks_refused", "Callbacks answered with RDMA_ERROR."),
    counter(
        "callbacks_too_large",
        "Callbacks larger than the client takes.",
    ),
    counter(
        "callbacks_without_credit",
        "Attempts to send a callback without a credit.",
    ),
    counter(
        "read_bytes",
        "Bytes of Calls for which RDMA Reads were built.",
    ),
    counter("write_bytes", "Bytes of Replies that go by RDMA Write."),
    counter(
        "inline_received_bytes",
        "Bytes of Calls that arrived inline.",
    ),
    counter(
        "inline_sent_bytes",
        "Bytes of Replies and callbacks that go inline.",
    ),
    counter("work_requests", "Work requests posted to send queues."),
    counter("send_queue_waits", "Times that a send queue was full."),
    counter(
        "mapping_waits",
        "Times that work waited because memory could not be mapped.",
    ),
    counter(
        "page_waits",
        "Calls that waited for pages for their Read chunks.",
    ),
    counter(
        "reply_waits",
        "Times that Calls were left because Replies held too many pages.",
    ),
    gauge(
        "host_connections",
        "Present connections of all network namespaces.",
    ),
    gauge(
        "host_listeners",
        "Present RDMA listeners of all network namespaces.",
    ),
    counter(
        "pool_misses",
        "Allocations for Replies because a pool was empty.",
    ),
];

/// The contents of all files, by their names.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    numbers: BTreeMap<String, Vec<u64>>,
    /// Settings that are no numbers.
    texts: BTreeMap<String, String>,
}

impl Values {
    /// Reads all files. Files that hold anything but numbers are left out, except settings.
    pub(crate) fn read(root: &Root) -> Result<Self, Gap> {
        let mut numbers = BTreeMap::new();
        let mut texts = BTreeMap::new();
        for name in root.names(SYSCTL)? {
            let text = root.read(&format!("{SYSCTL}/{name}"))?;
            if setting::find(&name).is_some_and(|setting| setting.bounds().is_none()) {
                texts.insert(name, text.trim().to_owned());
                continue;
            }
            let parsed = text.split_whitespace().map(str::parse).collect();
            if let Ok(parsed) = parsed {
                numbers.insert(name, parsed);
            }
        }
        Ok(Self { numbers, texts })
    }

    /// Returns the value of a setting.
    pub(crate) fn setting(&self, setting: &Setting) -> Option<String> {
        match setting.kind {
            Kind::Number { .. } => self.get(setting.name).map(|value| value.to_string()),
            Kind::Prefixes => self.texts.get(setting.name).cloned(),
        }
    }

    /// Returns the number of a file that holds one.
    pub(crate) fn get(&self, name: &str) -> Option<u64> {
        match self.numbers.get(name)?.as_slice() {
            &[number] => Some(number),
            _ => None,
        }
    }

    /// Returns the numbers of a file that holds several.
    pub(crate) fn list(&self, name: &str) -> Option<&[u64]> {
        let numbers = self.numbers.get(name)?.as_slice();
        (numbers.len() > 1).then_some(numbers)
    }

    /// Returns the counters: all files with one number that are no settings.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&str, u64)> {
        let single = self
            .numbers
            .keys()
            .filter_map(|name| Some((name.as_str(), self.get(name)?)));
        single.filter(|(name, _)| setting::find(name).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_reference() {
        let reference = include_str!("../../../Documentation/reference.rst");
        let (_, rest) = reference
            .split_once("\nCounters\n")
            .expect("a section on counters");
        let (section, _) = rest
            .split_once("\nSettings\n")
            .expect("a section on settings");
        // Later sections, as on latencies, describe files with several numbers.
        let section = section.split("\nLatencies\n").next().expect("a first part");
        let documented: Vec<&str> = section
            .lines()
            .filter_map(|line| line.strip_prefix("``")?.split_once("``  "))
            .map(|(name, _)| name.trim())
            .collect();
        let known: Vec<&str> = COUNTERS.iter().map(|counter| counter.name).collect();
        assert_eq!(known, documented);
        for line in section.lines() {
            let Some(counter) = COUNTERS
                .iter()
                .find(|counter| line.starts_with(&format!("``{}`` ", counter.name)))
            else {
                continue;
            };
            let falls = line.contains(" Now: ");
            assert_eq!(counter.class == Class::Gauge, falls, "{line}");
        }
    }
}

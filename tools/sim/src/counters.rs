// SPDX-License-Identifier: GPL-2.0

//! The module's counters, none of which runs backwards.

use bindings::{init_net, read_counters};
use std::collections::BTreeMap;

/// The numbers of present objects, which fall again.
const PRESENT: [&str; 4] = [
    "connections",
    "listeners",
    "host_connections",
    "host_listeners",
];

/// The counters when they were last read.
#[derive(Default)]
pub struct Counters(BTreeMap<String, Vec<i64>>);

impl Counters {
    /// Reads the counters again, and compares them.
    pub fn check(&mut self) {
        for (name, values) in read_counters(init_net()) {
            if let Some(before) = self.0.get(&name).filter(|_| !PRESENT.contains(&&*name)) {
                let is_less = before.iter().zip(&values).any(|(before, now)| before > now);
                assert!(!is_less, "{name} runs backwards: {before:?}, {values:?}");
            }
            self.0.insert(name, values);
        }
    }
}

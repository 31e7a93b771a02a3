// SPDX-License-Identifier: GPL-2.0

//! The modes in which nfsd reads and writes files.

use crate::{
    human::or_dash,
    root::Root, //
};
use serde_json::{
    json,
    Value, //
};

/// The modes by their numbers, see `fs/nfsd/nfsd.h` of the kernel.
const NAMES: [&str; 3] = ["buffered", "dontcache", "direct"];

/// The modes for READs and for WRITEs. A mode is not known without debugfs.
pub(crate) struct IoModes {
    read: Option<String>,
    write: Option<String>,
}

impl IoModes {
    /// Reads the modes.
    pub(crate) fn look(root: &Root) -> Self {
        let mode = |operation| {
            let number = root.line(&format!("/sys/kernel/debug/nfsd/io_cache_{operation}"))?;
            let name = number.parse::<usize>().ok().and_then(|at| NAMES.get(at));
            Some(name.map_or(number, |name| (*name).to_owned()))
        };
        Self {
            read: mode("read"),
            write: mode("write"),
        }
    }

    /// Returns the text for people.
    pub(crate) fn line(&self) -> String {
        let text = |mode: &Option<String>| or_dash(mode.clone(), |mode| mode);
        format!("READ {}, WRITE {}", text(&self.read), text(&self.write))
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> Value {
        json!({"read": self.read, "write": self.write})
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Model of a host, which may hold all pages.

use super::held::Held;

pub(crate) struct Host {
    held: Held,
}

impl Host {
    pub(crate) fn new() -> Self {
        let held = Held::new();
        held.count();
        Self { held }
    }

    pub(crate) fn add_reply_pages(&self, pages: i32) {
        self.held.add(pages);
    }

    pub(crate) fn reply_pages_left(&self, limit: u32) -> i64 {
        i64::from(limit) - self.held.count()
    }

    pub(crate) fn receives_share(&self, limit: u32) -> u32 {
        limit
    }
}

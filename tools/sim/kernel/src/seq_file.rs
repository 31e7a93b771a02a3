// SPDX-License-Identifier: GPL-2.0

//! Files of lines.

use crate::bindings;
use core::{cell::RefCell, fmt};

/// A file whose text stays in memory.
#[derive(Default)]
pub struct SeqFile(RefCell<String>);

impl SeqFile {
    pub unsafe fn from_raw<'a>(raw: *mut bindings::seq_file) -> &'a Self {
        // SAFETY: The simulator passes a file.
        unsafe { &(*raw).text }
    }

    pub fn print(&self, args: fmt::Arguments<'_>) {
        self.0.borrow_mut().push_str(&args.to_string());
    }

    pub fn text(&self) -> String {
        self.0.borrow().clone()
    }
}

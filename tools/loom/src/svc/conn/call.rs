// SPDX-License-Identifier: GPL-2.0

//! Model of a Call, which needs this number of pages.

pub(crate) struct Call(pub(crate) usize);

impl Call {
    pub(crate) fn sink_pages(&self) -> usize {
        self.0
    }
}

pub(crate) struct CallState;

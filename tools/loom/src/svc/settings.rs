// SPDX-License-Identifier: GPL-2.0

//! Model of the settings.

#[derive(Clone, Copy)]
pub(crate) struct ReplyPages {
    pub(crate) device: u32,
    pub(crate) connection: u32,
}

pub(crate) struct Limit(u32);

impl Limit {
    pub(crate) fn get(&self) -> u32 {
        self.0
    }
}

pub(crate) static RECEIVE_BUFFERS: Limit = Limit(16384);
